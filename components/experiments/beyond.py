"""The views of results that go beyond the paper (`docs/theory.md`).

Each view has a figure, a sentence and a table. Pure functions make them from the stored summaries of
`research.experiments.rounding`, `.limits`, `.lists` and `.ahead`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.experiments.figures import Look, chosen, measured
from components.page.plots import table, view
from specdec.figures.looks import BOUND, axes, colour, line
from specdec.phrases import number, with_interval

Summary = Mapping[str, Any]
Row = Mapping[str, Any]
_PAIRS = {"stories": ("target", "circle"), "smollm2": ("draft", "square"), "random": ("batch", "diamond")}
"""The colour and the mark of each pair of models."""


def _place(name: str) -> str:
    return f"Beyond the paper: docs/theory.md, python -m research.experiments.{name}"


def rounding(summary: Summary) -> dict[str, Any]:
    """The view of how often rounding changes a token: in one race, in greedy decoding, and an upper bound for
    the race."""
    fields = ("distance", "parted", "expected", "bound", "greedy", "independent")
    points = [
        row | {field: {end: value and 100 * value for end, value in row[field].items()} for field in fields}
        for row in summary["points"]
    ]  # in percent
    rows = [row for row in points if row["distance"]["value"] > 0]
    row = next(row for row in rows if (row["pair"], row["compared"]) == ("stories", "bfloat16, torch"))
    share = {field: f"{number(row[field]['value'])}%" for field in fields}
    sentence = (
        f"Compared with float32, bfloat16 changes {share['expected']} of the story model's tokens if both "
        f"formats run the same race (never more than {share['bound']}), {share['greedy']} under greedy "
        f"decoding and {share['independent']} of independent samples."
    )
    cells = [
        [row["pair"], row["compared"], *(with_interval(row[field]) for field in fields)] for row in points
    ]
    names = list(dict.fromkeys(row["compared"] for row in rows))
    figure = axes("", "tokens that differ, %", 400, yaxis_type="log")
    for place, (pair, own) in enumerate(_by_pair(rows).items()):
        x = [names.index(row["compared"]) + 0.2 * (place - 0.5) for row in own]
        for label, field, hue, mark in (
            ("one race, exact", "expected", "ersd", _PAIRS[pair][1]),
            ("greedy", "greedy", "ar", ("diamond", "cross")[place]),
        ):
            look = Look(f"{label}, {pair}", colour(hue), mark, "solid")
            figure.add_trace(measured(look, x, [row[field] for row in own], positive=True))
        bounds = [row["bound"]["value"] for row in own]
        stars = line("bound of the race", BOUND, "solid", x, bounds)
        marker = {"symbol": "star", "size": 8, "color": BOUND}
        figure.add_trace(stars.update(mode="markers", marker=marker, hovertemplate="%{y:.4~g}"))
    figure.update_xaxes(
        tickvals=list(range(len(names))), ticktext=names, tickangle=-45, tickfont={"size": 11}
    )
    figure.update_yaxes(dtick=1, exponentformat="power")
    quantities = ("total variation", "races counted", "races, exact", "bound", "greedy", "independent")
    columns = ["pair", "arithmetic", *quantities]
    return view(
        "How many tokens rounding changes",
        _place("rounding"),
        sentence,
        "Each number format is compared with float32 on the same texts. Circles and squares: the exact "
        "probability that a race has another winner, with 95% intervals over texts. Diamonds and crosses: "
        "the share of tokens that change in greedy decoding. Stars: the bound 2 D / (1 + D), where D is the "
        "total variation between the two distributions.",
        figure,
        table("Tokens that differ, percent, with 95% intervals", columns, cells),
        id="rounding",
    )


def limits(summary: Summary) -> dict[str, Any]:
    """The chart of tokens per target call by the number k of drafted tokens: what ERSD reached on the optimal
    tree, and several upper bounds."""
    points = [{"pair": pair} | row for pair, own in summary["pairs"].items() for row in own["points"]]
    figure = axes("drafted tokens k", "tokens per target call", 430, xaxis_type="log", yaxis_type="log")
    for pair, rows in _by_pair(points).items():
        hue, mark = _PAIRS[pair]
        ks = [row["k"] for row in rows]
        for name, (short, dash) in _LIMITS.items():
            valid = [row for row in rows if name != _STATED or row["k"] >= 3]
            limit = [row[_FIELDS[name]] for row in valid]
            figure.add_trace(line(f"{short}, {pair}", colour(hue), dash, [row["k"] for row in valid], limit))
        figure.add_trace(measured(Look(f"tree, {pair}", colour(hue), mark, "solid"), ks, rows))
    figure.update_xaxes(tickvals=ks, ticktext=[*map(str, ks)])
    ticks = [1, 2, 5, 10, 20, 50, 100]
    figure.update_yaxes(tickvals=ticks, ticktext=[*map(str, ticks)])
    last = [row for row in points if row["k"] == ks[-1]]
    parts = [f"{number(row['value'])} and {number(row['lemma'])} ({row['pair']})" for row in last]
    sentence = f"Tokens per call at k = {ks[-1]}, and the bound of Lemma 4.2: {', '.join(parts)}."
    cells = [
        [row["pair"], str(row["k"]), with_interval(row), *(number(row[field]) for field in _FIELDS.values())]
        for row in points
    ]
    return view(
        "Two kinds of limits",
        _place("limits"),
        sentence,
        "Marks show ERSD on the optimal tree of k tokens, with 95% intervals. Lines are upper bounds; "
        "“Tunstall” is Theorem 4.1 of the paper. Two bounds hold only for deterministic drafts: “as stated” "
        "by Pankratov and Alistarh, and “deterministic” from docs/theory.md. Such a draft is fixed without "
        "the target's samples, and is accepted only if it equals a sample. GSD and ERSD may exceed these "
        "bounds.",
        figure,
        table("Tokens per target call", ["pair", "k", "optimal tree", *_FIELDS], cells),
        id="limits",
    )


_STATED = "Pankratov and Alistarh"
"""The name of an upper bound on the tokens per call, by its authors. The bound is shown with its additive
constant set to 0, and drawn only for k >= 3, for which it is proved."""
_FIELDS = {
    "Theorem 4.1": "tunstall",
    "Lemma 4.2": "lemma",
    "renewal bound": "renewal",
    _STATED: "stated",
    "deterministic drafts": "deterministic",
}
_LIMITS = {
    "Theorem 4.1": ("Tunstall", "dash"),
    "Lemma 4.2": ("Lemma 4.2", "solid"),
    _STATED: ("as stated", "longdash"),
    "deterministic drafts": ("deterministic", "dashdot"),
}
"""The name in the legend and the line style of each bound. The renewal bound is only in the table, because it
was nowhere tighter than Lemma 4.2 of the paper."""


def lists(summary: Summary) -> dict[str, Any]:
    """The view of acceptance with n drafts: the first arrivals of one race, the winners of n races, and the
    optimum."""
    figure = axes("drafts of one position", "probability of acceptance", 400)
    for pair, rows in _by_pair(summary["points"]).items():
        hue, mark = _PAIRS[pair]
        n = [row["drafts"] for row in rows]
        for label, kind, symbol, dash in (
            ("one race", "arrivals", mark, "solid"),
            ("n races", "races", mark, "dot"),
        ):
            look = Look(f"{label}, {pair}", colour(hue), symbol, dash)
            figure.add_trace(measured(look, n, [row[kind] for row in rows], lines=True))
        best = [row["best_of_arrivals"]["value"] for row in rows]
        figure.add_trace(line("best of any rule", BOUND, "dash", n, best, "best"))
    parts = [
        f"{number(row['arrivals']['value'])} and {number(row['races']['value'])} ({row['pair']})"
        for row in summary["points"]
        if row["drafts"] == 4 and row["pair"] != "random"
    ]
    sentence = (
        "Probability that one of four drafts is accepted, from one race and from four races: "
        f"{'; '.join(parts)}. It is proved that drafts from one race are never accepted less often."
    )
    kinds = ("arrivals", "races", "best_of_arrivals", "best_of_draws")
    cells = [
        [row["pair"], str(row["drafts"]), *(with_interval(row[kind]) for kind in kinds)]
        for row in summary["points"]
    ]
    columns = ["pair", "drafts", "one race", "n races", "best for arrivals", "best for draws"]
    return view(
        "The first arrivals of one race, or the winners of many races",
        _place("lists"),
        sentence,
        "Full lines show ERSD, whose drafts are the first n arrivals of one race. Dotted lines show Gumbel "
        "list sampling, whose drafts are the winners of n independent races. Grey lines show the most that "
        "any rule can accept of n arrivals without changing the target's distribution. The 95% intervals are "
        "over texts.",
        figure,
        table("Probability that one of n drafts is accepted", columns, cells),
        id="lists",
    )


def ahead(summary: Summary) -> dict[str, Any]:
    """The view of drafting ahead: how often the right continuation was prepared, and the largest gain that
    this allows."""
    figure = axes("prepared continuations m", "share of rounds whose end was prepared", 400, xaxis_type="log")
    parts = []
    for pair, values in summary["pairs"].items():
        hue, mark = _PAIRS[pair]
        for tree, dash in (("sequence(4)", "dash"), ("optimal(8)", "solid")):
            row = next(row for row in values["trees"] if row["tree"] == tree)
            m = [int(each) for each in row["hits"]]
            look = Look(f"{tree}, {pair}", colour(hue), mark, dash)
            figure.add_trace(measured(look, m, [*row["hits"].values()], lines=True))
        row = next(row for row in values["trees"] if row["tree"] == "optimal(8)")
        parts.append(
            f"{number(100 * row['hits']['8']['value'])}% of the rounds ({pair}: at most "
            f"{values['gain']:.3f} times as fast)"
        )
    m = [int(each) for each in row["hits"]]
    figure.update_xaxes(tickvals=m, ticktext=[str(each) for each in m])
    sentence = f"With eight prepared continuations the right one is ready in {' and '.join(parts)}."
    cells = [
        [
            pair,
            row["tree"],
            *map(with_interval, row["hits"].values()),
            *map(number, (row["share"], row["gain"])),
        ]
        for pair, values in summary["pairs"].items()
        for row in values["trees"]
    ]
    columns = ["pair", "tree", *(f"m = {each}" for each in m), "the draft's share of a round", "largest gain"]
    return view(
        "Drafting while the target verifies",
        _place("ahead"),
        sentence,
        "A round can end at any node of the tree, with one further token. While the target verifies, the "
        "draft prepares continuations for the m most probable ends. The figure shows how often the true end "
        "was among them, counted in ERSD's own races, with 95% intervals over texts.",
        figure,
        table("Rounds whose continuation was prepared", columns, cells),
        id="ahead",
    )


def _by_pair(rows: Sequence[Row]) -> dict[str, list[Row]]:
    return {pair: chosen(rows, pair=pair) for pair in dict.fromkeys(row["pair"] for row in rows)}
