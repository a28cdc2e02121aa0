"""Checks the findings of Section 5 of the paper against an experiment's results: confirmed or not.

One method is ahead if the 95% interval of the difference between the methods, clustered by prompt, does not
contain 0. The methods are level if this interval overlaps ±1% of GSD's tokens and is not wider than ±5% of
them. With a wider interval, the data are insufficient for a finding.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from research.estimates import Estimate, mean
from research.experiments.settings import Point
from specdec.phrases import listed, number, with_interval

LEVEL, TELLING = 0.01, 0.05
"""The largest difference that counts as level, and half the width of the widest sufficient interval. Both are
shares of GSD's tokens per target call."""
LARGE_K = 8  # growth with log k is only checked for optimal trees from this k on
ALIKE = 1.25  # two slopes count as alike if neither is more than this many times the other
BOTH = {"gsd": "GSD", "ersd": "ERSD"}

Estimates = Mapping[Point, Estimate]
Outcome = tuple[bool, str]  # whether a statement holds, and the numbers in a sentence
_CHECKS: list[tuple[dict[str, str], Callable[[Any], Outcome]]] = []


class _NotMeasured(Exception):  # noqa: N818 - not an error
    """The experiment lacks points that a finding needs."""


def check_findings(summary: Mapping[str, Any], estimates: Estimates) -> list[dict[str, Any]]:
    """A row for each statement: its place in the paper, the result `found`, and a sentence with the numbers.

    `found` is None if the experiment lacks points that the statement is about.
    """
    findings, rows = _Findings(summary, estimates), []
    for facts, check in _CHECKS:
        try:
            holds, words = check(findings)
            rows.append({**facts, "found": bool(holds), "words": words})
        except _NotMeasured as missing:
            rows.append({**facts, "found": None, "words": f"Missing: {missing}."})
    return rows


def _finding(name: str, statement: str, place: str = "Section 5") -> Callable[[Callable], Callable]:
    """Decorator that registers the check of a statement. place: where the paper makes the statement."""

    def registered(check: Callable) -> Callable:
        _CHECKS.append(({"name": name, "statement": statement, "place": place}, check))
        return check

    return registered


