"""Will speculative decoding pay for a pair on this machine? `python -m specdec.payoff --target T --draft D`.

The costs and the acceptance are those that "auto" measures. What limits the gain is found by asking what the
best tree would gain if one thing were free: a draft that is always right, a draft without cost, rows of the
target without cost, or no work outside the forwards.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from specdec.checks import whole
from specdec.commands import Parser, ended
from specdec.decoding.auto import Choice, choosing, chosen, finished
from specdec.decoding.costs import ForwardCost, JointCost, Overhead
from specdec.decoding.engine import RunSettings, verifier_of
from specdec.methods import DRAFTING
from specdec.probs import Sampling

PAYS = 1.02
"""Speed-up above which drafting is said to pay: less is within the error of the measurement."""
_FREE = JointCost({1: ForwardCost({1: [0.0]})})


class Payoff(NamedTuple):
    """The gain of the best tree, times plain decoding, and what it would be without one limit.

    drafted: tokens of the best tree. tokens_per_call: expected. without: the speed-up without each limit, by
    the limit's name.
    """

    speed_up: float
    drafted: int
    tokens_per_call: float
    without: dict[str, float]

    @classmethod
    def of(cls, choice: Choice) -> Payoff:
        """The payoff of a measured choice."""
        best = next(each for each in choice.candidates if each.chosen)
        costs, texts = choice.costs, choice.at_once
        one_row = ForwardCost({1: [costs.target.seconds(texts, texts)]})
        changed = {
            "drafts that are rejected": costs,
            "the draft's time": replace(costs, draft=_FREE, overhead=replace(costs.overhead, level=0.0)),
            "the target's time for further rows": replace(costs, target=JointCost({texts: one_row})),
            "the work outside the forwards": replace(costs, overhead=Overhead(0.0, 0.0, 0.0, 0.0)),
        }
        always = np.array([1.0])
        without = {
            name: _speed_up(chosen(always if "rejected" in name else choice.acceptance, cost, texts))
            for name, cost in changed.items()
        }
        return cls(_speed_up(choice), len(best.paths), best.expected_tokens, without)

    def sentences(self) -> list[str]:
        """What it gains, what limits it, and what it could reach."""
        limit, reach = max(self.without.items(), key=lambda item: item[1])
        if self.speed_up >= PAYS:
            gain = (
                f"Speculation pays: {self.speed_up:.2f} times plain decoding, with {self.drafted} drafted "
                f"tokens and {self.tokens_per_call:.2f} tokens per target call."
            )
        else:
            gain = "Speculation does not pay here: no tree is faster than plain decoding."
        others = ", ".join(f"{name} {value:.2f}" for name, value in self.without.items() if name != limit)
        return [
            gain,
            f"What limits it most: {limit}.",
            f"Without that it could reach {reach:.2f} times; without one of the others: {others}.",
        ]


def _speed_up(choice: Choice) -> float:
    rates = [each.tokens_per_second for each in choice.candidates]
    return max(rates) / rates[0]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints three sentences; ValueError is a user's mistake."""
    parser = Parser(prog="python -m specdec.payoff", description=__doc__)
    add, default = parser.add_argument, " (default: %(default)s)"
    add("--target", help="hub id, folder or GGUF file, or a pair of ours: smollm2, stories")
    add("--draft")
    add("--device", default="auto")
    add("--dtype", default="auto")
    add("--method", default="ersd", help=", ".join(DRAFTING) + default)
    add("--temperature", type=float, default=1.0)
    add("--texts", type=int, default=1, help="decoded at once" + default)
    add("--json", action="store_true", help="the numbers as one line of JSON")
    options = parser.parse_args(arguments)
    verifier_of(options.method)
    if options.method not in DRAFTING:
        raise ValueError(f"method = {options.method!r} drafts nothing; give one of {', '.join(DRAFTING)}")
    texts = whole("texts", options.texts, 1)
    settings = RunSettings(options.method, 1, Sampling(options.temperature), None, False)
    from specdec.loading import load_with_progress

    pair = load_with_progress(options, target=options.target)
    payoff = Payoff.of(finished(choosing(pair, settings, texts)))
    print(json.dumps(payoff._asdict()) if options.json else "\n".join(payoff.sentences()))


if __name__ == "__main__":
    with ended():
        main()
