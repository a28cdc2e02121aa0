"""Predicted and measured speed-up of six set-ups: `python -m research.payoff`.

The prediction comes from acceptance on a few fixed prompts, and from the times of rounds on a few trees. In
the measurement, plain and speculative decoding of the same prompts take turns, half a text each, so that
other work on the machine slows both alike. Prefills are not counted. All set-ups take turns, and each
prediction is the median of several, because a machine is faster at some times than at others.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from specdec.commands import Parser, columns, ended, to_write
from specdec.decoding.acceptance import finished, fixed_prompts
from specdec.decoding.batch import Batch
from specdec.decoding.run import stream
from specdec.loading import load_with_progress
from specdec.pair import ModelPair
from specdec.payoff.command import save
from specdec.payoff.measuring import measuring
from specdec.payoff.setups import THOROUGH, SetUp
from specdec.payoff.verdict import gain_of
from specdec.probs import Sampling
from specdec.race import derived_seed
from specdec.settings import RunSettings
from specdec.shipped import SMOLLM2, STORIES
from specdec.topology import named
from specdec.trace import Method

WITHIN = 0.1
"""The largest accepted difference between prediction and measurement, as a share of the measurement."""
_SEED = 0x70617966
_BLOCK = 24
"""Tokens of each text in a turn of one side. The first rounds of a turn are slow, so turns are long."""
_REPEATS = 3
"""Number of predictions and of measurements for each set-up."""
_TEXTS = 16
"""Number of texts of each measurement."""
_LENGTH = 48
"""Number of tokens of each text."""


class Case(NamedTuple):
    """A set-up to check: a pair's name, a verification rule, a tree, a batch size and a temperature."""

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

    load: returns a pair by its name. predicted: the median, with its set-up. measured: of all texts together,
    with the quartiles of the groups of texts that are decoded together.
    """
    pairs = {name: load(name) for name in dict.fromkeys(case.pair for case in cases)}
    repeats, texts, length = (1, 1, _BLOCK) if smoke else (_REPEATS, _TEXTS, _LENGTH)
    setups: dict[Case, list[SetUp]] = {case: [] for case in cases}
    groups: dict[Case, list[tuple[Spent, Spent]]] = {case: [] for case in cases}
    for repeat in range(repeats):
        for pair in pairs.values():
            pair.measurements.clear()
        for case in cases:
            numbers = range(repeat * texts, (repeat + 1) * texts)
            setups[case].append(setup_of(pairs[case.pair], case))
            groups[case] += decoded(pairs[case.pair], case, numbers, length)
    return [row_of(case, setups[case], groups[case]) for case in cases]


def row_of(case: Case, setups: Sequence[SetUp], groups: Sequence[tuple[Spent, Spent]]) -> dict[str, Any]:
    """The result of a case. groups: the tokens and times of drafting and plain decoding for each group of
    texts."""
    gains = sorted((gain_of(setup, named(case.tree)), number) for number, setup in enumerate(setups))
    predicted, number = gains[len(gains) // 2]
    low, high = np.quantile([speed_up(*sides) for sides in groups], (0.25, 0.75)).tolist()
    value = speed_up(*(Spent(*total) for total in np.sum(groups, axis=0)))
    measured = {"value": float(value), "low": low, "high": high, "repeats": len(groups)}
    return case._asdict() | {
        "predicted": predicted,
        "measured": measured,
        "setup": setups[number].as_json(),
    }


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
    return finished(measuring(pair, settings, case.texts, THOROUGH))


class Spent(NamedTuple):
    """Tokens of the rounds in which all texts of a group took part, and the seconds of these rounds."""

    tokens: int
    seconds: float


def speed_up(drafting: Spent, plain: Spent) -> float:
    """Tokens per second of drafting, divided by those of plain decoding."""
    return drafting.tokens / drafting.seconds / (plain.tokens / plain.seconds)


def decoded(pair: ModelPair, case: Case, texts: range, length: int) -> list[tuple[Spent, Spent]]:
    """The tokens and times of drafting and plain decoding for each group of texts that are decoded together.

    texts: the numbers of the texts, which decide prompts and seeds. At least one group is decoded.
    """
    prompts = fixed_prompts(pair)
    groups = []
    for first in range(texts.start, max(texts.stop - case.texts, texts.start) + 1, case.texts):
        numbers = range(first, first + case.texts)
        asked = [(prompts[number % len(prompts)], derived_seed(_SEED, number)) for number in numbers]
        sides = [
            _Side(pair, asked, length, method=method, topology=named(case.tree), temperature=case.temperature)
            for method in (case.method, "ar")
        ]
        for goal in range(_BLOCK, length + 1, _BLOCK):
            for side in sides if goal // _BLOCK % 2 else reversed(sides):
                side.advance(goal * case.texts)
        drafting, plain = (Spent(side.tokens, side.seconds) for side in sides)
        if drafting.tokens and plain.tokens:  # only rounds in which all texts of the group took part
            groups.append((drafting, plain))
    return groups


class _Side:
    """Texts that are decoded together. tokens, seconds: of the rounds in which all of them took part."""

    def __init__(
        self, pair: ModelPair, asked: Sequence[tuple[Sequence[int], int]], length: int, **settings: Any
    ):
        self._batch, self._texts = Batch(pair), len(asked)
        for prompt_ids, seed in asked:
            self._batch.add(
                stream(pair, prompt_ids, seed=seed, max_new_tokens=2 * length, detail=False, **settings)
            )
        self.tokens, self.seconds = 0, 0.0

    def advance(self, tokens: int) -> None:
        """Decode until there are this many tokens, or until a text has ended."""
        while self.tokens < tokens and len(self._batch) == self._texts:
            start = time.perf_counter()
            members = self._batch.step()
            seconds = time.perf_counter() - start
            if len(members) == self._texts:
                self.tokens += sum(len(member.round.tokens) for member in members if member.round)
                self.seconds += seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Compares and prints."""
    parser = Parser(prog="python -m research.payoff", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="every stage, in seconds")
    parser.add_argument(
        "--save", type=to_write, metavar="FILE", help="write the results and the machine here"
    )
    options = parser.parse_args(arguments)
    rows = checked(lambda name: load_with_progress(Namespace(), target=name), smoke=options.smoke)
    print(table(rows))
    if options.save:
        save(options.save, {"check": rows})


if __name__ == "__main__":
    with ended():
        main()
