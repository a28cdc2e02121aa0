"""The rows and tables of a benchmark.

On a shared machine, single times have long tails. Speeds are therefore medians, and ratios compare two runs
on the same prompt with the same seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from specdec.bench.bandwidth import Limits
from specdec.bench.contestants import STAGES, Contestant, Sample
from specdec.bench.field import ASSISTED, AUTOREGRESSIVE
from specdec.bench.measure import Samples
from specdec.commands import columns

Row = dict[str, Any]
RESAMPLES = 2000


def rows(
    contestants: Sequence[Contestant], samples: Samples, memory: Mapping[str, int], limits: Limits
) -> list[Row]:
    """One table row for each contestant, as plain values. Times are in milliseconds, memory in bytes.

    A contestant with a limit also has a `bandwidth_share`: its tokens per second divided by the limit. The
    tokens per second include the time of the prefill.
    """
    baselines = {"autoregressive": AUTOREGRESSIVE, "assisted": ASSISTED}
    times = {name: [s.seconds for s in runs] for name, runs in samples.items()}
    cpu_times = {
        name: [s.cpu_seconds for s in runs if s.cpu_seconds is not None] for name, runs in samples.items()
    }
    result: list[Row] = []
    for each in contestants:
        runs = samples[each.name]
        ratios = {label: _ratio_to(start, times, each.name) for label, start in baselines.items()}
        cpu_ratios = {label: _ratio_to(start, cpu_times, each.name) for label, start in baselines.items()}
        tokens, calls = (sum(getattr(s, name) for s in runs) for name in ("tokens", "target_calls"))
        result.append(
            {
                "name": each.name,
                "kind": each.kind,
                "dtype": each.dtype,
                "threads": each.threads,
                "drafted": None if runs[-1].paths is None else len(runs[-1].paths),
                "tokens_per_second": median(s.tokens / s.seconds for s in runs),
                "ratio": ratios,
                "processor_time_ratio": cpu_ratios,
                "tokens_per_call": tokens / calls,
                "ms_per_round": _per_round(runs),
                "peak_bytes": memory.get(each.name),
            }
        )
        if each.name in limits:
            share = result[-1]["tokens_per_second"] / limits[each.name]["tokens_per_second"]
            result[-1]["bandwidth_share"] = share
    return result


def _ratio_to(start: str, times: Mapping[str, Sequence[float]], name: str) -> dict[str, float] | None:
    baseline = next((other for other in times if other.startswith(start)), None)
    if baseline is None or not times[name]:
        return None
    return paired_ratio(times[baseline], times[name])


def _per_round(samples: Sequence[Sample]) -> dict[str, float] | None:
    """Milliseconds per target call by stage, from the run whose time is the median."""
    if any(sample.stages is None for sample in samples):
        return None
    # all stages are taken from one run, so that they add up to its time
    middle = sorted(samples, key=lambda s: s.seconds / s.target_calls)[len(samples) // 2]
    return {name: 1000 * (middle.stages or {})[name] / middle.target_calls for name in STAGES}


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table that is readable in a terminal, too."""
    head = [
        "",
        "tokens/s",
        *(f"x {label}" for label in rows[0]["ratio"]),
        "processor",
        "tokens/call",
        *STAGES,
        "memory",
        "dtype",
    ]
    return columns([head, *(_cells(row) for row in rows)], markdown=True)


def _cells(row: Row) -> list[str]:
    stages, name = row["ms_per_round"], row["name"]
    if name.endswith("auto") and row["drafted"] is not None:
        name = f"{name} ({row['drafted']} drafted)"
    return [
        name,
        f"{row['tokens_per_second']:.0f}",
        *map(_ratio, row["ratio"].values()),
        _ratio(row["processor_time_ratio"]["autoregressive"]),
        f"{row['tokens_per_call']:.2f}",
        *("-" if stages is None else f"{stages[stage]:.2f}" for stage in STAGES),
        "-" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 2**20:.0f} MiB",
        f"{row['dtype']}, {row['threads']} thread{'s' if row['threads'] > 1 else ''}",
    ]


def _ratio(ratio: Mapping[str, float] | None) -> str:
    if ratio is None:
        return "-"
    if ratio["low"] != ratio["low"]:
        return f"{ratio['value']:.2f}"
    return f"{ratio['value']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def paired_ratio(baseline: Sequence[float], seconds: Sequence[float]) -> dict[str, float]:
    """The median of baseline / seconds over pairs of runs, `value`, and `low` and `high`, the ends of its 95%
    bootstrap percentile interval, which are NaN for a single pair of runs.

    baseline, seconds: times of runs, in the same order of prompts and repeats. ValueError if they are empty
    or of different lengths.
    """
    if len(baseline) != len(seconds) or not baseline:
        raise ValueError(f"{len(baseline)} and {len(seconds)} runs can't be compared in pairs")
    ratios = np.divide(baseline, seconds)
    if len(ratios) == 1:
        return {"value": float(ratios[0]), "low": float("nan"), "high": float("nan")}
    resamples = np.random.default_rng(0).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(ratios[resamples], axis=1), (0.025, 0.975))
    return {"value": float(np.median(ratios)), "low": float(low), "high": float(high)}
