"""The paper's findings in words: what was measured, and where the paper states it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from components.experiments.words import Summary, interval, listed, number
from specdec.experiments.findings import VERDICTS
from specdec.methods import METHODS

PLACES = {
    "batch_1": "Section 5, Lemma 3.1",
    "batch_level": "Section 5, Figure 3",
    "sequence": "Section 5, Figure 3",
    "above_prediction": "Section 5, Figure 3",
    "logarithm": "Section 5, Theorem 4.1",
    "slope": "Section 4, Theorem 4.1",
    "bound_increments": "Section 5, Figure 4, Lemma 4.2",
    "bound": "Figure 3, Lemma 4.2",
}
"""Finding -> where the paper states it; Section 5 where nothing else is said."""


def findings(summary: Summary) -> list[dict[str, Any]]:
    """verdict, statement, numbers in words, and place in the paper, of each finding.

    ValueError where a finding's numbers are not as `specdec.experiments` writes them.
    """
    return [_finding(finding) for finding in summary["findings"]]


def _finding(finding: Mapping[str, Any]) -> dict[str, Any]:
    name, numbers = finding["name"], finding["numbers"]
    try:
        words = f"Missing: {numbers['missing']}." if "missing" in numbers else _WORDS[name](numbers)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise ValueError(
            f"findings: the numbers of {str(name)[:40]!r} are not as specdec.experiments writes them"
        ) from None
    return {
        "found": finding["found"],
        "verdict": VERDICTS[finding["found"]],
        "statement": finding["statement"],
        "words": words,
        "place": PLACES.get(name, "Section 5"),
    }


Numbers = Mapping[str, Any]


def _one_difference(numbers: Numbers) -> str:
    return f"GSD minus ERSD is {_estimate(numbers['gsd_minus_ersd'])} tokens per target call."


def _differences(numbers: Numbers) -> str:
    told = [f"{_estimate(row)} at k = {k}" for k, row in numbers["gsd_minus_ersd"].items()]
    return f"GSD minus ERSD: {listed(told)}."


def _two_values(numbers: Numbers) -> str:
    ks = " and ".join(str(k) for k in numbers["k"])
    return f"At k = {ks}: {_by_method(numbers, lambda row: ' and '.join(map(number, row)))}."


def _sequence(numbers: Numbers) -> str:
    rows = numbers["by_k"].items()
    below = [str(k) for k, row in rows if row["high"] is not None and row["high"] <= 0]
    behind = f"ERSD is ahead at k = {listed(below)}" if below else "at no k is ERSD ahead"
    return f"Mean over k of GSD minus ERSD is {_estimate(numbers['mean_gsd_minus_ersd'])}; {behind}."


def _specinfer(numbers: Numbers) -> str:
    ks = listed([str(k) for k in numbers["k"]])
    return f"Mean gain over sequence at k = {ks}: {_by_method(numbers['mean_gain'], _estimate)}."


def _specinfer_level(numbers: Numbers) -> str:
    a, b, c, d = numbers["k"]

    def told(row: Numbers) -> str:
        return f"{number(row['gain_per_token_first'])}, then {number(row['gain_per_token_last'])}"

    spans = f"from k = {a} to {b}, then from {c} to {d}"
    return f"Gain per drafted token {spans}: {_by_method(numbers, told)}."


def _above_prediction(numbers: Numbers) -> str:
    def told(row: Numbers) -> str:
        return f"{_estimate(row['measured'])} measured, {number(row['prediction'])} predicted"

    optimal = [
        f"{METHODS[method].name} {number(measured)} beside {number(predicted)} at k = {k}"
        for method, by_k in numbers["optimal"].items()
        for k, (measured, predicted) in by_k.items()
    ]
    more = f" Optimal tree: {listed(optimal)}." if optimal else ""
    return f"At k = {numbers['k']}: {_by_method(numbers, told)}.{more}"


def _logarithm(numbers: Numbers) -> str:
    def told(row: Numbers) -> str:
        return f"{number(row['tokens_per_doubling'])} tokens per doubling, R² = {number(row['r_squared'])}"

    return f"Line through log₂(k + 1): {_by_method(numbers, told)}."


def _slope(numbers: Numbers) -> str:
    def told(row: Numbers) -> str:
        text = (
            f"{number(row['slope'])} per doubling (predicted {number(row['slope_of_prediction'])}) beside "
            f"1 / H[R] = {number(row['one_over_entropy_of_mean'])}"
        )
        mean = row.get("one_over_mean_entropy")
        return text + (f", with the mean entropy of contexts {number(mean)}" if mean is not None else "")

    return f"{_by_method(numbers, told)}."


def _converge(numbers: Numbers) -> str:
    rows = list(numbers["gsd_minus_ersd"].items())
    chosen = [*rows[:1], max(rows, key=lambda item: abs(item[1]["value"])), rows[-1]]
    told = {k: f"{_estimate(row)} at k = {k}" for k, row in chosen}
    return f"GSD minus ERSD, first, largest and last: {listed(list(told.values()))}."


def _bound_increments(numbers: Numbers) -> str:
    def told(row: Numbers) -> str:
        return f"{number(row['median_ratio'])} from k = {row['k'][0]} to {row['k'][-1]}"

    return f"Median of the bound's increment over the tree's: {_by_method(numbers, told)}."


def _bound(numbers: Numbers) -> str:
    def told(row: Numbers) -> str:
        margin = min((bound - value, k) for k, (value, bound) in row["measured_and_bound"].items())
        over = row["measured_above_bound_at"]
        above = f", above it at k = {listed([str(k) for k in over])}" if over else ""
        return f"smallest distance below the bound {number(margin[0])} at k = {margin[1]}{above}"

    return f"{_by_method(numbers, told)}."


_WORDS: dict[str, Callable[[Numbers], str]] = {
    "batch_1": _one_difference,
    "batch_2": _one_difference,
    "batch_3": _differences,
    "batch_level": _two_values,
    "sequence": _sequence,
    "specinfer": _specinfer,
    "specinfer_level": _specinfer_level,
    "above_prediction": _above_prediction,
    "logarithm": _logarithm,
    "slope": _slope,
    "converge": _converge,
    "bound_increments": _bound_increments,
    "bound": _bound,
}


def _by_method(numbers: Numbers, told: Callable[[Any], str]) -> str:
    return "; ".join(f"{entry.name} {told(numbers[m])}" for m, entry in METHODS.items() if m in numbers)


def _estimate(row: Numbers) -> str:
    around = interval(row)
    return number(row["value"]) + (f" ({around})" if around != "–" else "")
