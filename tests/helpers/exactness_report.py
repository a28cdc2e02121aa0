"""The exactness of the embedded pair and of the verifiers, at length, as one JSON file.

    PYTHONPATH=. python tests/helpers/exactness_report.py --out assets/results/exactness.json

Drafter invariance: tokens of ERSD against autoregressive decoding, same seeds, all topologies. χ²: the law of
the first two tokens against the target's own, with negative controls that must fail. Timing: medians of the
stages of one round. The tests check the same on fewer tokens.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import statistics
import time
from pathlib import Path

import torch
import transformers

import specdec
from specdec.commands import write_json
from specdec.exactness.faults import FAULTS
from specdec.exactness.losslessness import Check
from specdec.race import derived_seed
from specdec.topology import Topology, batch, sequence, simple, specinfer
from tests.core.test_exactness import TREE, adversarial_pair, small_pair
from tests.helpers.laws import FALSE_ALARM

PROMPTS = [
    "Once upon a time",
    "Tom had a red ball.",
    "The hungry dog",
    "A bird found a shiny key.",
    "One day",
]
ACCEPTANCE = [0.6, 0.15, 0.07, 0.04, 0.02, 0.01]
"""About that of the embedded pair; only gives the optimal tree of this report its shape."""


def topologies() -> dict[str, Topology]:
    """The topologies of the report."""
    return {
        "simple": simple(),
        "sequence(4)": sequence(4),
        "batch(4)": batch(4),
        "specinfer(8)": specinfer(8),
        "optimal(16)": specdec.optimal_topology(ACCEPTANCE, 16),
    }


def invariance(pair: specdec.ModelPair, num_tokens: int) -> list[dict]:
    """Per topology: tokens compared with autoregressive decoding, and how many runs differ."""
    rows = []
    for name, topology in topologies().items():
        tokens = mismatches = number = 0
        while tokens < num_tokens:
            settings = {"max_new_tokens": 200, "seed": derived_seed(2026, number)}
            prompt = PROMPTS[number % len(PROMPTS)]
            plain = specdec.generate(pair, prompt, method="ar", **settings).token_ids
            ours = specdec.generate(pair, prompt, method="ersd", topology=topology, **settings).token_ids
            tokens += len(plain)
            mismatches += sum(a != b for a, b in zip(plain, ours, strict=False)) + abs(len(plain) - len(ours))
            number += 1
        rows.append({"topology": name, "tokens": tokens, "mismatches": mismatches})
        print(f"drafter invariance: {rows[-1]}", flush=True)
    return rows


def chi_square(samples: int) -> list[dict]:
    """p-values of every method and topology, and of deliberately broken verifiers."""
    rows = []
    for method, shape in [
        ("ar", simple()),
        *((m, t) for m in ("gsd", "ersd") for t in (sequence(2), batch(4), TREE)),
    ]:
        rows.append(chi_square_row(method, shape, adversarial_pair(), samples, 2))
    for broken in (None, "residual-from-race"):
        rows.append(chi_square_row("gsd", simple(), small_pair(), 2 * samples, 1, broken))
    siblings = (None, "kept-draft", "kept-target", "uniform-from-race", "shared-uniform")
    for topology, broken in itertools.product((batch(2), TREE), siblings):
        rows.append(chi_square_row("gsd", topology, small_pair(), 3 * samples, 1, broken))
    return rows


def chi_square_row(method, topology, pair, samples, length, broken=None) -> dict:
    """One test. broken: the name of the fault that it must detect."""
    check = Check(
        pair, [0], method=method, topology=topology, length=length, seed=0, fault=FAULTS.get(broken)
    )
    for _ in range(samples):
        check.decode()
    p_value = check.chi_square().p_value
    row = {
        "method": method,
        "topology": str(topology),
        "broken": broken,
        "samples": samples,
        "p_value": p_value,
        "as_expected": (p_value > FALSE_ALARM) == (broken is None),
    }
    print(f"chi square: {row}", flush=True)
    return row


def timing(pair: specdec.ModelPair) -> list[dict]:
    """Median milliseconds of the stages of one round, without detail, on one thread."""
    rows = []
    for method in ("ar", "gsd", "ersd"):
        for name, topology in topologies().items():
            if method == "ar" and name != "simple":
                continue
            rounds = []
            for seed in range(8):
                g = specdec.generate(
                    pair, PROMPTS[0], method=method, topology=topology, max_new_tokens=150, seed=seed
                )
                rounds += g.rounds
            stages = {
                stage: 1e3 * statistics.median(getattr(round.seconds, stage) for round in rounds)
                for stage in ("draft", "evaluate", "verify", "rest")
            }
            tokens = sum(len(round.tokens) for round in rounds)
            seconds = sum(round.seconds.total for round in rounds)
            rows.append(
                {
                    "method": method,
                    "topology": "-" if method == "ar" else name,
                    "milliseconds": stages,
                    "block_efficiency": tokens / len(rounds),
                    "tokens_per_second": tokens / seconds,
                }
            )
            print(f"timing: {rows[-1]}", flush=True)
    return rows


def main() -> None:
    """Measure everything and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=10_000, help="per topology, for drafter invariance")
    parser.add_argument("--samples", type=int, default=4000, help="per χ² test")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pair = specdec.load_pair("stories")
    start = time.perf_counter()
    report = {
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "false_alarm": FALSE_ALARM,
        "timing": timing(pair),
        "invariance": invariance(pair, options.tokens),
        "chi_square": chi_square(options.samples),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_json(options.out, report)
    print(f"{options.out} written after {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
