"""What copied paths add to the draft model's tree, on prompts that are rewritten and on others.

    python -m research.copies --target target.gguf --draft draft.gguf

Each prompt is answered with every drafter, in turns and with the same seeds. Ratios compare the tokens per
second of such answers, prompts aside, so that other work on the machine slows both alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import specdec
from specdec import topology
from specdec.commands import Parser, add_pair, columns, ended
from specdec.drafters.copies import COPIES, MODEL_AND_COPIES
from specdec.drafters.proposed import MODEL, Drafting, drafter_name
from specdec.loading import load_with_progress
from specdec.pair import ModelPair
from specdec.settings import add_options
from specdec.trace import Generation

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
    rows = [["prompt", "tokens", "drafter", "calls", "tokens/s", f"of {MODEL}"]]
    settings = {name: getattr(options, name) for name in ("method", "max_new_tokens", "temperature")}
    for name, prompt in (REWRITTEN | OTHERS).items():
        rows += compared(pair, name, prompt, options.repeats, settings | {"topology": tree})
        print(columns(rows[-3:]), flush=True)
    print(columns(rows, markdown=True))


def compared(pair: ModelPair, name: str, prompt: str, repeats: int, settings: dict) -> list[list[str]]:
    """A row of the table for each drafter."""
    ids = pair.chat_prompt(prompt) if pair.chats else pair.encode(prompt)
    runs: dict[Drafting, list[Generation]] = {MODEL: [], MODEL_AND_COPIES: [], COPIES: []}
    for drafter in runs:  # caches and compiled code are made now
        specdec.generate(pair, ids, drafter=drafter, seed=0, **settings | {"max_new_tokens": 8})
    for seed in range(repeats):
        for drafter, each in runs.items():
            each.append(specdec.generate(pair, ids, drafter=drafter, seed=seed, **settings))
    return [
        [
            name,
            str(sum(len(run.token_ids) for run in each)),
            drafter_name(drafter),
            str(sum(run.num_target_calls for run in each)),
            f"{median(map(_rate, each)):.1f}",
            f"{_ratio(each, runs[MODEL]):.2f}",
        ]
        for drafter, each in runs.items()
    ]


def _ratio(runs: Sequence[Generation], others: Sequence[Generation]) -> float:
    return median(_rate(run) / _rate(other) for run, other in zip(runs, others, strict=True))


def _rate(run: Generation) -> float:
    return len(run.token_ids) / run.seconds


if __name__ == "__main__":
    with ended():
        main()
