"""Makes views as plain data: a figure with its sentences and its table, which `assets/shared/plot.js`
draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from specdec.figures.looks import skeleton

Table = dict[str, Any]
"""A table as plain data: its caption, the names of its columns, and its rows of texts."""


def view(
    title: str, place: str, sentence: str, key: str, figure: go.Figure, table: Table, **entries: str
) -> dict[str, Any]:
    """A view: a figure with its title and table. place: the source of the results, such as a section of the
    paper. sentence: the result. key: the meaning of marks and lines. entries: more entries, such as an id."""
    words = {"title": title, "place": place, "sentence": sentence, "key": key}
    return entries | words | {"figure": skeleton(figure), "table": table}


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table whose cells are texts."""
    return {"caption": caption, "columns": list(columns), "rows": [list(row) for row in rows]}
