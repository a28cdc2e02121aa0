"""The figure of many texts at once: tokens per second against k.

Pure functions turn the summary of `research.experiments.serving` into a figure, a sentence and a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.experiments.figures import Look, measured, spread
from components.page import plots
from specdec.figures.looks import INK, axes, colour, marks
from specdec.phrases import listed, number

Summary = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]
_LOOKS = (
    ("circle", "solid"),
    ("triangle-up", "longdash"),
    ("square", "dash"),
    ("x", "longdashdot"),
    ("diamond", "dot"),
    ("cross", "dashdot"),
)
"""The mark and the line style of each curve, from the fewest texts to the most."""
_AUTO, _PLAIN = "auto", "0"
_TICKS = sorted(start * 2**i for start in (100, 150) for i in range(8))
FULL = 1.1
"""Drafting counts as worthwhile if its speed is more than this many times that of decoding without drafts."""


def view(summary: Summary) -> dict[str, Any]:
    """The view of tokens per second against k.

    Each number of texts has a curve, its fastest k, and the gain of that k.
    """
    points, machine = summary["points"], summary["machine"]
    curves = {
        at_once: _curve(summary, at_once) for at_once in dict.fromkeys(row["at_once"] for row in points)
    }
    # the speed axis is logarithmic, so that equal steps are equal gains
    figure = axes("drafted tokens k", "tokens per second, one core", 360, yaxis_type="log")
    for (mark, dash), (at_once, rows) in zip(_LOOKS, curves.items(), strict=False):
        look = Look(_texts(at_once), colour("ersd"), mark, dash)
        figure.add_trace(measured(look, [row["k"] for row in rows], rows, positive=True, lines=True))
    auto = [row for row in points if row["tree"] == _AUTO]
    stars = marks("auto: one budget for all", INK, "star").update(
        x=[row["k"] for row in auto],
        y=[row["value"] for row in auto],
        hovertext=[f"auto, {_texts(row['at_once'])}: {row['value']:.0f}" for row in auto],
        marker={"size": 13},
    )
    figure.add_trace(stars)
    figure.update_yaxes(tickvals=_TICKS, ticktext=[f"{tick:,}" for tick in _TICKS])
    cells = [
        [
            f"{row['at_once']}",
            f"auto: {row['k']} on average" if row["tree"] == _AUTO else row["tree"],
            f"{row['value']:,.0f}",
            f"{row['low']:,.0f} to {row['high']:,.0f}",
            *spread(row["gain"]),
        ]
        for row in points
    ]
    columns = ["texts at once", "k", "tokens per second", "lowest to highest", "speed relative to k = 0"]
    return plots.view(
        "Many texts at once: the best tree shrinks",
        "Not in the paper: python -m research.experiments.serving",
        _sentence({at_once: fastest(rows) for at_once, rows in curves.items()}),
        f"Marks: medians of {summary['repeats']} repeats, with the lowest and the highest. ERSD drafts the "
        f"optimal tree of k tokens, the same for all texts; k = 0 drafts nothing. The same texts are written "
        f"at all points. Stars: auto, which chooses a tree for each text from a common budget of tokens, "
        f"drawn at its mean k. One core, processor time: {machine['processor']}, {machine['date']}.",
        figure,
        plots.table("ERSD on the optimal tree of k tokens", [*columns, "lowest to highest"], cells),
        id="serving",
    )


def _sentence(best: Mapping[int, Mapping[str, Any]]) -> str:
    """The view's sentence. It names the fastest k for each number of texts and its gain, and what the gain
    means for a server."""
    lines = [f"{at_once}: {_in_words(row)}" for at_once, row in best.items() if row["tree"] != _PLAIN]
    if plain := [str(at_once) for at_once, row in best.items() if row["tree"] == _PLAIN]:
        lines.append(f"{listed(plain)}: k = 0")
    few, many = best[min(best)], best[max(best)]
    ends = ""
    if many["k"] < few["k"] and many["gain"]["value"] < FULL < few["gain"]["value"]:
        ends = (
            " For a single text, guesses use computing power that would be idle. In a full batch another "
            "text could use it. A busy server should therefore draft less."
        )
    lead = "The fastest tree for each number of texts at once (median tokens per second, and gain over k = 0)"
    return f"{lead}: {listed(lines, '; ')}.{ends}"


def fastest(rows: Rows) -> Mapping[str, Any]:
    """The point with the highest median speed."""
    return max(rows, key=lambda row: row["value"])


def _in_words(row: Mapping[str, Any]) -> str:
    return f"k = {row['k']} ({row['value']:,.0f}, {number(row['gain']['value'])})"


def _curve(summary: Summary, at_once: int) -> list[Mapping[str, Any]]:
    return [row for row in summary["points"] if row["at_once"] == at_once and row["tree"] != _AUTO]


def _texts(at_once: int) -> str:
    return "1 text" if at_once == 1 else f"{at_once} texts"
