"""Checks the paper's findings (Section 5 of the paper) with an experiment's results: confirmed or not.

One method is ahead if the 95% interval of the difference, clustered by prompt, does not contain 0. The
methods are level if that interval overlaps ±1% of GSD's tokens and is at most ±5% of them wide. A wider
interval means too little data for a finding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from research.estimates import Estimate, mean
from research.experiments.settings import Point
from specdec.phrases import listed, number, with_interval

LEVEL, TELLING = 0.01, 0.05
"""The largest difference that counts as level, and half the width of the widest useful interval. Both are
shares of GSD's tokens per target call."""
LARGE_K = 8
"""The smallest k at which the growth of the optimal tree with log k is checked."""
ALIKE = 1.25
"""Two slopes count as alike if neither is more than this many times the other."""
BOTH = {"gsd": "GSD", "ersd": "ERSD"}

Estimates = Mapping[Point, Estimate]
Outcome = tuple[bool, str]
"""The result of a check: whether the statement holds, and the numbers in a sentence."""


class Data(NamedTuple):
    """A summary before its findings are added, and the estimates of its points, as input of the checks."""

    summary: Mapping[str, Any]
    estimates: Estimates

    def grid(self, strategy: str, fewest: int, least: int = 1) -> list[int]:
        """The k >= `least` at which both methods were measured; _NotMeasured if fewer than `fewest`."""
        both = [{p.k for p in self.estimates if p[:2] == (m, strategy)} for m in BOTH]
        ks = sorted(k for k in both[0] & both[1] if k >= least)
        if len(ks) < fewest:
            where = strategy if least == 1 else f"{strategy} from {least}"
            raise _NotMeasured(f"{where}: {fewest} points of both methods are needed, {len(ks)} are there")
        return ks

    def difference(self, strategy: str, k: int) -> Estimate:
        """GSD's minus ERSD's tokens per target call, with its interval."""
        return self.estimates[Point("gsd", strategy, k)] - self.estimates[Point("ersd", strategy, k)]

    def is_level(self, strategy: str, k: int) -> bool:
        """Whether GSD and ERSD are level at this point. The module's docstring defines "level"."""
        (low, high), whole = self.difference(strategy, k).interval, self.value("gsd", strategy, k)
        return low <= LEVEL * whole and high >= -LEVEL * whole and high - low <= 2 * TELLING * whole

    def value(self, method: str, strategy: str, k: int) -> float:
        """Measured tokens per target call at this point."""
        return self.estimates[Point(method, strategy, k)].value

    def prediction(self, *point: Any) -> float:
        """Predicted tokens per target call. point: method, strategy and k."""
        rows = self.summary["points"]
        return next(row["prediction"] for row in rows if (row["method"], row["strategy"], row["k"]) == point)

    def bounds(self, method: str, name: str) -> dict[int, float]:
        """The upper bound called `name` for each k, on tokens per target call."""
        return {row["k"]: row[name] for row in self.summary["bounds"][method]["by_k"]}


class _NotMeasured(Exception):  # noqa: N818 - not an error
    """The experiment lacks points that a finding needs."""


_CHECKS: list[tuple[dict[str, str], Callable[[Data], Outcome]]] = []


def _finding(name: str, statement: str, place: str = "Section 5") -> Callable[[Callable], None]:
    """Decorator that registers the check of a statement. place: where the paper makes the statement."""
    about = {"name": name, "statement": statement, "place": place}
    return lambda check: _CHECKS.append((about, check))


def check_findings(summary: Mapping[str, Any], estimates: Estimates) -> list[dict[str, Any]]:
    """A row for each statement: its place in the paper, the result `found`, and a sentence with the numbers.

    `found` is None if the experiment lacks the points that the statement is about.
    """
    data, findings = Data(summary, estimates), []
    for about, check in _CHECKS:
        try:
            holds, words = check(data)
            outcome: dict[str, Any] = {"found": bool(holds), "words": words}
        except _NotMeasured as missing:
            outcome = {"found": None, "words": f"Missing: {missing}."}
        findings.append({**about, **outcome})
    return findings


def _of_both(check: Callable[[str], Outcome], start: str = "") -> Outcome:
    """Runs a check for GSD and ERSD. It holds if it holds for both; `start` begins the sentence on both."""
    outcomes = {name: check(method) for method, name in BOTH.items()}
    words = "; ".join(f"{name} {said}" for name, (_, said) in outcomes.items())
    return all(holds for holds, _ in outcomes.values()), f"{start}{words}."


def _at(estimate: Estimate, k: int) -> str:
    return f"{with_interval(estimate.to_json())} at k = {k}"


