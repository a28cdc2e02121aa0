"""The parts of the page: static HTML, the data for its scripts, and the server functions that they call.

    panel("race", template, functions=[exact], presets=[...])    an element that a script fills
    box("figures", tree.panel(), race.panel())                   parts within an element

Text of models and visitors never enters a template. It travels as JSON to the scripts in `assets`, which
insert it as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any

Stream = Callable[..., Iterator[str]]
"""A generator of updates (JSON texts) with named parameters. Gradio calls it for a visitor, and closes it
when the visitor leaves."""


@dataclass(frozen=True)
class Part:
    """A part of the page.

    html: the HTML, which must be trusted. props: the data for the script of each panel, by the panel's name.
    functions: the server functions that a panel's script can call, by "panel/function". streams: endpoints of
    Gradio's queue by name. fields: descriptions of the fields of forms (`components.page.forms`), by the name
    of the form and of the field.
    """

    html: str = ""
    props: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    functions: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    streams: Mapping[str, Stream] = field(default_factory=dict)
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __add__(self, other: Part) -> Part:
        """This part followed by another one."""
        forms = {**self.fields, **other.fields}
        merged = {name: {**self.fields.get(name, {}), **other.fields.get(name, {})} for name in forms}
        others = {
            each.name: {**getattr(self, each.name), **getattr(other, each.name)}
            for each in fields(Part)
            if each.name not in ("html", "fields")
        }
        return Part(self.html + other.html, fields=merged, **others)


def joined(*parts: Part | str) -> Part:
    """Join parts, or trusted HTML, one after the other."""
    return sum((Part(part) if isinstance(part, str) else part for part in parts), Part())


def box(name: str, *parts: Part | str, **attributes: str) -> Part:
    """An element with this id around parts. attributes: further ones; "class_" stands for "class"."""
    given = {"id": name} | {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    written = "".join(f' {key}="{escape(value)}"' for key, value in given.items() if value or key != "id")
    return joined(f"<div{written}>", *parts, "</div>")


def panel(
    name: str,
    template: str,
    functions: list[Callable[[Any], Any]] | None = None,
    streams: Mapping[str, Stream] | None = None,
    **props: Any,
) -> Part:
    """An element that the view `name` fills: `assets/NAME/panel.js`, or one of `assets/main.js`.

    template: its trusted HTML. functions: the view calls them by their names, with one question each (see
    `components.page.questions`). The view gets `props` as plain data.
    """
    asked = {f"{name}/{function.__name__}": function for function in functions or ()}
    html = f'<div id="{name}" class="block panel" data-panel="{name}">\n{template.strip()}\n</div>\n'
    return Part(html, {name: props}, asked, streams or {})


View = tuple[str, str, Part]
"""Id, title and content of a view: one screen of the page, which an address opens (`/?tab=race`)."""


def places(places: Mapping[str, list[View]]) -> Part:
    """A row with all places, a row of views for each place that has several, and all views.

    The first view of the first place is open until a script has read the address.
    """
    every = [view for views in places.values() for view in views]
    rows = _row(
        "places", "Places", False, [(title, [v[0] for v in views]) for title, views in places.items()]
    )
    for number, (title, views) in enumerate(places.items()):
        if len(views) > 1:
            rows += _row("views", title, number > 0, [(name, [id]) for id, name, _ in views])
    panels = [
        joined(
            f'<div role="tabpanel" class="tabitem" id="tab-{id}" aria-labelledby="to-{id}"'
            f"{'' if number == 0 else ' hidden'}>\n",
            part,
            "</div>\n",
        )
        for number, (id, _, part) in enumerate(every)
    ]
    return box("tabs", f'<div class="tab-wrapper">{rows}</div>', *panels)


def _row(kind: str, label: str, hidden: bool, tabs: list[tuple[str, list[str]]]) -> str:
    """A row of tabs, each with its title and the ids of the views that it opens."""
    buttons = "".join(_button(title, ids, number == 0) for number, (title, ids) in enumerate(tabs))
    return (
        f'<div class="tab-container {kind}" role="tablist" aria-label="{escape(label)}"'
        f"{' hidden' if hidden else ''}>{buttons}</div>"
    )


def _button(title: str, views: list[str], is_open: bool) -> str:
    named = f' id="to-{views[0]}"' if len(views) == 1 else ""
    return (
        f'<button type="button" role="tab"{named} aria-controls="tab-{views[0]}" '
        f'data-views="{" ".join(views)}" data-opens="{views[0]}" aria-selected="{str(is_open).lower()}"'
        f"{'' if is_open else ' tabindex=-1'}>{escape(title)}</button>"
    )


def table(caption: str, *columns: str) -> str:
    """An empty table in HTML, in a box that scrolls. A script fills the table."""
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    return f"""<div class="scroll"><table><caption>{caption}</caption><thead><tr>{head}</tr></thead>
      <tbody></tbody></table></div>"""


def term(name: str, text: str | None = None) -> str:
    """A term in HTML. `assets/shared/glossary.js` shows its definition, one sentence, at this place."""
    return f'<dfn data-term="{name}" tabindex="0">{text or name}</dfn>'
