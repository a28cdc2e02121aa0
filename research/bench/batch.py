"""Tokens per second of many runs at once, compared with runs in turns: `python -m research.bench.batch`.

In turns: one round of each run is decoded after another, on the tree that is fastest for a single run.
Together, one forward pass serves all runs, on the tree that was fastest for this number of runs in a trial.
All texts are written by ERSD and are equally long. The two ways are timed immediately one after the other,
with their prefills, and each ratio compares such a pair of times. The processor time of all threads is stated
too. Other work on the machine hardly changes it, so trees are chosen by it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

import psutil
import torch

from specdec.bench.synthetic import PRESETS, synthetic_pair
from specdec.checks import whole
from specdec.commands import Parser, columns, ended, to_write, write_json
from specdec.decoding.batch import Batch
from specdec.decoding.run import Run, stream
from specdec.devices import machine
from specdec.loading import load_pair
from specdec.models.load import DTYPES
from specdec.pair import ModelPair
from specdec.topology import sequence

PROMPTS = ("Once upon a time", "The weather that morning was", "One day, her best friend asked", "Tom had")


class Timed(NamedTuple):
    """The times of several runs.

    cpu_seconds: processor time of all threads. first: seconds until every run had its first round. ends:
    seconds until the end of each run. tokens: number of tokens of all runs.
    """

    seconds: float
    cpu_seconds: float
    first: float
    ends: list[float]
    tokens: int


def turns(runs: Sequence[Run]) -> Timed:
    """Decode one round of each run in turn, until all runs have ended."""
    waiting = list(runs)

    def step() -> list[Run]:
        waiting[:] = [run for run in waiting if next(run).finish is None]
        return [run for run in runs if run not in waiting]

    return _timed(runs, step)


def together(pair: ModelPair, runs: Sequence[Run]) -> Timed:
    """Decode all runs in one batch."""
    batch, ended = Batch(pair), []
    for run in runs:
        batch.add(run)

    def step() -> list[Run]:
        for member in batch.step():
            if member.error is not None:
                raise member.error
            if member.ended:
                ended.append(member.run)
        return ended

    return _timed(runs, step)


def _timed(runs: Sequence[Run], step: Callable[[], Sequence[Run]]) -> Timed:
    start, cpu_start, first = time.perf_counter(), time.process_time(), 0.0
    ends: dict[Run, float] = {}
    while len(ends) < len(runs):
        ended = step()
        now = time.perf_counter() - start
        if not first and all(run.rounds for run in runs):
            first = now
        ends |= {run: now for run in ended if run not in ends}
    cpu_seconds = time.process_time() - cpu_start
    tokens = sum(len(run.generation.token_ids) for run in runs)
    return Timed(max(ends.values()), cpu_seconds, first, list(ends.values()), tokens)


class Trial(NamedTuple):
    """The texts of a measurement. tokens: length of each text. repeats: number of repeats of every
    measurement."""

    pair: ModelPair
    prompts: Sequence[Sequence[int]]
    tokens: int
    repeats: int

    def runs(self, number: int, k: int) -> list[Run]:
        """New runs on sequence(k); for k = 0, plain decoding."""
        tree, prompts = sequence(max(k, 1)), self.prompts
        settings: dict[str, Any] = {"topology": tree, "max_new_tokens": self.tokens, "detail": False}
        settings["method"] = "ersd" if k else "ar"
        return [
            stream(self.pair, prompts[seed % len(prompts)], seed=seed, **settings) for seed in range(number)
        ]


def measure(pair: ModelPair, sizes: Sequence[int], ks: Sequence[int], tokens: int, repeats: int) -> dict:
    """The measured figures of one pair, for `table`.

    sizes: numbers of runs. ks: numbers of drafted tokens.
    """
    pair.eos_ids = frozenset()
    prompts = [[7 * i % pair.vocab_size for i in range(8)]]
    if pair.tokenizer is not None:
        prompts = [pair.encode(text) for text in PROMPTS]
    trial = Trial(pair, prompts, tokens, repeats)
    # caches and compiled code are created before anything is timed
    together(pair, trial._replace(tokens=8).runs(2, ks[-1]))
    memory = _bytes_per_run(trial, sizes[-1])  # until then no memory can be reused
    by_k = _by_k(trial, sizes, ks)
    rates = {
        size: {row["k"]: row["per_processor_second"] for row in by_k if row["runs"] == size} for size in sizes
    }
    best = {size: max(by_size, key=by_size.__getitem__) for size, by_size in rates.items()}
    rows = [_row(trial, size, best[sizes[0]], best[size]) for size in sizes]
    return {"arithmetic": pair.arithmetic, "rows": rows, "by_k": by_k, "bytes_per_run": memory}


def _by_k(trial: Trial, sizes: Sequence[int], ks: Sequence[int]) -> list[dict[str, Any]]:
    """Median tokens per second of a batch, by number of runs and k. All combinations are timed in turn."""
    samples: dict[tuple[int, int], list[Timed]] = {(size, k): [] for size in sizes for k in ks}
    for _ in range(trial.repeats):
        for (size, k), timed in samples.items():
            timed.append(together(trial.pair, trial.runs(size, k)))
    return [{"runs": size, "k": k, **_rates(timed)} for (size, k), timed in samples.items()]


def _rates(samples: Sequence[Timed]) -> dict[str, float]:
    return {
        "tokens_per_second": median(each.tokens / each.seconds for each in samples),
        "per_processor_second": median(each.tokens / each.cpu_seconds for each in samples),
    }


def _row(trial: Trial, size: int, k_alone: int, k_together: int) -> dict[str, Any]:
    pairs = []
    for _ in range(trial.repeats):
        alone = turns(trial.runs(size, k_alone))
        pairs.append((alone, together(trial.pair, trial.runs(size, k_together))))
    one, both = zip(*pairs, strict=True)
    return {
        "runs": size,
        "k_turns": k_alone,
        "k_together": k_together,
        "turns": _rates(one),
        "together": _rates(both),
        "ratio": _ratio([a.seconds / b.seconds for a, b in pairs]),
        "processor_time_ratio": _ratio([a.cpu_seconds / b.cpu_seconds for a, b in pairs]),
        "first_round_of_the_last": median(each.first for each in both),
        "slowest_to_median": median(max(each.ends) / median(each.ends) for each in both),
    }


def _ratio(ratios: Sequence[float]) -> dict[str, float]:
    return {"median": median(ratios), "low": min(ratios), "high": max(ratios)}


def _bytes_per_run(trial: Trial, size: int) -> int:
    """Bytes of memory that each run after the first two adds to the process, in the middle of a text."""
    batch = Batch(trial.pair)
    runs = trial._replace(tokens=max(2 * trial.tokens, 64)).runs(size + 2, 2)
    for run in runs[:2]:
        batch.add(run)
    batch.step()
    before = psutil.Process().memory_info().rss
    for run in runs[2:]:
        batch.add(run)
    while batch and not all(len(run.rounds) > 3 for run in runs):
        batch.step()
    return max(0, psutil.Process().memory_info().rss - before) // size


_RATIOS = ("ratio", "processor_time_ratio")


def table(figures: dict[str, Any]) -> str:
    """Two tables of one pair: turns and batch by number of runs, and tokens per second by k."""
    head = ["runs", "k", "turns", "together", "ratio", "processor time", "first round", "slowest"]
    lines = [
        [
            f"{row['runs']}",
            f"{row['k_turns']}, {row['k_together']}",
            f"{row['turns']['tokens_per_second']:.0f}",
            f"{row['together']['tokens_per_second']:.0f}",
            *("{median:.2f} ({low:.2f} to {high:.2f})".format(**row[name]) for name in _RATIOS),
            f"{row['first_round_of_the_last']:.2f} s",
            f"{row['slowest_to_median']:.2f}",
        ]
        for row in figures["rows"]
    ]
    ks = sorted({row["k"] for row in figures["by_k"]})
    rates = {(row["runs"], row["k"]): row["per_processor_second"] for row in figures["by_k"]}
    sizes = sorted({size for size, _ in rates})
    by_k = [[f"{size}", *(f"{rates[size, k]:.0f}" for k in ks)] for size in sizes]
    head_by_k = ["runs; tokens per second of processor time", *(f"k = {k}" for k in ks)]
    return f"{columns([head, *lines], True)}\n\n{columns([head_by_k, *by_k], True)}"


_OURS = {"embedded": "stories", "smollm2": "smollm2"}


def _pair(name: str, dtype: str) -> ModelPair:
    if name in _OURS:
        return load_pair(_OURS[name], dtype=dtype)
    return synthetic_pair(PRESETS[name], getattr(torch, dtype))[0]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints; ValueError is a user's mistake."""
    parser = Parser(prog="python -m research.bench.batch", description=__doc__)
    add, default = parser.add_argument, " (default: %(default)s)"
    add("--pair", choices=(*_OURS, *PRESETS), default="embedded")
    add("--dtype", choices=[name for name in DTYPES if name != "auto"], default="float32")
    add("--threads", type=int, default=1, help="number of threads of torch" + default)
    add("--runs", default="1,2,4,8,16,40", help="numbers of runs at once" + default)
    add("--k", default="0,1,2,3,4,6,8", help="numbers of drafted tokens" + default)
    add("--tokens", type=int, default=48, help="tokens of each text" + default)
    add("--repeats", type=int, default=3, help="repeats of every measurement" + default)
    add("--json", type=to_write, help="file to which the figures are added")
    options = parser.parse_args(arguments)
    tokens, repeats, threads = (
        whole(name, getattr(options, name), 1) for name in ("tokens", "repeats", "threads")
    )
    sizes = [whole("runs", int(size), 1) for size in options.runs.split(",")]
    ks = [whole("k", int(k), 0) for k in options.k.split(",")]
    torch.set_num_threads(threads)
    figures = measure(_pair(options.pair, options.dtype), sizes, ks, tokens, repeats)
    print(
        f"{figures['arithmetic']}\n\n{table(figures)}\n\n"
        f"memory of a run: {figures['bytes_per_run'] / 1e6:.1f} MB"
    )
    if options.json:
        name = f"{options.pair}, {options.dtype}, {figures['arithmetic'].split(',')[0].split(': ')[-1]}"
        settings = {"tokens": tokens, "repeats": repeats, "threads": threads, "load": os.getloadavg()[0]}
        results = json.loads(options.json.read_text()) if options.json.exists() else {}
        results[name] = {"machine": machine(torch.device("cpu")), "settings": settings, **figures}
        write_json(options.json, results)


if __name__ == "__main__":
    with ended():
        main()
