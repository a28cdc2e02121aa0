"""Compares predicted and measured speed-ups of six set-ups: `python -m research.payoff`.

The prediction comes from acceptance on a few fixed prompts, and from the times of rounds on a few trees. For
the measurement, plain and speculative decoding of the same prompts take turns, so that other work on the
machine slows both alike. Prefills are not counted. All set-ups take turns, and each prediction is the median
of several, because a machine's speed varies.
"""

import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from specdec import ModelPair, Topology, stream
from specdec.commands import Parser, columns, to_write, without_traceback
from specdec.decoding.acceptance import finished, fixed_prompts
from specdec.decoding.batch import Batch
from specdec.decoding.fastest import with_repeated
from specdec.decoding.joint_trees import nodes_of, rounds
from specdec.loading import load_with_progress
from specdec.payoff.command import save
from specdec.payoff.measuring import measuring
from specdec.payoff.setups import THOROUGH, SetUp
from specdec.probs import Sampling
from specdec.race import derived_seed
from specdec.settings import RunSettings
from specdec.shipped import SMOLLM2, STORIES
from specdec.topology import named
from specdec.trace import Method

WITHIN = 0.1  # the largest accepted difference between prediction and measurement, as a share
_SEED = 0x70617966
_REPEATS, _TEXTS, _LENGTH = 3, 16, 48
"""Predictions and measurements per set-up; texts per measurement; tokens per text."""


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


def checked(load: Callable[[str], ModelPair], smoke: bool = False) -> list[dict[str, Any]]:
    """For each case, the set-up and the predicted and measured speed-up. load: loads a pair by its name."""
    pairs = {name: load(name) for name in dict.fromkeys(case.pair for case in CASES)}
    repeats, texts, length = (1, 1, _LENGTH // 2) if smoke else (_REPEATS, _TEXTS, _LENGTH)
    setups: dict[Case, list[SetUp]] = {case: [] for case in CASES}
    groups: dict[Case, list[np.ndarray]] = {case: [] for case in CASES}
    for repeat in range(repeats):
        for pair in pairs.values():
            pair.measurements.clear()
        for case in CASES:
            pair, first = pairs[case.pair], repeat * texts
            settings = RunSettings(case.method, 1, Sampling(case.temperature), None, False)
            setups[case].append(finished(measuring(pair, settings, case.texts, THOROUGH)))
            last = max(first + texts - case.texts, first)
            for number in range(first, last + 1, case.texts):
                sides = decoded(pair, case, number, length)
                if sides[:, 0].all():  # false if a text ended in its first round
                    groups[case].append(sides)
    return [row_of(case, setups[case], groups[case]) for case in CASES]


def gain_of(setup: SetUp, tree: Topology) -> float:
    """The predicted speed-up over plain decoding if each text has this tree."""
    nodes = nodes_of(setup.acceptance, tree)
    plain, *_, drafting = rounds(nodes, setup.costs, setup.texts, setup.texts)
    drafting = with_repeated(drafting, nodes, setup.acceptance, setup.costs, setup.texts)
    return drafting.rate / plain.rate


def row_of(case: Case, setups: Sequence[SetUp], groups: Sequence[np.ndarray]) -> dict[str, Any]:
    """The row of results for a case.

    groups: the result of `decoded` for each group of texts. In the row, predicted is the median prediction,
    with its set-up; measured is the speed-up over all texts, with the quartiles over the groups.
    """
    gains = sorted((gain_of(setup, named(case.tree)), number) for number, setup in enumerate(setups))
    prediction, number = gains[len(gains) // 2]
    low, high = np.quantile([speed_up(group) for group in groups], (0.25, 0.75)).tolist()
    value = speed_up(np.sum(groups, axis=0))
    measurement = {"value": value, "low": low, "high": high, "repeats": len(groups)}
    values = {"predicted": prediction, "measured": measurement}
    return case._asdict() | values | {"setup": setups[number].as_json()}


def speed_up(sides: np.ndarray) -> float:
    """Tokens per second with drafts, divided by those of plain decoding. sides: a result of `decoded`."""
    rate, plain = (sides[:, 0] / sides[:, 1]).tolist()
    return rate / plain


def decoded(pair: ModelPair, case: Case, number: int, length: int) -> np.ndarray:
    """Numbers of tokens and seconds, [2, 2], of texts that are decoded together: in the first row with
    drafts, in the second row by plain decoding.

    number: of the first text; it determines the prompts and seeds. Only rounds in which all texts take part
    are counted.
    """
    prompts, sides = fixed_prompts(pair), np.zeros((2, 2))
    turns: list[tuple[int, Method]] = [(0, case.method), (1, "ar")]
    settings: dict[str, Any] = {"topology": named(case.tree), "temperature": case.temperature}
    settings |= {"max_new_tokens": 2 * length, "detail": False}
    for side, method in turns if number // case.texts % 2 else reversed(turns):
        batch = Batch(pair)
        for text in range(number, number + case.texts):
            prompt, seed = prompts[text % len(prompts)], derived_seed(_SEED, text)
            batch.add(stream(pair, prompt, method=method, seed=seed, **settings))
        while sides[side, 0] < length * case.texts and len(batch) == case.texts:
            start = time.perf_counter()
            members = batch.step()
            seconds = time.perf_counter() - start
            if len(members) == case.texts:
                sides[side] += sum(len(each.round.tokens) for each in members if each.round), seconds
    return sides


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A table in Markdown with one line for each set-up."""
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Compares predictions with measurements, and prints the table."""
    parser = Parser("python -m research.payoff", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="only try every stage, in seconds")
    parser.add_argument("--save", type=to_write, metavar="FILE", help="file for the results and the machine")
    options = parser.parse_args(arguments)
    rows = checked(lambda name: load_with_progress(Namespace(), target=name), options.smoke)
    print(table(rows))
    if options.save:
        save(options.save, {"check": rows})


if __name__ == "__main__":
    with without_traceback():
        main()
