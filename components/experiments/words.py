"""What an experiment's figures and findings say: pure functions, summary -> sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from specdec.experiments.findings import VERDICTS
from specdec.experiments.settings import STRATEGIES
from specdec.figures.topologies import TOPOLOGIES
from specdec.methods import METHODS

Summary = Mapping[str, Any]
Table = dict[str, Any]
"""caption, columns, and rows of texts."""

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


def title(summary: Summary) -> str:
    """Which pair, how much text, on what."""
    pair, settings, versions = summary["pair"], summary["settings"], summary["versions"]
    # an unfinished experiment has fewer than it was asked for
    fewest = min((point["tokens"] for point in summary["points"]), default=0)
    parts = [
        f"Target {pair.get('target', '?')}",
        f"draft {pair.get('draft', '?')}: at least {fewest:,} tokens per point",
        f"texts of up to {settings.get('max_new_tokens', '?')} tokens",
        f"{settings.get('prompts', '?')} prompts",
        f"temperature {settings.get('temperature', '?')}",
        f"seed {settings.get('seed', '?')}; {versions.get('device', '?')}",
        f"torch {versions.get('torch', '?')}",
        f"{versions.get('date', 'no date')}.",
    ]
    return ", ".join(parts)


def about_tokens(summary: Summary, method: str) -> str:
    """The largest optimal tree beside the largest sequence and batch, and its bound."""
    parts = []
    for strategy in ("optimal", "sequence", "batch"):
        if row := _last(summary["points"], method=method, strategy=strategy):
            name = TOPOLOGIES[strategy].long_name
            parts.append(f"the {name} reaches {number(row['value'])} at k = {row['k']}")
    bounds = [row for row in summary["bounds"].get(method, {"by_k": []})["by_k"] if row["minimal"]]
    if bounds:
        last = bounds[-1]
        parts.append(f"the smallest upper bound is {number(last['minimal'])} at k = {last['k']}")
    return f"{METHODS[method].name}, tokens per target call: {listed(parts)}."


def about_increments(summary: Summary, method: str) -> str:
    """How quickly one more drafted token loses its worth, by strategy."""
    parts = []
    for strategy in ("sequence", "optimal"):
        rows = _chosen(summary["increments"], method=method, strategy=strategy)
        if len(rows) > 1:
            first, last, name = rows[0], rows[-1], TOPOLOGIES[strategy].long_name
            parts.append(
                f"{number(first['value'])} in the {name} from k = {first['from']} to "
                f"{first['to']} and {number(last['value'])} from k = {last['from']} to {last['to']}"
            )
    if not parts:
        return "Too few points for a change between them."
    return f"{METHODS[method].name}: one more drafted token adds {listed(parts, '; ')}."


def about_acceptance(summary: Summary) -> str:
    """First index, second and entropy, of both methods."""
    parts = []
    for method, acceptance in summary["acceptance"].items():
        first = [_percent(rate) for rate in acceptance["by_index"][:3]]
        parts.append(
            f"in the texts of these runs, under {METHODS[method].name} the first child is the accepted one "
            f"in {first[0]} of the cases, "
            f"the next ones in {' and '.join(first[1:]) or 'none'} (H[R] = "
            f"{number(acceptance['entropy_of_mean'])} bits)"
        )
    return _sentence(listed(parts, "; ")) + "."


def about_difference(summary: Summary) -> str:
    """Where GSD is ahead, where ERSD is, and where the interval covers 0."""
    ahead: dict[str, dict[str, list[str]]] = {"GSD": {}, "ERSD": {}}
    for row in summary["differences"]:
        if row["low"] is not None and row["low"] > 0:
            ahead["GSD"].setdefault(row["strategy"], []).append(str(row["k"]))
        elif row["high"] is not None and row["high"] < 0:
            ahead["ERSD"].setdefault(row["strategy"], []).append(str(row["k"]))
    told = [f"{name} is ahead in {_places(places)}" for name, places in ahead.items() if places]
    if not told:
        return "At no point does the 95% interval of the difference leave out 0."
    return f"{listed(told, '; ')}. Elsewhere the 95% interval of the difference covers 0."


def _places(places: Mapping[str, Sequence[str]]) -> str:
    named = [f"{TOPOLOGIES[strategy].long_name} (k = {', '.join(ks)})" for strategy, ks in places.items()]
    return listed(named)


# ---------------------------------------------------------------- tables


def tokens_table(summary: Summary, method: str) -> Table:
    """All points of a method; the optimal tree's with its bounds."""
    by_k = {row["k"]: row for row in summary["bounds"].get(method, {"by_k": []})["by_k"]}
    rows = []
    for strategy in STRATEGIES:
        for point in _chosen(summary["points"], method=method, strategy=strategy):
            bound = by_k.get(point["k"], {}) if strategy == "optimal" else {}
            values = [point["prediction"], bound.get("minimal"), bound.get("fixed_m"), bound.get("tunstall")]
            rows.append([*_measured(strategy, str(point["k"]), point), *map(number, values)])
    columns = ["topology", "k", "measured", "95% interval", "predicted", "smallest bound", "m fixed"]
    return table("Tokens per target call", [*columns, "Theorem 4.1"], rows)


