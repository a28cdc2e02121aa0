"""Our cost per round outside the two models' forwards: `python -m research.bench.overhead`.

The models are tables of random probabilities whose forward looks up a row, so nearly all time is ours. It is
processor time on one thread, which other work on the machine changes only through the caches.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch

from specdec.bench.contestants import Contestant, Workload, ours
from specdec.bench.profile import outside_forwards
from specdec.checks import whole
from specdec.commands import Parser, columns, ended, to_write, write_json
from specdec.decoding.run import measure_acceptance
from specdec.devices import machine
from specdec.methods import DRAFTING, METHODS
from specdec.models import MarkovModel
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair
from specdec.probs import Sampling
from specdec.topology import sequence

SCALE, DISTURBANCE = 3.3, 1.0
"""Standard deviations of the target's logits, and of the draft's errors: two of three drafts are accepted."""


def table_pair(vocab_size: int) -> ModelPair:
    """Target and draft with a random row [vocab_size] for each token."""
    generator = torch.Generator().manual_seed(0)
    logits = SCALE * torch.randn(vocab_size, vocab_size, generator=generator)
    target = MarkovModel(logits.softmax(-1), "target")
    logits += DISTURBANCE * torch.randn(vocab_size, vocab_size, generator=generator)
    return ModelPair(target, MarkovModel(logits.softmax(-1), "draft"))


def measure(vocab_size: int, tokens: int, repeats: int) -> list[dict[str, Any]]:
    """Milliseconds per round outside the forward passes, by method, on sequence(4) and optimal(8)."""
    pair, contestants = table_pair(vocab_size), []
    for method in DRAFTING:
        rates = measure_acceptance(pair, [0], method=method)
        for name, topology in (("sequence(4)", sequence(4)), ("optimal(8)", optimal_topology(rates, 8))):
            run = ours(pair, method, topology, Sampling())
            contestants.append(Contestant(f"{METHODS[method].name} {name}", "specdec", "float32", 1, run))
    times: dict[str, list[float]] = {each.name: [] for each in contestants}
    for seed in range(repeats):
        for each in contestants:
            times[each.name].append(outside_forwards(pair, each, Workload([0], seed, tokens)))
    return [{"name": name, "median": median(ms), "least": min(ms)} for name, ms in times.items()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints; ValueError is a user's mistake."""
    parser = Parser(prog="python -m research.bench.overhead", description=__doc__)
    parser.add_argument("--vocabulary", type=int, default=4096, help="tokens, up to 8192 (default: 4096)")
    parser.add_argument("--tokens", type=int, default=400, help="of each run (default: 400)")
    parser.add_argument("--repeats", type=int, default=20, help="runs of each (default: 20)")
    parser.add_argument("--json", type=to_write, help="write the figures here")
    options = parser.parse_args(arguments)
    settings = {
        "vocabulary": whole("vocabulary", options.vocabulary, 16, 8192),
        "tokens": whole("tokens", options.tokens, 8, 100_000),
        "repeats": whole("repeats", options.repeats, 1, 10_000),
    }
    torch.set_num_threads(1)
    rows = measure(*settings.values())
    lines = [[row["name"], f"{row['median']:.2f}", f"{row['least']:.2f}"] for row in rows]
    print(columns([["ms per round outside the forwards", "median", "least"], *lines], markdown=True))
    if options.json:
        about = machine(torch.device("cpu")) | {"load": os.getloadavg()[0]}
        result = {"machine": about, "settings": settings, "milliseconds": rows}
        write_json(options.json, result)


if __name__ == "__main__":
    with ended():
        main()
