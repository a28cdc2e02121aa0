"""The parts of the page: static HTML, the data for its scripts, and the server functions that they call.

    panel("race", template, functions=[exact], presets=[...])    an element that a script fills
    box("figures", tree.panel(), race.panel())                   parts within an element

Text of models and visitors never enters a template. It travels as JSON to the scripts in `assets`, which
insert it as text.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

PAPER = "https://arxiv.org/abs/2504.15475"
PAPER_TITLE = "Speculative Decoding via Exponential Races"

Stream = Callable[..., Iterator[str] | AsyncIterator[str]]
"""A generator function that yields updates (JSON texts). Gradio calls it for a visitor with named arguments,
and closes the generator when the visitor leaves. A function that is not `async` occupies a thread, also
while it waits."""


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
        return Part(
            self.html + other.html,
            {**self.props, **other.props},
            {**self.functions, **other.functions},
            {**self.streams, **other.streams},
            {name: {**self.fields.get(name, {}), **other.fields.get(name, {})} for name in forms},
        )


def joined(*parts: Part | str) -> Part:
    """Join parts, or trusted HTML, one after the other."""
    return sum((Part(part) if isinstance(part, str) else part for part in parts), Part())


def box(name: str, *parts: Part | str, class_: str = "") -> Part:
    """An element with this id around parts."""
    attribute = f' class="{class_}"' if class_ else ""
    return joined(f'<div id="{name}"{attribute}>', *parts, "</div>")


def panel(
    name: str,
    template: str,
    functions: list[Callable[[Any], Any]] | None = None,
    streams: Mapping[str, Stream] | None = None,
    **props: Any,
) -> Part:
    """An element that a script fills: `assets/NAME/panel.js`, or the script that `assets/main.js` names.

    template: the element's trusted HTML. functions: the script calls them by their names, with one question
    each (see `components.page.questions`). props: plain data for the script.
    """
    handlers = {f"{name}/{function.__name__}": function for function in functions or ()}
    html = f'<div id="{name}" class="block panel" data-panel="{name}">\n{template.strip()}\n</div>\n'
    return Part(html, {name: props}, handlers, streams or {})


def template(name: str, /, **values: Any) -> str:
    """The HTML of the Jinja template `components/NAME.html`. All values are escaped, except `Markup`."""
    return _TEMPLATES.get_template(f"{name}.html").render(values)


View = tuple[str, str, Part]
"""A view: its id, title and content. It is one screen of the page, which an address opens (`/?tab=race`)."""


def places(places: Mapping[str, list[View]]) -> Part:
    """The page's navigation and all its views.

    The views are grouped into places. One row of buttons chooses the place; a place with several views has a
    row of buttons for them too. The first view of the first place is open until a script has opened the view
    that the address names.
    """
    all_views = [view for views in places.values() for view in views]
    menu = [(title, [id for id, _, _ in views]) for title, views in places.items()]
    rows = [(title, [(name, [id]) for id, name, _ in views]) for title, views in places.items()]
    html = template("page/places", places=menu, rows=rows, views=all_views)
    return replace(joined(*(part for _, _, part in all_views)), html=html)


def term(name: str, text: str | None = None) -> Markup:
    """A word in HTML whose definition the page shows when a visitor points at it
    (`assets/shared/glossary.js`)."""
    return Markup('<dfn data-term="{}" tabindex="0">{}</dfn>').format(name, text or name)


def table(caption: str, *columns: str) -> Markup:
    """An empty table in HTML, in a box that scrolls. A script fills the table."""
    return Markup(template("page/table", caption=caption, columns=columns))


def reference(place: str) -> Markup:
    """A link to the paper that names a place in it, such as "Lemma 3.1, equation 1"."""
    link = Markup('<a href="{}" target="_blank" rel="noopener" title="{}">{}</a>')
    return link.format(PAPER, PAPER_TITLE, place)


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent.parent), autoescape=True, undefined=StrictUndefined
)
_TEMPLATES.globals.update(term=term, table=table, reference=reference)