def increments_table(summary: Summary, method: str) -> Table:
    """All steps between neighbouring k of a method."""
    rows = []
    for strategy in STRATEGIES:
        for row in _chosen(summary["increments"], method=method, strategy=strategy):
            where = f"{row['from']} to {row['to']}"
            rows.append([*_measured(strategy, where, row), number(row["prediction"])])
    columns = ["topology", "k", "measured", "95% interval", "predicted"]
    return table("Tokens per target call that one more drafted token adds", columns, rows)


def acceptance_table(summary: Summary) -> Table:
    """Both methods by child index."""
    rows = []
    for method, acceptance in summary["acceptance"].items():
        counted = {row["index"]: row for row in acceptance["batch"]}
        computed = (acceptance["contexts"] or {"by_index": []})["by_index"]
        for index, rate in enumerate(acceptance["by_index"]):
            row = counted.get(index, {"rate": None, "low": None, "high": None})
            exact = computed[index] if index < len(computed) else None
            values = [number(row["rate"]), interval(row), number(rate), number(exact)]
            rows.append([METHODS[method].name, str(index), *values])
    columns = ["method", "index", "counted in batch", "95% interval", "as used", "computed"]
    return table("Probability that the child with this index is the accepted one", columns, rows)


def difference_table(summary: Summary) -> Table:
    """All points that both methods have."""
    rows = [_measured(row["strategy"], str(row["k"]), row) for row in summary["differences"]]
    return table(
        "GSD minus ERSD, tokens per target call", ["topology", "k", "difference", "95% interval"], rows
    )


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table of texts, as data."""
    return {"caption": caption, "columns": list(columns), "rows": [list(row) for row in rows]}


def _measured(strategy: str, k: str, row: Mapping[str, Any]) -> list[str]:
    return [TOPOLOGIES[strategy].long_name, k, number(row["value"]), interval(row)]


# ---------------------------------------------------------------- findings


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


# ---------------------------------------------------------------- phrases


def _by_method(numbers: Numbers, told: Callable[[Any], str]) -> str:
    return "; ".join(f"{entry.name} {told(numbers[m])}" for m, entry in METHODS.items() if m in numbers)


def _estimate(row: Numbers) -> str:
    around = interval(row)
    return number(row["value"]) + (f" ({around})" if around != "–" else "")


def interval(row: Numbers) -> str:
    """Low to high, in numbers."""
    if row["low"] is None or row["high"] is None:
        return "–"
    return f"{number(row['low'])} to {number(row['high'])}"


def number(value: float | None) -> str:
    """Three significant digits at least, two decimals; a true minus sign."""
    if value is None:
        return "–"
    digits = 2 if abs(value) >= 1 else min(6, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:.{digits}f}".replace("-", "−")


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f}%"


def listed(parts: Sequence[str], between: str = ", ") -> str:
    """Parts of a sentence, the last after "and"."""
    *most, last = parts or ["nothing"]
    return f"{between.join(most)}{' and ' if between == ', ' else between}{last}" if most else last


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _chosen(rows: Sequence[Mapping[str, Any]], **wanted: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def _last(rows: Sequence[Mapping[str, Any]], **wanted: str) -> Mapping[str, Any] | None:
    return next(reversed(_chosen(rows, **wanted)), None)
