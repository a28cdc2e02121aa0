"""The experiments on the same trees: all rules compared with GSD, and the temperature of ERSD's draft.

Pure functions turn each summary, of `research.experiments.rules` and of `.draft_temperature`, into a figure,
a sentence and a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from components.experiments import figures
from components.experiments.figures import chosen, spread
from components.page.plots import table, view
from specdec.figures.looks import BOUND, axes, colour
from specdec.figures.topologies import TOPOLOGIES
from specdec.methods import DRAFTING, METHODS
from specdec.phrases import interval, listed, number

Summary = Mapping[str, Any]
_BESIDE = "gsd"
_APART = 0.14  # distance between neighbouring marks of a tree; neighbouring trees are 1 apart
FEW = 30
"""With fewer prompts than this, 1.96 standard errors cover less than 95% (`specdec.stats.Z`)."""
_LOOKS = {"optimal(8)": ("diamond", "longdash"), "optimal(16)": ("star", "solid")}
"""The mark and the line style of the optimal trees, which have the same colour."""


def rules(summary: Summary) -> dict[str, Any]:
    """The view of all rules on the same trees: the difference of each rule from GSD, in tokens per target
    call."""
    figure = axes("tree", "tokens per target call, minus GSD's", 360)
    warm, cold = (chosen(summary["points"], temperature=heat) for heat in (1.0, 0.0))
    trees = _names(warm, "tree")
    methods = [method for method in DRAFTING if method != _BESIDE]
    for place, method in enumerate(methods):
        rows = chosen(warm, method=method)
        x = [trees.index(row["tree"]) + _APART * (place - (len(methods) - 1) / 2) for row in rows]
        look = figures.Look(METHODS[method].name, colour(method), METHODS[method].mark, "solid")
        figure.add_trace(figures.measured(look, x, [row["more_than_gsd"] for row in rows]))
    figure.add_hline(y=0, line={"color": BOUND, "width": 1})
    of_gsd = {row["tree"]: row["value"] for row in chosen(warm, method=_BESIDE)}
    # each name has three short lines, so that it fits on a phone
    names = [f"{tree.replace('(', '<br>(')}<br>{of_gsd[tree]:.2f}" for tree in trees]
    figure.update_xaxes(tickvals=list(range(len(trees))), ticktext=names, tickangle=0, title_standoff=8)
    bests = [f"{listed(best(warm, tree))} on {tree}" for tree in trees]
    same = ""
    if cold and all(row["more_than_gsd"]["value"] == 0 for row in cold):
        fewest = f"{min(row['tokens'] for row in cold):,}"
        same = f" At temperature 0 all rules need the same target calls ({fewest} tokens per point)."
    cells = []
    for row in summary["points"]:
        points, name = chosen(summary["points"], temperature=row["temperature"]), METHODS[row["method"]].name
        values = [f"{row['value']:.3f}", interval(row), *spread(row["more_than_gsd"])]
        mark = "best" if name in best(points, row["tree"]) else ""
        cells.append([row["tree"], f"{row['temperature']:g}", name, *values, mark, f"{row['tokens']:,}"])
    columns = ["tree", "temperature", "rule", "tokens per call", "95% interval", "more than GSD"]
    caption = (
        "Tokens per target call. “best” names the rule with the highest value, and each rule whose "
        "difference from it has a 95% interval that contains 0"
    )
    return view(
        "All rules on the same trees",
        "Not in the paper: python -m research.experiments.rules",
        f"Most tokens per target call, from {_fewest(warm)} tokens per point: {listed(bests, '; ')}.{same}",
        "A mark above 0 means more tokens per target call than GSD gets with the same prompts and seeds, at "
        "temperature 1, with 95% intervals. The number below each tree is GSD's tokens per target call.",
        figure,
        table(caption, [*columns, "95% interval", "", "tokens"], cells),
        id="rules",
    )


def best(rows: Sequence[Mapping[str, Any]], tree: str) -> list[str]:
    """The best rule on a tree, then all rules whose difference from it has a 95% interval that contains 0."""
    of_tree = [row for row in rows if row["tree"] == tree]
    near = [row for row in of_tree if (row["less_than_best"]["low"] or 0) <= 0]
    return [METHODS[row["method"]].name for row in sorted(near, key=lambda row: -row["value"])]


def draft_temperature(summary: Summary) -> dict[str, Any]:
    """The view of ERSD's tokens per target call against the temperature of its draft, with one curve for each
    tree.

    The temperature of the draft does not change the text.
    """
    figure, parts = axes("temperature of the draft", "tokens per target call", 360), []
    for tree in _names(summary["points"], "tree"):
        rows, kind = chosen(summary["points"], tree=tree), TOPOLOGIES[tree.partition("(")[0]]
        mark, dash = _LOOKS.get(tree, (kind.mark, kind.dash))
        look = figures.Look(tree, colour(kind.colour), mark, dash)
        figure.add_trace(figures.measured(look, [row["draft_temperature"] for row in rows], rows, lines=True))
        top = max(rows, key=lambda row: row["value"])
        more = f"{number(top['gain']['value'])} more than at 1"
        sure = more if (top["gain"]["low"] or 0) > 0 else "the interval of its gain contains 0"
        parts.append(
            f"{top['draft_temperature']:g} on {tree}" + (f" ({sure})" if top["gain"]["value"] else "")
        )
    texts = summary["runs"] // len(summary["points"])
    warning = "; with so few, the intervals are rough" if texts < FEW else ""
    cells = [
        [
            row["tree"],
            f"{row['draft_temperature']:g}",
            f"{row['value']:.3f}",
            interval(row),
            *spread(row["gain"]),
        ]
        for row in summary["points"]
    ]
    columns = ["tree", "draft's temperature", "tokens per call", "95% interval", "more than at 1"]
    return view(
        "ERSD with a colder or warmer draft",
        "Not in the paper: python -m research.experiments.draft_temperature",
        f"The draft's temperature with the most tokens per target call is {listed(parts)}. All "
        f"{summary['runs']:,} texts equal those of autoregressive decoding, token by token. A point has "
        f"{texts} texts, {_fewest(summary['points'])} tokens{warning}.",
        "Marks: measured at temperature 1 of the target, with 95% intervals over prompts.",
        figure,
        table("ERSD's tokens per target call", [*columns, "95% interval"], cells),
        id="draft-temperature",
    )


def _names(rows: Iterable[Mapping[str, Any]], field: str) -> list[str]:
    return list(dict.fromkeys(row[field] for row in rows))


def _fewest(rows: Iterable[Mapping[str, Any]]) -> str:
    return f"at least {min(row['tokens'] for row in rows):,}"
