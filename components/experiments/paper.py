"""The figures of the paper's experiment, made by pure functions from its summary (`research.experiments`).

Each function returns a view: a figure, a sentence and a table. Each axis has a name and a unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from components.experiments.figures import Look, Rows, chosen, measured, spread
from components.page.plots import table, view
from specdec.figures.looks import BOUND, axes, colour, line, log_axes
from specdec.figures.topologies import FIXED, TOPOLOGIES
from specdec.methods import METHODS
from specdec.phrases import interval, listed, number

Summary = Mapping[str, Any]


def tokens(summary: Summary, method: str) -> dict[str, Any]:
    """The view of tokens per target call of every strategy: as measured, as predicted, and the optimal tree's
    upper bounds."""
    figure = axes("drafted tokens k", "tokens per target call", xaxis_type="log")
    rows = [row | {"at": row["k"], "where": str(row["k"])} for row in summary["points"]]
    points = _add_strategies(figure, rows, method)
    bounds = summary["bounds"][method]
    for name, key, dash in (
        ("smallest upper bound", "minimal", "solid"),
        (f"upper bound, m = {bounds['fixed_m']}", "fixed_m", "dash"),
    ):
        if rows := [row for row in bounds["by_k"] if row[key] is not None]:
            figure.add_trace(line(name, BOUND, dash, _column(rows, "k"), _column(rows, key)))
    parts = []
    for strategy in ("optimal", "sequence", "batch"):
        for row in chosen(points, strategy=strategy)[-1:]:
            name = TOPOLOGIES[strategy].long_name
            parts.append(f"the {name} reaches {number(row['value'])} at k = {row['k']}")
    for row in [row for row in bounds["by_k"] if row["minimal"]][-1:]:
        parts.append(f"the smallest upper bound is {number(row['minimal'])} at k = {row['k']}")
    by_k, limits = {row["k"]: row for row in bounds["by_k"]}, ("minimal", "fixed_m", "tunstall")
    cells = []
    for row in points:
        bound = by_k.get(row["k"], {}) if row["strategy"] == "optimal" else {}
        cells.append([*_measured_cells(row), *map(number, [row["prediction"], *map(bound.get, limits)])])
    columns = ["topology", "k", "measured", "95% interval", "predicted", "smallest bound", "m fixed"]
    return view(
        "Tokens per target call against k",
        "Paper: Figure 3; bounds of Lemma 4.2, Theorem 4.1 in the table",
        f"{METHODS[method].name}, tokens per target call: {listed(parts)}.",
        "Marks: measured, with 95% intervals. Dotted lines: predicted from the acceptance R. Grey lines: "
        "upper bounds.",
        log_axes(figure),
        table("Tokens per target call", [*columns, "Theorem 4.1"], cells),
        id="tokens",
        method=method,
    )


def increments(summary: Summary, method: str) -> dict[str, Any]:
    """The view of the tokens per target call that each additional drafted token adds: as measured, as
    predicted, and in the upper bound of Lemma 4.2 with one m for all k.

    The bound limits the tokens but not their growth, so measured growth may be above the bound's.
    """
    title = "tokens per target call, per drafted token"
    figure = axes("drafted tokens k", title, xaxis_type="log", yaxis_type="log")
    spans = [
        row | {"at": _middle(row["from"], row["to"]), "where": f"{row['from']} to {row['to']}"}
        for row in summary["increments"]
    ]
    steps = _add_strategies(figure, spans, method, positive=True)
    bounds = [row for row in summary["bounds"][method]["by_k"] if row["fixed_m"] is not None]
    between = list(pairwise(bounds))
    changes = [(b["fixed_m"] - a["fixed_m"]) / (b["k"] - a["k"]) for a, b in between]
    ks = [_middle(a["k"], b["k"]) for a, b in between]
    figure.add_trace(line("growth of the bound, m fixed", BOUND, "dash", ks, _positive(changes)))
    parts = []
    for strategy in ("sequence", "optimal"):
        rows, name = chosen(steps, strategy=strategy), TOPOLOGIES[strategy].long_name
        if len(rows) > 1:
            ends = [f"{number(row['value'])}{{}} at k = {row['where']}" for row in (rows[0], rows[-1])]
            parts.append(" and ".join(ends).format(f" in the {name}", ""))
    sentence = f"{METHODS[method].name}: one more drafted token adds {listed(parts, '; ')}."
    cells = [[*_measured_cells(row), number(row["prediction"])] for row in steps]
    columns = ["topology", "k", "measured", "95% interval", "predicted"]
    return view(
        "What one more drafted token adds",
        "Paper: Figure 4; bound of Lemma 4.2, with one m for all k",
        sentence if parts else "There are too few points to compute a change between them.",
        "Marks: measured, with 95% intervals. Dotted lines: predicted from the acceptance R. Grey line: the "
        "growth of the upper bound. The bound limits the tokens, not their growth, so marks may lie above "
        "the line. A logarithmic axis can't show values of 0 or less; they are in the table.",
        log_axes(figure),
        table("Tokens per target call that one more drafted token adds", columns, cells),
        id="increments",
        method=method,
    )


def acceptance(summary: Summary) -> dict[str, Any]:
    """The view of acceptance: the probability that the child with each index is accepted, for each method,
    and its entropy."""
    figure = axes("child index", "probability of acceptance", yaxis_type="log")
    parts, cells = [], []
    for method, entry in summary["acceptance"].items():
        name, hue, dash = METHODS[method].name, colour(method), METHODS[method].dash
        rates, exact_rates = entry["by_index"], (entry["contexts"] or {"by_index": []})["by_index"]
        figure.add_trace(line(f"{name}, as used", hue, dash, range(len(rates)), _positive(rates), name))
        rows = [row | {"value": row["rate"]} for row in entry["batch"] if row["rate"]]
        look = Look(name, hue, METHODS[method].mark, dash)
        figure.add_trace(measured(look, _column(rows, "index"), rows, positive=True))
        if exact_rates:
            x, y = range(len(exact_rates)), _positive(exact_rates)
            figure.add_trace(line(f"{name}, computed", hue, "dot", x, y, name))
        first = [f"{100 * rate:.1f}%" for rate in rates[:3]]
        parts.append(
            f"in the texts of these runs, {name} accepts the first child in {first[0]} of the cases, the "
            f"next ones in {' and '.join(first[1:]) or 'none'} (H[R] = {number(entry['entropy_of_mean'])} "
            "bits)"
        )
        row_of = {row["index"]: row for row in entry["batch"]}
        for index, rate in enumerate(rates):
            row = row_of.get(index, {"rate": None, "low": None, "high": None})
            exact = exact_rates[index] if index < len(exact_rates) else None
            cells.append([name, str(index), number(row["rate"]), interval(row), number(rate), number(exact)])
    text = listed(parts, "; ")
    columns = ["method", "index", "counted in batch", "95% interval", "as used", "computed"]
    return view(
        "Acceptance by child index, R",
        "Paper: Figure 4, batch; R of Section 4, Equation 3; Lemma 3.1 for index 0",
        f"{text[:1].upper()}{text[1:]}.",
        "Marks: counted in runs with the batch topology, with 95% intervals. Lines: the R that chose "
        "the trees. Dotted lines: computed from the models' distributions.",
        log_axes(figure),
        table("Probability that the child with this index is the accepted one", columns, cells),
        id="acceptance",
    )


def difference(summary: Summary) -> dict[str, Any]:
    """The view of the difference between GSD and ERSD in tokens per target call, and the points at which one
    of them is ahead."""
    title, rows, parts = "GSD minus ERSD, tokens per target call", summary["differences"], []
    figure = axes("drafted tokens k", title, xaxis_type="log")
    for strategy in FIXED:
        if some := chosen(rows, strategy=strategy):
            figure.add_trace(measured(_topology(strategy), _column(some, "k"), some, lines=True))
    figure.add_hline(y=0, line={"color": BOUND, "width": 1})
    gsd = [row for row in rows if (row["low"] or 0) > 0]
    ersd = [row for row in rows if (row["high"] or 0) < 0]
    for name, ahead in (("GSD", gsd), ("ERSD", ersd)):
        ks = {strategy: [*map(str, _column(chosen(ahead, strategy=strategy), "k"))] for strategy in FIXED}
        places = [
            f"{TOPOLOGIES[where].long_name} (k = {', '.join(some)})" for where, some in ks.items() if some
        ]
        parts += [f"{name} is ahead in {listed(places)}"] if places else []
    elsewhere = "the 95% interval of the difference contains 0"
    cells = [_measured_cells(row | {"where": str(row["k"])}) for row in rows]
    return view(
        "GSD minus ERSD",
        "Paper: Section 5 and Lemma 3.1, in words",
        f"{listed(parts, '; ')}. Elsewhere {elsewhere}." if parts else f"T{elsewhere[1:]} at every point.",
        "Above the line at 0, GSD yields more tokens than ERSD. Both have the same prompts and seeds; "
        "intervals are 95%.",
        log_axes(figure),
        table(title, ["topology", "k", "difference", "95% interval"], cells),
        id="difference",
    )


def _add_strategies(figure: go.Figure, rows: Rows, method: str, positive: bool = False) -> Rows:
    """Adds to the figure the measured and the predicted values of each strategy.

    Returns the summary's rows of all strategies. Each row also has `at`, its place on the x axis, and
    `where`, the words for this place.
    """
    points: list[Mapping[str, Any]] = []
    for strategy in FIXED:
        if some := chosen(rows, method=method, strategy=strategy):
            look, x = _topology(strategy), _column(some, "at")
            predictions = _column(some, "prediction")
            predictions = _positive(predictions) if positive else predictions
            figure.add_trace(line(f"{look.name}, predicted", look.hue, "dot", x, predictions, look.name))
            figure.add_trace(measured(look, x, some, positive))
            points += some
    return points


def _topology(name: str) -> Look:
    entry = TOPOLOGIES[name]
    return Look(entry.long_name, colour(entry.colour), entry.mark, entry.dash)


def _measured_cells(row: Mapping[str, Any]) -> list[str]:
    return [TOPOLOGIES[row["strategy"]].long_name, row["where"], *spread(row)]


def _column(rows: Rows, name: str) -> list[Any]:
    return [row[name] for row in rows]


def _positive(values: Sequence[float]) -> list[float | None]:
    return [value if value > 0 else None for value in values]


def _middle(a: float, b: float) -> float:
    return (a * b) ** 0.5
