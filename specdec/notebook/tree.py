"""Draws a draft tree: the root on the left, a column for each depth, a line for each leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

Path = tuple[int, ...]
MOST_NODES = 400
"""Larger trees, by number of tokens, are not drawn."""
_LINE, _MARGIN, _RADIUS = 22, 14, 5
_LONGEST = 14


def drawing(paths: Sequence[Path], labels: Mapping[Path, str], classes: Mapping[Path, str]) -> str:
    """SVG of a tree. paths: in level order, parents before children.

    labels, classes: texts and CSS classes of some or all nodes, by the node's path.
    """
    column = 118 if labels else 44
    y = _heights(paths)
    places: dict[Path, tuple[float, float]] = {path: (_MARGIN + column * len(path), y[path]) for path in y}
    lines = "".join(_line(places[path[:-1]], places[path], classes.get(path, "")) for path in paths)
    nodes = "".join(_node(places[path], labels.get(path, ""), classes.get(path, "")) for path in paths)
    x0, y0 = places[()]
    root = f'<rect x="{x0 - 5:g}" y="{y0 - 5:g}" width="10" height="10"></rect>'
    width = max(x for x, _ in places.values()) + (column if labels else _MARGIN)
    height = max(y.values()) + _MARGIN
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    name = f"A draft tree of {len(paths)} tokens"
    return f'<svg role="img" aria-label="{name}" {size}>{lines}{root}{nodes}</svg>'


def _heights(paths: Sequence[Path]) -> dict[Path, float]:
    """The vertical position of each node. A leaf has its own line; a parent is halfway between children."""
    children: dict[Path, list[Path]] = {(): []}
    for path in paths:
        children[path] = []
        children[path[:-1]].append(path)
    heights: dict[Path, float] = {}
    leaves = 0
    for path in sorted(children):  # parents first, leaves from top to bottom
        if not children[path]:
            heights[path] = _MARGIN + _LINE * leaves
            leaves += 1
    for path in sorted(children, key=len, reverse=True):
        if below := children[path]:
            heights[path] = (heights[min(below)] + heights[max(below)]) / 2
    return heights


def _line(start: tuple[float, float], end: tuple[float, float], kind: str) -> str:
    (x0, y0), (x1, y1) = start, end
    middle = (x0 + x1) / 2
    way = f"M{x0:g} {y0:g}C{middle:g} {y0:g} {middle:g} {y1:g} {x1:g} {y1:g}"
    name = "accepted" if kind == "accepted" else "branch"
    return f'<path class="{name}" fill="none" stroke="currentColor" d="{way}"></path>'


def _node(place: tuple[float, float], label: str, kind: str) -> str:
    x, y = place
    text = label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…"
    words = f'<text x="{x + 9:g}" y="{y - 5:g}">{escape(text)}</text>' if label else ""
    mark = f'<circle cx="{x:g}" cy="{y:g}" r="{_RADIUS}"></circle>'
    return f'<g class="{kind or "node"}"><title>{escape(label or kind or "drafted")}</title>{mark}{words}</g>'
