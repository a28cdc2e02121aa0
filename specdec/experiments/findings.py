"""The paper's findings (Section 5), one by one: found or not found in an experiment, with the numbers.

GSD or ERSD is called ahead where the 95% interval of their difference, clustered by prompt, leaves out 0.
They are called level where that interval reaches into ±1% of GSD's tokens and is no wider than ±5% of them:
too little data is not a finding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from specdec.experiments.estimates import Estimate, mean
from specdec.experiments.settings import Point

LEVEL, TELLING = 0.01, 0.05
"""Shares of GSD's tokens per target call: a difference that is none, and the widest interval that tells."""
LARGE_K = 8
"""k from which on the optimal tree is taken to have its logarithmic course."""
ALIKE = 1.25
"""Two slopes are beside each other when neither is more than this many times the other."""

VERDICTS = {True: "found", False: "not found", None: "not measured"}
"""A finding's `found` in words."""

Estimates = Mapping[Point, Estimate]
Finding = dict[str, Any]


class _Data(NamedTuple):
    summary: Mapping[str, Any]
    estimates: Estimates

    def grid(self, strategy: str) -> list[int]:
        """The k at which both methods were measured."""
        methods = [{p.k for p in self.estimates if p[:2] == (m, strategy)} for m in ("gsd", "ersd")]
        return sorted(methods[0] & methods[1])

    def difference(self, strategy: str, k: int) -> Estimate:
        """GSD minus ERSD."""
        return self.estimates[Point("gsd", strategy, k)] - self.estimates[Point("ersd", strategy, k)]

    def is_level(self, strategy: str, k: int) -> bool:
        """Whether neither method is ahead there."""
        (low, high), whole = self.difference(strategy, k).interval, self.values("gsd", strategy, [k])[0]
        return low <= LEVEL * whole and high >= -LEVEL * whole and high - low <= 2 * TELLING * whole

    def values(self, method: str, strategy: str, ks: Sequence[int]) -> list[float]:
        """Measured tokens per target call."""
        return [self.estimates[Point(method, strategy, k)].value for k in ks]

    def predictions(self, method: str, strategy: str, ks: Sequence[int]) -> list[float]:
        """Predicted ones."""
        known = {(p["method"], p["strategy"], p["k"]): p["prediction"] for p in self.summary["points"]}
        return [known[method, strategy, k] for k in ks]

    def bounds(self, method: str) -> dict[int, Mapping[str, float]]:
        """By k."""
        return {row["k"]: row for row in self.summary["bounds"][method]["by_k"]}


def check_findings(summary: Mapping[str, Any], estimates: Estimates) -> list[Finding]:
    """Each statement with `found` (None: cannot be told from these points) and its numbers."""
    data = _Data(summary, estimates)
    findings = []
    for name, statement, check in _CHECKS:
        try:
            found, numbers = check(data)
        except _NotMeasured as missing:
            found, numbers = None, {"missing": str(missing)}
        findings.append({"name": name, "statement": statement, "found": found, "numbers": numbers})
    return findings


class _NotMeasured(Exception):  # noqa: N818 - not an error of anybody
    """A finding needs points that the experiment does not have."""


Outcome = tuple[bool, dict[str, Any]]


def _needed(grid: Sequence[int], least: int, what: str) -> Sequence[int]:
    if len(grid) < least:
        raise _NotMeasured(f"{what}: {least} points of both methods are needed, {len(grid)} are there")
    return grid


def _told(estimate: Estimate) -> dict[str, float]:
    low, high = estimate.interval
    return {"value": estimate.value, "low": low, "high": high}


def _batch_at_1(data: _Data) -> Outcome:
    difference = _difference_at(data, "batch", 1)
    return difference.interval[0] > 0, {"gsd_minus_ersd": _told(difference)}


def _batch_at_2(data: _Data) -> Outcome:
    difference = _difference_at(data, "batch", 2)
    return data.is_level("batch", 2), {"gsd_minus_ersd": _told(difference)}


def _batch_from_3(data: _Data) -> Outcome:
    ks = _needed([k for k in data.grid("batch") if k >= 3], 1, "batch from 3")
    differences = {k: data.difference("batch", k) for k in ks}
    numbers = {"gsd_minus_ersd": {k: _told(d) for k, d in differences.items()}}
    return all(d.interval[1] < 0 for d in differences.values()), numbers