class _Findings:
    """The checks. summary: of the experiment, without findings. estimates: tokens per call at each point."""

    def __init__(self, summary: Mapping[str, Any], estimates: Estimates):
        self.summary, self.estimates = summary, estimates

    def grid(self, strategy: str, fewest: int, least: int = 1) -> list[int]:
        """The k >= `least` at which both methods were measured; _NotMeasured if fewer than `fewest`."""
        ks_of = [{p.k for p in self.estimates if p[:2] == (m, strategy)} for m in BOTH]
        ks = sorted(k for k in ks_of[0] & ks_of[1] if k >= least)
        if len(ks) < fewest:
            where = strategy if least == 1 else f"{strategy} from {least}"
            raise _NotMeasured(f"{where}: {fewest} points of both methods are needed, {len(ks)} are there")
        return ks

    def difference(self, strategy: str, k: int) -> Estimate:
        return self.estimates[Point("gsd", strategy, k)] - self.estimates[Point("ersd", strategy, k)]

    def is_level(self, strategy: str, k: int) -> bool:
        """Whether GSD and ERSD are level at this point. The module's docstring defines "level"."""
        (low, high), gsd = self.difference(strategy, k).interval, self.value("gsd", strategy, k)
        return low <= LEVEL * gsd and high >= -LEVEL * gsd and high - low <= 2 * TELLING * gsd

    def value(self, method: str, strategy: str, k: int) -> float:
        return self.estimates[Point(method, strategy, k)].value

    def prediction(self, *point: Any) -> float:
        rows = self.summary["points"]
        return next(row["prediction"] for row in rows if (row["method"], row["strategy"], row["k"]) == point)

    def bounds(self, method: str, name: str) -> dict[int, float]:
        """The upper bound called `name` for each k, on tokens per target call."""
        return {row["k"]: row[name] for row in self.summary["bounds"][method]["by_k"]}

    def slopes(self, method: str, ks: Sequence[int]) -> tuple[float, float, float]:
        """Measured and predicted tokens of the optimal tree per doubling of k + 1, as slopes; and the share
        of the measured tokens' variance that a line explains."""
        x = np.log2(np.asarray(ks) + 1.0)
        values, predictions = (
            [get(method, "optimal", k) for k in ks] for get in (self.value, self.prediction)
        )
        slope, offset = np.polyfit(x, values, 1)
        spread, unexplained = np.var(values), np.var(values - slope * x - offset)
        share = 1 - unexplained / spread if spread else 0.0
        return float(slope), float(np.polyfit(x, predictions, 1)[0]), float(share)

    def batch(self, k: int) -> tuple[Estimate, str]:
        """The difference GSD - ERSD on batch(k), and a sentence that states it."""
        if k not in self.grid("batch", 0):
            raise _NotMeasured(f"batch({k}) of both methods")
        difference = self.difference("batch", k)
        return difference, f"GSD minus ERSD is {with_interval(difference.to_json())} tokens per target call."

    @_finding("batch_1", "Batch, k = 1: GSD is ahead.", "Section 5, Lemma 3.1")
    def batch_at_1(self) -> Outcome:
        difference, words = self.batch(1)
        return difference.interval[0] > 0, words

    @_finding("batch_2", "Batch, k = 2: both methods are level.")
    def batch_at_2(self) -> Outcome:
        _, words = self.batch(2)
        return self.is_level("batch", 2), words

    @_finding("batch_3", "Batch, k from 3: ERSD is ahead.")
    def batch_from_3(self) -> Outcome:
        differences = {k: self.difference("batch", k) for k in self.grid("batch", 1, least=3)}
        return all(d.interval[1] < 0 for d in differences.values()), f"GSD minus ERSD: {_by_k(differences)}."

    @_finding("batch_level", "Batch levels off just below 2 tokens per target call.", "Section 5, Figure 3")
    def batch_levels_off(self) -> Outcome:
        (next_to_last, last), outcomes = self.grid("batch", 2)[-2:], []
        for method in BOTH:
            values = [self.value(method, "batch", k) for k in (next_to_last, last)]
            holds = 1.9 < values[1] < 2 and values[1] - values[0] < 0.05
            outcomes.append((holds, " and ".join(map(number, values))))
        return _of_both(outcomes, f"At k = {next_to_last} and {last}: ")

    @_finding("sequence", "Sequence is better under GSD.", "Section 5, Figure 3")
    def sequence_under_gsd(self) -> Outcome:
        differences = {k: self.difference("sequence", k) for k in self.grid("sequence", 1)}
        overall = mean(list(differences.values()))
        behind = [k for k, difference in differences.items() if difference.interval[1] <= 0]
        words = f"The mean over k of GSD minus ERSD is {with_interval(overall.to_json())}; ERSD is ahead at "
        words += f"k = {_listed(behind)}." if behind else "no k."
        return overall.interval[0] > 0 and not behind, words

    @_finding("specinfer", "SpecInfer's tree is slightly above sequence.")
    def specinfer_above_sequence(self) -> Outcome:
        ks = [k for k in self.grid("sequence", 1) if k in self.grid("specinfer", 0)]
        if not ks:
            raise _NotMeasured("specinfer and sequence: 1 point of both methods is needed, 0 are there")
        table, outcomes = self.estimates, []
        for method in BOTH:
            gain = mean(
                [table[Point(method, "specinfer", k)] - table[Point(method, "sequence", k)] for k in ks]
            )
            outcomes.append((gain.interval[0] > 0, with_interval(gain.to_json())))
        return _of_both(outcomes, f"The mean gain over sequence at k = {_listed(ks)}: ")

    @_finding("specinfer_level", "SpecInfer's tree levels off too.")
    def specinfer_levels_off(self) -> Outcome:
        ks, outcomes = self.grid("specinfer", 3), []
        for method in BOTH:
            gains = np.diff([self.value(method, "specinfer", k) for k in ks]) / np.diff(ks)
            first_gain, last_gain = float(gains[0]), float(gains[-1])
            outcomes.append((last_gain < first_gain / 4, f"{number(first_gain)}, then {number(last_gain)}"))
        spans = f"from k = {ks[0]} to {ks[1]}, then from {ks[-2]} to {ks[-1]}"
        return _of_both(outcomes, f"The gain per drafted token {spans}: ")

    @_finding(
        "above_prediction", "Sequence on real text is above the 0-th order prediction.", "Section 5, Figure 3"
    )
    def above_prediction(self) -> Outcome:
        k, outcomes = self.grid("sequence", 1)[-1], []
        for method in BOTH:
            estimate, prediction = (
                self.estimates[Point(method, "sequence", k)],
                self.prediction(method, "sequence", k),
            )
            words = f"{with_interval(estimate.to_json())} measured, {number(prediction)} predicted"
            outcomes.append((estimate.interval[0] > prediction, words))
        holds, words = _of_both(outcomes, f"At k = {k}: ")
        for last in self.grid("optimal", 0)[-1:]:
            optimal = [
                f"{name} {number(self.value(method, 'optimal', last))} measured, "
                f"{number(self.prediction(method, 'optimal', last))} predicted at k = {last}"
                for method, name in BOTH.items()
            ]
            words += f" Optimal tree: {listed(optimal)}."
        return holds, words

    @_finding("logarithm", "The optimal tree grows with log k.", "Section 5, Theorem 4.1")
    def logarithmic(self) -> Outcome:
        ks, outcomes = self.grid("optimal", 4, least=LARGE_K), []
        for method in BOTH:
            slope, _, fit = self.slopes(method, ks)
            words = f"{number(slope)} tokens per doubling, R² = {number(fit)}"
            outcomes.append((slope > 0 and fit > 0.98, words))
        return _of_both(outcomes, "Line through log₂(k + 1): ")

    @_finding("slope", "Its slope per doubling of k is close to 1 / H[R].", "Section 4, Theorem 4.1")
    def slope_beside_entropy(self) -> Outcome:
        ks, outcomes = self.grid("optimal", 2, least=LARGE_K), []
        for method in BOTH:
            slope, prediction, _ = self.slopes(method, ks)
            acceptance = self.summary["acceptance"][method]
            inverse, words = _inverse(acceptance["entropy_of_mean"]), f"{number(slope)} per doubling "
            words += f"(predicted {number(prediction)}), 1 / H[R] = {number(inverse)}"
            if contexts := acceptance["contexts"]:
                of_contexts = _inverse(contexts["mean_entropy"]["value"])
                words += f", with the mean entropy of contexts {number(of_contexts)}"
            outcomes.append((_alike(slope, inverse), words))
        return _of_both(outcomes)

    @_finding("converge", "On the optimal tree both methods converge.")
    def converge(self) -> Outcome:
        ks = self.grid("optimal", 3)
        differences = {k: self.difference("optimal", k) for k in ks}
        shares = {k: abs(d.value) / self.value("gsd", "optimal", k) for k, d in differences.items()}
        largest = max(ks, key=lambda k: abs(differences[k].value))
        of_ks = {k: differences[k] for k in (ks[0], largest, ks[-1])}
        holds = shares[ks[-1]] < max(shares.values()) and self.is_level("optimal", ks[-1])
        return holds, f"GSD minus ERSD, first, largest and last: {_by_k(of_ks)}."

    @_finding(
        "bound_increments",
        "Increments of the fixed-m bound follow those of the optimal tree.",
        "Section 5, Figure 4, Lemma 4.2",
    )
    def bound_increments(self) -> Outcome:
        grid, outcomes = self.grid("optimal", 0, least=LARGE_K), []
        for method in BOTH:
            bounds = self.bounds(method, "fixed_m")
            ks = [k for k in grid if math.isfinite(bounds.get(k) or math.inf)]
            if len(ks) < 4:
                raise _NotMeasured(f"optimal from {LARGE_K}: 4 points with a bound are needed, not {len(ks)}")
            of_bound = np.diff([bounds[k] for k in ks])
            of_tree = np.diff([self.value(method, "optimal", k) for k in ks])
            grown = of_tree > 0
            middle = float(np.median(of_bound[grown] / of_tree[grown])) if grown.any() else math.nan
            outcomes.append((_alike(middle, 1.0), f"{number(middle)} from k = {ks[0]} to {ks[-1]}"))
        return _of_both(outcomes, "Median of the bound's increment over the tree's: ")

    @_finding(
        "bound", "No measured value of the optimal tree is above the minimal bound.", "Figure 3, Lemma 4.2"
    )
    def bound_holds(self) -> Outcome:
        outcomes = []
        for method in BOTH:
            bounds = self.bounds(method, "minimal")
            ks = [k for k in self.grid("optimal", 1) if k in bounds]
            over = [k for k in ks if self.estimates[Point(method, "optimal", k)].interval[0] > bounds[k]]
            margin, closest = min((bounds[k] - self.value(method, "optimal", k), k) for k in ks)
            words = f"comes closest to the bound at k = {closest}, {number(margin)} below it"
            words += f", above the bound at k = {_listed(over)}" if over else ""
            outcomes.append((not over, words))
        return _of_both(outcomes)


def _of_both(outcomes: Sequence[Outcome], start: str = "") -> Outcome:
    """The outcome for both methods together: it holds if it holds for each. `start` begins its sentence."""
    words = "; ".join(f"{name} {text}" for name, (_, text) in zip(BOTH.values(), outcomes, strict=True))
    return all(holds for holds, _ in outcomes), f"{start}{words}."


def _by_k(estimates: Mapping[int, Estimate]) -> str:
    return listed([f"{with_interval(each.to_json())} at k = {k}" for k, each in estimates.items()])


def _listed(ks: Iterable[int]) -> str:
    return listed([*map(str, ks)])


def _inverse(bits: float) -> float:
    return 1 / bits if bits else math.inf


def _alike(a: float, b: float) -> bool:
    return a > 0 and b > 0 and max(a / b, b / a) <= ALIKE
