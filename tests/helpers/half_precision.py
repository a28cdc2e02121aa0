"""How often ERSD's text in half precision is not that of autoregressive decoding, as one JSON file.

    python -m tests.helpers.half_precision --out assets/results/half_precision.json

In exact arithmetic the texts of one seed are equal. Half precision rounds a forward over one token otherwise
than one over several, and where two tokens arrive nearly together, that decides. After the first such token
the texts go their own ways, so a text counts once: per token means per token up to there. Prompts and seeds
are fixed; each text is decoded once autoregressively and once on each tree. float32 stands beside it.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

import specdec
from specdec.commands import write_json
from specdec.race import derived_seed
from specdec.stats import IndexAcceptance
from specdec.topology import Topology, batch, sequence

PROMPTS = (
    "Once upon a time",
    "Tom had a red ball.",
    "The hungry dog",
    "A bird found a shiny key.",
    "One day",
)
ACCEPTANCE = (0.6, 0.15, 0.07, 0.04, 0.02, 0.01)
"""About that of the embedded pair; only gives the optimal tree its shape."""
TREES: dict[str, Topology] = {
    "sequence(4)": sequence(4),
    "batch(4)": batch(4),
    "optimal(16)": specdec.optimal_topology(ACCEPTANCE, 16),
}


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """The index of the first token in which two texts differ, counting the end of the shorter one. None if
    they are equal."""
    if list(a) == list(b):
        return None
    different = (i for i, tokens in enumerate(zip(a, b, strict=False)) if tokens[0] != tokens[1])
    return next(different, min(len(a), len(b)))


def compared(pair: specdec.ModelPair, number: int, tokens: int) -> Iterator[tuple[str, int | None, int]]:
    """For each tree, the number of tokens up to and including the first difference between the texts of one
    prompt and seed."""
    settings = {"max_new_tokens": tokens, "seed": derived_seed(2027, number)}
    prompt = PROMPTS[number % len(PROMPTS)]
    plain = specdec.generate(pair, prompt, method="ar", **settings).token_ids
    for name, tree in TREES.items():
        ours = specdec.generate(pair, prompt, method="ersd", topology=tree, **settings).token_ids
        at = first_difference(plain, ours)
        yield name, at, len(plain) if at is None else at + 1


def rows(dtype: str, texts: int, tokens: int) -> list[dict[str, Any]]:
    """A row for each tree: texts, differing texts, tokens, and both rates with Wilson's 95% interval."""
    pair = specdec.load_pair("stories", dtype=dtype)
    counts = {name: [0, 0] for name in TREES}
    for number in range(texts):
        for name, at, length in compared(pair, number, tokens):
            counts[name][0] += at is not None
            counts[name][1] += length
    return [row(dtype, name, texts, different, length) for name, (different, length) in counts.items()]


def row(dtype: str, tree: str, texts: int, different: int, tokens: int) -> dict[str, Any]:
    """One line of the report."""
    return {
        "dtype": dtype,
        "topology": tree,
        "texts": texts,
        "different": different,
        "tokens": tokens,
        "per_text": _rate(different, texts),
        "per_token": _rate(different, tokens),
    }


def _rate(count: int, total: int) -> list[float]:
    """A rate and both ends of its interval."""
    estimate = IndexAcceptance(0, accepted=count, offered=total)
    return [round(number, 5) for number in (estimate.rate, *estimate.interval())]


def measure(texts: int, tokens: int) -> dict[str, Any]:
    """The whole report: all texts in bfloat16, and a tenth of them in float32."""
    report_rows = rows("bfloat16", texts, tokens) + rows("float32", max(1, texts // 10), tokens)
    for each in report_rows:
        print(each, flush=True)
    about = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "native_bfloat16": bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()),
        "threads": torch.get_num_threads(),
        "tokens_per_text": tokens,
    }
    return {"about": about, "rows": report_rows}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=200, help="of each tree")
    parser.add_argument("--tokens", type=int, default=140, help="of each text")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    report = measure(options.texts, options.tokens)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_json(options.out, report)
    print(f"{options.out} written after {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