def _batch_levels_off(data: _Data) -> Outcome:
    ks = _needed(data.grid("batch"), 2, "batch")
    values = {method: data.values(method, "batch", ks[-2:]) for method in ("gsd", "ersd")}
    found = all(1.9 < last < 2 and last - before < 0.05 for before, last in values.values())
    return found, {"k": ks[-2:], **values}


def _sequence_under_gsd(data: _Data) -> Outcome:
    ks = _needed(data.grid("sequence"), 1, "sequence")
    differences = {k: data.difference("sequence", k) for k in ks}
    overall = mean(list(differences.values()))
    numbers = {"mean_gsd_minus_ersd": _told(overall), "by_k": {k: _told(d) for k, d in differences.items()}}
    return overall.interval[0] > 0 and all(d.interval[1] > 0 for d in differences.values()), numbers


def _specinfer_above_sequence(data: _Data) -> Outcome:
    ks = _needed(sorted({*data.grid("specinfer")} & {*data.grid("sequence")}), 1, "specinfer and sequence")
    gains = {}
    for method in ("gsd", "ersd"):
        at = data.estimates
        by_k = [at[Point(method, "specinfer", k)] - at[Point(method, "sequence", k)] for k in ks]
        gains[method] = mean(by_k)
    return all(g.interval[0] > 0 for g in gains.values()), {
        "k": ks,
        "mean_gain": {method: _told(gain) for method, gain in gains.items()},
    }


def _specinfer_levels_off(data: _Data) -> Outcome:
    ks = _needed(data.grid("specinfer"), 3, "specinfer")
    numbers, found = {}, True
    for method in ("gsd", "ersd"):
        values = data.values(method, "specinfer", ks)
        early, late = _slope(ks[:2], values[:2]), _slope(ks[-2:], values[-2:])
        numbers[method] = {"gain_per_token_first": early, "gain_per_token_last": late}
        found &= late < early / 4
    return bool(found), {"k": [*ks[:2], *ks[-2:]], **numbers}


def _above_prediction(data: _Data) -> Outcome:
    k = _needed(data.grid("sequence"), 1, "sequence")[-1]
    numbers, found = {}, True
    for method in ("gsd", "ersd"):
        estimate = data.estimates[Point(method, "sequence", k)]
        prediction = data.predictions(method, "sequence", [k])[0]
        numbers[method] = {"measured": _told(estimate), "prediction": prediction}
        found &= estimate.interval[0] > prediction
    numbers["optimal"] = {
        method: {k: [data.values(method, "optimal", [k])[0], data.predictions(method, "optimal", [k])[0]]}
        for method in ("gsd", "ersd")
        for k in data.grid("optimal")[-1:]
    }
    return found, {"k": k, **numbers}


def _logarithmic(data: _Data) -> Outcome:
    numbers, found = {}, True
    for method in ("gsd", "ersd"):
        ks = _needed([k for k in data.grid("optimal") if k >= LARGE_K], 4, f"optimal from {LARGE_K}")
        values = data.values(method, "optimal", ks)
        slope, _, fit = _log_fit(ks, values)
        numbers[method] = {"tokens_per_doubling": slope, "r_squared": fit}
        found &= slope > 0 and fit > 0.98
    return bool(found), numbers


def _slope_beside_entropy(data: _Data) -> Outcome:
    numbers, found = {}, True
    for method in ("gsd", "ersd"):
        ks = _needed([k for k in data.grid("optimal") if k >= LARGE_K], 2, f"optimal from {LARGE_K}")
        slope = _log_fit(ks, data.values(method, "optimal", ks))[0]
        predicted = _log_fit(ks, data.predictions(method, "optimal", ks))[0]
        acceptance = data.summary["acceptance"][method]
        inverse = _inverse(acceptance["entropy_of_mean"])
        numbers[method] = {
            "slope": slope,
            "slope_of_prediction": predicted,
            "one_over_entropy_of_mean": inverse,
        }
        if contexts := acceptance["contexts"]:
            numbers[method]["one_over_mean_entropy"] = _inverse(contexts["mean_entropy"]["value"])
        found &= _alike(slope, inverse)
    return bool(found), numbers


def _converge(data: _Data) -> Outcome:
    ks = _needed(data.grid("optimal"), 3, "optimal")
    told = {k: data.difference("optimal", k) for k in ks}
    small = [abs(d.value) / data.values("gsd", "optimal", [k])[0] for k, d in told.items()]
    found = small[-1] < max(small) and data.is_level("optimal", ks[-1])
    return found, {"gsd_minus_ersd": {k: _told(d) for k, d in told.items()}}


