"""The sentences and tables of an experiment: pure functions of its summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.page.plots import Table, table
from research.experiments.phrases import interval, listed, number
from research.experiments.settings import STRATEGIES
from specdec.figures.topologies import TOPOLOGIES
from specdec.methods import METHODS

Summary = Mapping[str, Any]


def title(summary: Summary) -> str:
    """The pair, the amount of text, and the machine of the experiment."""
    pair, settings, versions = summary["pair"], summary["settings"], summary["versions"]
    # an unfinished experiment has fewer tokens than planned
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
    """The largest optimal tree compared with the largest sequence and batch, and the tree's bound."""
    parts = []
    for strategy in ("optimal", "sequence", "batch"):
        for row in chosen(summary["points"], method=method, strategy=strategy)[-1:]:
            name = TOPOLOGIES[strategy].long_name
            parts.append(f"the {name} reaches {number(row['value'])} at k = {row['k']}")
    bounds = [row for row in summary["bounds"].get(method, {"by_k": []})["by_k"] if row["minimal"]]
    if bounds:
        last = bounds[-1]
        parts.append(f"the smallest upper bound is {number(last['minimal'])} at k = {last['k']}")
    return f"{METHODS[method].name}, tokens per target call: {listed(parts)}."


def about_increments(summary: Summary, method: str) -> str:
    """The gain of one more drafted token, at small and at large k, by strategy."""
    parts = []
    for strategy in ("sequence", "optimal"):
        rows = chosen(summary["increments"], method=method, strategy=strategy)
        if len(rows) > 1:
            first, last, name = rows[0], rows[-1], TOPOLOGIES[strategy].long_name
            parts.append(
                f"{number(first['value'])} in the {name} from k = {first['from']} to "
                f"{first['to']} and {number(last['value'])} from k = {last['from']} to {last['to']}"
            )
    if not parts:
        return "There are too few points to compute a change between them."
    return f"{METHODS[method].name}: one more drafted token adds {listed(parts, '; ')}."


def about_acceptance(summary: Summary) -> str:
    """Acceptance of the first three indices and the entropy, of both methods."""
    parts = []
    for method, acceptance in summary["acceptance"].items():
        first = [f"{100 * rate:.1f}%" for rate in acceptance["by_index"][:3]]
        parts.append(
            f"in the texts of these runs, {METHODS[method].name} accepts the first child in {first[0]} of "
            f"the cases, the next ones in {' and '.join(first[1:]) or 'none'} (H[R] = "
            f"{number(acceptance['entropy_of_mean'])} bits)"
        )
    text = listed(parts, "; ")
    return f"{text[:1].upper()}{text[1:]}."


def about_difference(summary: Summary) -> str:
    """The points at which GSD or ERSD yields more."""
    rows, parts = summary["differences"], []
    gsd = [row for row in rows if (row["low"] or 0) > 0]
    ersd = [row for row in rows if (row["high"] or 0) < 0]
    for name, ahead in (("GSD", gsd), ("ERSD", ersd)):
        ks = {
            strategy: [str(row["k"]) for row in ahead if row["strategy"] == strategy]
            for strategy in TOPOLOGIES
        }
        places = [
            f"{TOPOLOGIES[where].long_name} (k = {', '.join(some)})" for where, some in ks.items() if some
        ]
        parts += [f"{name} is ahead in {listed(places)}"] if places else []
    if not parts:
        return "The 95% interval of the difference contains 0 at every point."
    return f"{listed(parts, '; ')}. Elsewhere the 95% interval of the difference contains 0."


# ---------------------------------------------------------------- tables


def tokens_table(summary: Summary, method: str) -> Table:
    """All points of a method. Points of the optimal tree have their bounds."""
    by_k = {row["k"]: row for row in summary["bounds"].get(method, {"by_k": []})["by_k"]}
    rows = []
    for strategy in STRATEGIES:
        for point in chosen(summary["points"], method=method, strategy=strategy):
            bound = by_k.get(point["k"], {}) if strategy == "optimal" else {}
            values = [point["prediction"], bound.get("minimal"), bound.get("fixed_m"), bound.get("tunstall")]
            rows.append([*_measured(strategy, str(point["k"]), point), *map(number, values)])
    columns = ["topology", "k", "measured", "95% interval", "predicted", "smallest bound", "m fixed"]
    return table("Tokens per target call", [*columns, "Theorem 4.1"], rows)


def increments_table(summary: Summary, method: str) -> Table:
    """All steps between neighbouring values of k, for one method."""
    rows = []
    for strategy in STRATEGIES:
        for row in chosen(summary["increments"], method=method, strategy=strategy):
            where = f"{row['from']} to {row['to']}"
            rows.append([*_measured(strategy, where, row), number(row["prediction"])])
    columns = ["topology", "k", "measured", "95% interval", "predicted"]
    return table("Tokens per target call that one more drafted token adds", columns, rows)


def acceptance_table(summary: Summary) -> Table:
    """The acceptance of both methods by child index."""
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
    columns = ["topology", "k", "difference", "95% interval"]
    return table("GSD minus ERSD, tokens per target call", columns, rows)


def _measured(strategy: str, k: str, row: Mapping[str, Any]) -> list[str]:
    return [TOPOLOGIES[strategy].long_name, k, *spread(row)]


def spread(row: Mapping[str, Any]) -> list[str]:
    """The cells of a value and of its interval."""
    return [number(row["value"]), interval(row)]


def chosen(rows: Sequence[Mapping[str, Any]], **wanted: Any) -> list[Mapping[str, Any]]:
    """The rows with these entries."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]