def _batch_difference(data: Data, k: int) -> tuple[Estimate, str]:
    if k not in data.grid("batch", 0):
        raise _NotMeasured(f"batch({k}) of both methods")
    difference = data.difference("batch", k)
    return difference, f"GSD minus ERSD is {with_interval(difference.to_json())} tokens per target call."


@_finding("batch_1", "Batch, k = 1: GSD is ahead.", "Section 5, Lemma 3.1")
def _batch_at_1(data: Data) -> Outcome:
    difference, words = _batch_difference(data, 1)
    return difference.interval[0] > 0, words


@_finding("batch_2", "Batch, k = 2: both methods are level.")
def _batch_at_2(data: Data) -> Outcome:
    _, words = _batch_difference(data, 2)
    return data.is_level("batch", 2), words


@_finding("batch_3", "Batch, k from 3: ERSD is ahead.")
def _batch_from_3(data: Data) -> Outcome:
    differences = {k: data.difference("batch", k) for k in data.grid("batch", 1, least=3)}
    words = listed([_at(difference, k) for k, difference in differences.items()])
    return all(d.interval[1] < 0 for d in differences.values()), f"GSD minus ERSD: {words}."


@_finding("batch_level", "Batch levels off just below 2 tokens per target call.", "Section 5, Figure 3")
def _batch_levels_off(data: Data) -> Outcome:
    before, last = data.grid("batch", 2)[-2:]

    def check(method: str) -> Outcome:
        values = [data.value(method, "batch", k) for k in (before, last)]
        return 1.9 < values[1] < 2 and values[1] - values[0] < 0.05, " and ".join(map(number, values))

    return _of_both(check, f"At k = {before} and {last}: ")


@_finding("sequence", "Sequence is better under GSD.", "Section 5, Figure 3")
def _sequence_under_gsd(data: Data) -> Outcome:
    differences = {k: data.difference("sequence", k) for k in data.grid("sequence", 1)}
    overall = mean(list(differences.values()))
    behind = [str(k) for k, difference in differences.items() if difference.interval[1] <= 0]
    ahead = f"ERSD is ahead at k = {listed(behind)}" if behind else "ERSD is ahead at no k"
    words = f"The mean over k of GSD minus ERSD is {with_interval(overall.to_json())}; {ahead}."
    return overall.interval[0] > 0 and not behind, words


@_finding("specinfer", "SpecInfer's tree is slightly above sequence.")
def _specinfer_above_sequence(data: Data) -> Outcome:
    ks = [k for k in data.grid("sequence", 1) if k in data.grid("specinfer", 0)]
    if not ks:
        raise _NotMeasured("specinfer and sequence: 1 point of both methods is needed, 0 are there")

    def check(method: str) -> Outcome:
        trees = [[data.estimates[Point(method, name, k)] for name in ("specinfer", "sequence")] for k in ks]
        gain = mean([specinfer - sequence for specinfer, sequence in trees])
        return gain.interval[0] > 0, with_interval(gain.to_json())

    return _of_both(check, f"The mean gain over sequence at k = {listed([str(k) for k in ks])}: ")


@_finding("specinfer_level", "SpecInfer's tree levels off too.")
def _specinfer_levels_off(data: Data) -> Outcome:
    ks = data.grid("specinfer", 3)

    def check(method: str) -> Outcome:
        early, late = (
            (data.value(method, "specinfer", end) - data.value(method, "specinfer", start)) / (end - start)
            for start, end in (ks[:2], ks[-2:])
        )
        return late < early / 4, f"{number(early)}, then {number(late)}"

    spans = f"from k = {ks[0]} to {ks[1]}, then from {ks[-2]} to {ks[-1]}"
    return _of_both(check, f"The gain per drafted token {spans}: ")


@_finding(
    "above_prediction", "Sequence on real text is above the 0-th order prediction.", "Section 5, Figure 3"
)
def _above_prediction(data: Data) -> Outcome:
    k = data.grid("sequence", 1)[-1]

    def check(method: str) -> Outcome:
        estimate = data.estimates[Point(method, "sequence", k)]
        prediction = data.prediction(method, "sequence", k)
        words = f"{with_interval(estimate.to_json())} measured, {number(prediction)} predicted"
        return estimate.interval[0] > prediction, words

    holds, words = _of_both(check, f"At k = {k}: ")
    optimal = [
        f"{name} {number(data.value(method, 'optimal', last))} measured, "
        f"{number(data.prediction(method, 'optimal', last))} predicted at k = {last}"
        for method, name in BOTH.items()
        for last in data.grid("optimal", 0)[-1:]
    ]
    more = f" Optimal tree: {listed(optimal)}." if optimal else ""
    return holds, words + more


