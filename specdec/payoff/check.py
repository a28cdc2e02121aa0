"""Predicted and measured speed-up of six set-ups: `python -m specdec.payoff --check`.

The prediction comes from what "auto" measures: acceptance on a few fixed prompts, and the times of single
forwards. For the measurement plain and speculative decoding of the same prompts take turns, a few tokens
each, so that other work on the machine slows both alike. Prefills are not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from specdec.commands import columns
from specdec.decoding.auto import choosing, finished, fixed_prompts
from specdec.decoding.batch import Batch
from specdec.decoding.engine import RunSettings
from specdec.decoding.run import stream
from specdec.loading import SMOLLM2, STORIES
from specdec.pair import ModelPair
from specdec.payoff.setups import SetUp, measured
from specdec.payoff.verdict import gain_of
from specdec.probs import Sampling
from specdec.race import derived_seed
from specdec.topology import Topology, named
from specdec.trace import Method

WITHIN = 0.1
"""The largest difference of prediction and measurement, as a share of the measurement."""
_SEED = 0x70617966
_BLOCK = 8
"""Tokens of each text that one side decodes before the other side's turn."""
_TEXTS = 12
"""Texts that each side decodes for a set-up, at least."""
_LENGTH = 48
"""Tokens of each of them."""


class Case(NamedTuple):
    """A set-up to check: a pair of ours, a rule, a tree, texts at once and a temperature."""

    pair: str
    method: Method
    tree: str
    texts: int = 1
    temperature: float = 1.0


CASES = (
    Case(STORIES, "ersd", "sequence(2)"),
    Case(STORIES, "gsd", "sequence(4)"),
    Case(STORIES, "ersd", "sequence(1)", texts=4),
    Case(SMOLLM2, "ersd", "sequence(3)"),
    Case(SMOLLM2, "gsd", "specinfer(8)", temperature=0.7),
    Case(SMOLLM2, "ersd", "sequence(2)", texts=4),
)


def checked(
    load: Callable[[str], ModelPair], cases: Sequence[Case] = CASES, smoke: bool = False
) -> list[dict[str, Any]]:
    """The set-up of each case, its predicted speed-up, and the measured one.

    load: returns a pair by its name. measured: the median over texts, with its quartiles.
    """
    pairs = {name: load(name) for name in dict.fromkeys(case.pair for case in cases)}
    rows = []
    for case in cases:
        setup, tree = setup_of(pairs[case.pair], case), named(case.tree)
        ratios = speed_ups(pairs[case.pair], case, tree, 1 if smoke else _TEXTS, 8 if smoke else _LENGTH)
        low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75)).tolist()
        row = case._asdict() | {"predicted": gain_of(setup, tree)}
        row |= {"measured": {"value": middle, "low": low, "high": high, "repeats": len(ratios)}}
        rows.append(row | {"setup": setup.as_json()})
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """One line for each set-up."""
    lines = [["set-up", "predicted", "measured", "quartiles", "difference"]]
    for row in rows:
        values, texts = row["measured"], "1 text" if row["texts"] == 1 else f"{row['texts']} texts"
        name = f"{row['pair']}, {row['method'].upper()} {row['tree']}, {texts}, T = {row['temperature']:g}"
        difference = row["predicted"] / values["value"] - 1
        verdict = "" if abs(difference) <= WITHIN else f", above {WITHIN:.0%}"
        quartiles = f"{values['low']:.2f} to {values['high']:.2f}"
        numbers = [f"{row['predicted']:.2f}", f"{values['value']:.2f}", quartiles]
        lines.append([name, *numbers, f"{difference:+.0%}{verdict}"])
    return columns(lines, markdown=True)


def setup_of(pair: ModelPair, case: Case) -> SetUp:
    """The measured set-up of a case."""
    settings = RunSettings(case.method, 1, Sampling(case.temperature), None, False)
    return measured(finished(choosing(pair, settings, case.texts)), case.texts)


def speed_ups(pair: ModelPair, case: Case, tree: Topology, texts: int, length: int) -> list[float]:
    """Times plain decoding, once for each group of texts that are decoded together."""
    prompts = fixed_prompts(pair)
    ratios = []
    for group in range(max(1, texts // case.texts)):
        numbers = range(group * case.texts, (group + 1) * case.texts)
        asked = [(prompts[number % len(prompts)], derived_seed(_SEED, number)) for number in numbers]
        sides = [
            _Side(pair, asked, length, method=method, topology=tree, temperature=case.temperature)
            for method in (case.method, "ar")
        ]
        for goal in range(_BLOCK, length + 1, _BLOCK):
            for side in sides if goal // _BLOCK % 2 else reversed(sides):
                side.advance(goal * case.texts)
        drafting, plain = sides
        ratios.append(drafting.rate / plain.rate)
    return ratios


class _Side:
    """Texts that are decoded together. rate: tokens per second of the rounds in which all took part."""

    def __init__(
        self, pair: ModelPair, asked: Sequence[tuple[Sequence[int], int]], length: int, **settings: Any
    ):
        self._batch, self._texts = Batch(pair), len(asked)
        for prompt_ids, seed in asked:
            self._batch.add(
                stream(pair, prompt_ids, seed=seed, max_new_tokens=2 * length, detail=False, **settings)
            )
        self._tokens, self._seconds = 0, 0.0

    def advance(self, tokens: int) -> None:
        """Decodes until there are this many tokens, or until a text has ended."""
        while self._tokens < tokens and len(self._batch) == self._texts:
            start = time.perf_counter()
            members = self._batch.step()
            seconds = time.perf_counter() - start
            if len(members) == self._texts:
                self._tokens += sum(len(member.round.tokens) for member in members if member.round)
                self._seconds += seconds

    @property
    def rate(self) -> float:
        return self._tokens / self._seconds
