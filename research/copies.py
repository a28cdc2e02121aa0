"""What copied paths add to the draft model's tree, on prompts that are rewritten and on others.

    python -m research.copies --target target.gguf --draft draft.gguf

Each prompt is answered with every drafter, in turns and with the same seeds. Ratios compare the tokens per
second of such answers, prompts aside, so that other work on the machine slows both alike; the last column is
the same in processor time, which other work hardly changes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import specdec
from specdec import topology
from specdec.commands import Parser, add_pair, columns, ended
from specdec.decoding.run import Run
from specdec.drafters.copies import COPIES, MODEL_AND_COPIES
from specdec.drafters.proposed import MODEL, Drafting, drafter_name
from specdec.loading import load_with_progress
from specdec.pair import ModelPair
from specdec.settings import add_options

_CODE = '''
def read_orders(path, currency):
    """Liest alle Bestellungen einer Datei."""
    orders = []
    with open(path) as file:
        for line in file:
            # leere Zeilen werden ignoriert
            if not line.strip():
                continue
            name, amount, price = line.split(",")
            orders.append((name, int(amount), float(price), currency))
    return orders


def total_by_name(orders, discount):
    """Berechnet die Summe für jeden Namen."""
    totals = {}
    for name, amount, price, currency in orders:
        # Rabatt nur für große Mengen
        if amount > 100:
            price = price * (1 - discount)
        totals[name] = totals.get(name, 0) + amount * price
    return totals
'''
REWRITTEN = {
    "type hints": f"Add type hints to this code. Answer with the code only.\n{_CODE}",
    "rename": f"Rename the variable orders to purchases everywhere. Answer with the code only.\n{_CODE}",
    "translate": f"Translate the comments and docstrings to English. Answer with the code only.\n{_CODE}",
}
OTHERS = {
    "story": "Tell me a short story about a lighthouse and a storm.",
    "new code": "Write a Python class for a queue with a limit of waiting items, with tests.",
}


class Timed(NamedTuple):
    """A run's tokens, target calls, tokens per second, and tokens per second of processor time."""

    tokens: int
    calls: int
    rate: float
    processor_rate: float


def main() -> None:
    """Measures and prints."""
    parser = Parser(prog="python -m research.copies", description=__doc__)
    add_pair(parser)
    parser.add_argument("--topology", default="sequence(4)", help="of the draft model, or auto")
    parser.add_argument("--repeats", type=int, default=2, help="seeds for each prompt (default: 2)")
    add_options(parser, "method", "max_new_tokens", "temperature")
    parser.set_defaults(max_new_tokens=128, temperature=0.3)
    options = parser.parse_args()
    pair = load_with_progress(options)
    tree = options.topology if options.topology == "auto" else topology.named(options.topology)
    rows = [["prompt", "tokens", "drafter", "calls", "tokens/s", f"of {MODEL}", "processor"]]
    settings = {name: getattr(options, name) for name in ("method", "max_new_tokens", "temperature")}
    for name, prompt in (REWRITTEN | OTHERS).items():
        rows += compared(pair, name, prompt, options.repeats, settings | {"topology": tree})
        print(columns(rows[-3:]), flush=True)
    print(columns(rows, markdown=True))


def compared(pair: ModelPair, name: str, prompt: str, repeats: int, settings: dict) -> list[list[str]]:
    """A row of the table for each drafter."""
    ids = pair.chat_prompt(prompt) if pair.chats else pair.encode(prompt)
    runs: dict[Drafting, list[Timed]] = {MODEL: [], MODEL_AND_COPIES: [], COPIES: []}
    for drafter in runs:  # caches and compiled code are made now
        specdec.generate(pair, ids, drafter=drafter, seed=0, **settings | {"max_new_tokens": 8})
    for seed in range(repeats):
        for drafter, each in runs.items():
            each.append(
                timed(specdec.stream(pair, ids, drafter=drafter, seed=seed, detail=False, **settings))
            )
    return [
        [
            name,
            str(sum(run.tokens for run in each)),
            drafter_name(drafter),
            str(sum(run.calls for run in each)),
            f"{median(run.rate for run in each):.1f}",
            *(f"{_ratio(each, runs[MODEL], kind):.2f}" for kind in ("rate", "processor_rate")),
        ]
        for drafter, each in runs.items()
    ]


def timed(run: Run) -> Timed:
    """Decodes a run. The first round, which takes in the prompt, counts in no rate."""
    next(run)
    start = time.process_time()
    for _ in run:
        pass
    seconds, later = time.process_time() - start, run.rounds[1:]
    tokens = sum(len(round.tokens) for round in later)
    rates = tokens / sum(round.seconds.total for round in later), tokens / seconds
    return Timed(len(run.generation.token_ids), len(run.rounds), *rates)


def _ratio(runs: Sequence[Timed], others: Sequence[Timed], kind: str) -> float:
    return median(getattr(run, kind) / getattr(other, kind) for run, other in zip(runs, others, strict=True))


if __name__ == "__main__":
    with ended():
        main()