@_finding("logarithm", "The optimal tree grows with log k.", "Section 5, Theorem 4.1")
def _logarithmic(data: Data) -> Outcome:
    ks = data.grid("optimal", 4, least=LARGE_K)

    def check(method: str) -> Outcome:
        slope, fit = _log_fit(ks, [data.value(method, "optimal", k) for k in ks])
        return slope > 0 and fit > 0.98, f"{number(slope)} tokens per doubling, R² = {number(fit)}"

    return _of_both(check, "Line through log₂(k + 1): ")


@_finding("slope", "Its slope per doubling of k is close to 1 / H[R].", "Section 4, Theorem 4.1")
def _slope_beside_entropy(data: Data) -> Outcome:
    ks = data.grid("optimal", 2, least=LARGE_K)

    def check(method: str) -> Outcome:
        slope, _ = _log_fit(ks, [data.value(method, "optimal", k) for k in ks])
        predicted, _ = _log_fit(ks, [data.prediction(method, "optimal", k) for k in ks])
        acceptance = data.summary["acceptance"][method]
        inverse = _inverse(acceptance["entropy_of_mean"])
        words = f"{number(slope)} per doubling (predicted {number(predicted)}), 1 / H[R] = {number(inverse)}"
        if contexts := acceptance["contexts"]:
            mean_entropy = contexts["mean_entropy"]["value"]
            words += f", with the mean entropy of contexts {number(_inverse(mean_entropy))}"
        return _alike(slope, inverse), words

    return _of_both(check)


@_finding("converge", "On the optimal tree both methods converge.")
def _converge(data: Data) -> Outcome:
    ks = data.grid("optimal", 3)
    differences = {k: data.difference("optimal", k) for k in ks}
    shares = {k: abs(d.value) / data.value("gsd", "optimal", k) for k, d in differences.items()}
    largest = max(ks, key=lambda k: abs(differences[k].value))
    shown = [_at(differences[k], k) for k in dict.fromkeys([ks[0], largest, ks[-1]])]
    holds = shares[ks[-1]] < max(shares.values()) and data.is_level("optimal", ks[-1])
    return holds, f"GSD minus ERSD, first, largest and last: {listed(shown)}."


@_finding(
    "bound_increments",
    "Increments of the fixed-m bound follow those of the optimal tree.",
    "Section 5, Figure 4, Lemma 4.2",
)
def _bound_increments(data: Data) -> Outcome:
    def check(method: str) -> Outcome:
        bounds = data.bounds(method, "fixed_m")
        ks = [k for k in data.grid("optimal", 0, least=LARGE_K) if math.isfinite(bounds.get(k) or math.inf)]
        if len(ks) < 4:
            raise _NotMeasured(f"optimal from {LARGE_K}: 4 points with a bound are needed, not {len(ks)}")
        steps = zip(np.diff([bounds[k] for k in ks]), np.diff([data.value(method, "optimal", k) for k in ks]))
        ratios = [float(bound / tree) for bound, tree in steps if tree > 0]
        middle = float(np.median(ratios)) if ratios else math.nan
        return _alike(middle, 1.0), f"{number(middle)} from k = {ks[0]} to {ks[-1]}"

    return _of_both(check, "Median of the bound's increment over the tree's: ")


@_finding("bound", "No measured value of the optimal tree is above the minimal bound.", "Figure 3, Lemma 4.2")
def _bound_holds(data: Data) -> Outcome:
    def check(method: str) -> Outcome:
        bounds = data.bounds(method, "minimal")
        ks = [k for k in data.grid("optimal", 1) if k in bounds]
        over = [k for k in ks if data.estimates[Point(method, "optimal", k)].interval[0] > bounds[k]]
        margin, closest = min((bounds[k] - data.value(method, "optimal", k), k) for k in ks)
        above = f", above the bound at k = {listed([str(k) for k in over])}" if over else ""
        return not over, f"comes closest to the bound at k = {closest}, {number(margin)} below it{above}"

    return _of_both(check)


def _log_fit(ks: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """Fits values = a + b log2(k + 1) by least squares. Returns b and R², the share of explained variance."""
    x, y = np.log2(np.asarray(ks) + 1.0), np.asarray(values)
    slope, offset = np.polyfit(x, y, 1)
    spread = float(((y - y.mean()) ** 2).sum())
    unexplained = float(((y - slope * x - offset) ** 2).sum())
    return float(slope), 1 - unexplained / spread if spread else 0.0


def _inverse(bits: float) -> float:
    return 1 / bits if bits else math.inf


def _alike(a: float, b: float) -> bool:
    return a > 0 and b > 0 and max(a / b, b / a) <= ALIKE