def _bound_increments(data: _Data) -> Outcome:
    """Change per drafted token of the bound beside that of the tree, at neighbouring k."""
    numbers, found = {}, True
    for method in ("gsd", "ersd"):
        rows = data.bounds(method).items()
        bounds = {k: row["fixed_m"] for k, row in rows if math.isfinite(row["fixed_m"] or math.inf)}
        usual = [k for k in data.grid("optimal") if k in bounds and k >= LARGE_K]
        ks = _needed(usual, 4, f"optimal from {LARGE_K}")
        bound = _steps(ks, [bounds[k] for k in ks])
        tree = _steps(ks, data.values(method, "optimal", ks))
        ratio = [b / t for b, t in zip(bound, tree, strict=True) if t > 0]
        middle = float(np.median(ratio)) if ratio else math.nan
        numbers[method] = {"k": ks, "bound": bound, "measured": tree, "median_ratio": middle}
        found &= _alike(middle, 1.0)
    return bool(found), numbers


def _bound_holds(data: _Data) -> Outcome:
    numbers, found = {}, True
    for method in ("gsd", "ersd"):
        bounds = data.bounds(method)
        ks = _needed([k for k in data.grid("optimal") if k in bounds], 1, "optimal")
        rows = {k: [data.values(method, "optimal", [k])[0], bounds[k]["minimal"]] for k in ks}
        over = [
            k for k in ks if data.estimates[Point(method, "optimal", k)].interval[0] > bounds[k]["minimal"]
        ]
        numbers[method] = {"measured_and_bound": rows, "measured_above_bound_at": over}
        found &= not over
    return found, numbers


def _difference_at(data: _Data, strategy: str, k: int) -> Estimate:
    if k not in data.grid(strategy):
        raise _NotMeasured(f"{strategy}({k}) of both methods")
    return data.difference(strategy, k)


def _slope(ks: Sequence[int], values: Sequence[float]) -> float:
    return (values[-1] - values[0]) / (ks[-1] - ks[0])


def _steps(ks: Sequence[int], values: Sequence[float]) -> list[float]:
    return (np.diff(values) / np.diff(ks)).tolist()


def _log_fit(ks: Sequence[int], values: Sequence[float]) -> tuple[float, float, float]:
    """Least squares of value = slope · log2(k + 1) + offset, and the share of variance that it explains."""
    x, y = np.log2(np.asarray(ks) + 1.0), np.asarray(values)
    slope, offset = np.polyfit(x, y, 1)
    spread = float(((y - y.mean()) ** 2).sum())
    left = float(((y - slope * x - offset) ** 2).sum())
    return float(slope), float(offset), 1 - left / spread if spread else 0.0


def _inverse(bits: float) -> float:
    return 1 / bits if bits else math.inf


def _alike(a: float, b: float) -> bool:
    return a > 0 and b > 0 and max(a / b, b / a) <= ALIKE


_CHECKS: list[tuple[str, str, Callable[[_Data], Outcome]]] = [
    ("batch_1", "Batch, k = 1: GSD is ahead.", _batch_at_1),
    ("batch_2", "Batch, k = 2: both methods are level.", _batch_at_2),
    ("batch_3", "Batch, k from 3: ERSD is ahead.", _batch_from_3),
    ("batch_level", "Batch levels off just below 2 tokens per target call.", _batch_levels_off),
    ("sequence", "Sequence is better under GSD.", _sequence_under_gsd),
    ("specinfer", "SpecInfer's tree is slightly above sequence.", _specinfer_above_sequence),
    ("specinfer_level", "SpecInfer's tree levels off too.", _specinfer_levels_off),
    ("above_prediction", "Sequence on real text is above the 0-th order prediction.", _above_prediction),
    ("logarithm", "The optimal tree grows with log k.", _logarithmic),
    ("slope", "Its slope per doubling of k is beside 1 / H[R].", _slope_beside_entropy),
    ("converge", "On the optimal tree both methods converge.", _converge),
    (
        "bound_increments",
        "Increments of the fixed-m bound follow those of the optimal tree.",
        _bound_increments,
    ),
    ("bound", "No measured value of the optimal tree is above the minimal bound.", _bound_holds),
]
