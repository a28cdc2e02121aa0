"""The fields of forms as HTML, each with a description by which the scripts read, check and address it.

    seed = Form("lossless").number("seed", 1, "Seed of the check", least=0, whole=True)

A field is a part of the page (`frame.Part`): its HTML, and its description in `fields`. An error is shown
beside the field, and the field's HTML refers to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from components.page.frame import Part

Choices = Sequence[tuple[str, str]]
"""(label, value) of each choice."""


@dataclass(frozen=True)
class Form:
    """The fields of one form. name: the prefix of the form in the page's address."""

    name: str

    def text(
        self,
        name: str,
        value: str,
        label: str,
        *,
        placeholder: str = "",
        lines: int = 0,
        **look: Any,
    ) -> Part:
        """A text; with lines, one that may be so many lines high."""
        common = f'placeholder="{escape(placeholder)}"'
        control = (
            f'<textarea rows="1" {common}>{escape(value)}</textarea>'
            if lines
            else f'<input type="text" value="{escape(value)}" {common} autocomplete="off">'
        )
        inside = f'<label><span class="title">{label}</span><span class="control">{control}</span></label>'
        return self._field(name, "text", inside, {"kind": "text", "default": value}, **look)

    def hidden(self, name: str, value: str, *, id: str = "") -> Part:
        """A text that only scripts set. It is part of the address."""
        html = f'<input type="hidden" id="{id}" value="{escape(value)}"{self._data(name)}>'
        return self._described(html, name, {"kind": "text", "default": value})

    def flag(self, name: str, value: bool, label: str, **look: Any) -> Part:
        """A switch."""
        checked = " checked" if value else ""
        inside = f'<label><input type="checkbox"{checked}><span>{label}</span></label>'
        return self._field(name, "flag", inside, {"kind": "flag", "default": value}, **look)

    def radio(self, name: str, value: str, label: str, choices: Choices, **look: Any) -> Part:
        """A choice between few options, all of which are visible."""
        group = f"{self.name}-{name}"
        options = "".join(
            f'<label><input type="radio" name="{group}" value="{escape(each)}"'
            f"{' checked' if each == value else ''}><span>{escape(title)}</span></label>"
            for title, each in choices
        )
        inside = f'<legend class="title">{label}</legend><div class="wrap">{options}</div>'
        return self._field(name, "radio", inside, _choice(value, choices), tag="fieldset", **look)

    def menu(self, name: str, value: str, label: str, choices: Choices, **look: Any) -> Part:
        """A choice between many options in a drop-down list."""
        options = "".join(
            f'<option value="{escape(each)}"{" selected" if each == value else ""}>{escape(title)}</option>'
            for title, each in choices
        )
        inside = f'<label><span class="title">{label}</span><select>{options}</select></label>'
        return self._field(name, "menu", inside, _choice(value, choices), **look)

    def number(
        self,
        name: str,
        value: float | None,
        label: str,
        *,
        least: float | None = None,
        most: float | None = None,
        whole: bool = False,
        after: str = "",
        **look: Any,
    ) -> Part:
        """A number that is typed. value: None is an empty field. after: trusted HTML after the field."""
        control = _number(value, least, most, 1 if whole else "any")
        inside = f'<label><span class="title">{label}</span>{control}</label>{after}'
        described = {"kind": "number", "default": value, "least": least, "most": most, "whole": whole}
        return self._field(name, "number", inside, described, **look)

    def slider(
        self,
        name: str,
        value: float,
        label: str,
        *,
        least: float,
        most: float,
        step: float = 1,
        shown: tuple[float | None, float | None] = (None, None),
        **look: Any,
    ) -> Part:
        """A number that is typed or set with a slider. shown: the ends of a slider with a narrower range."""
        control = _number(value, least, most, step)
        ends = (least if shown[0] is None else shown[0], most if shown[1] is None else shown[1])
        bounds = f'min="{ends[0]}" max="{ends[1]}" step="{step}"'
        drawn = f'<input type="range" {bounds} value="{value}" aria-label="{label}">'
        inside = f'<label><span class="title">{label}</span>{control}</label>{drawn}'
        whole = float(step).is_integer()
        described = {"kind": "number", "default": value, "least": least, "most": most, "whole": whole}
        return self._field(name, "slider", inside, described, **look)

    def _field(
        self,
        name: str,
        kind: str,
        inside: str,
        described: dict[str, Any],
        *,
        id: str = "",
        info: str = "",
        shown: bool = True,
        tag: str = "div",
    ) -> Part:
        id = id or f"{self.name}-{name}"
        hint = f'<p class="info">{info}</p>'
        wrong = f'<p class="wrong" id="{id}-wrong" role="alert" hidden></p>'
        hidden = "" if shown else " hidden"
        attributes = f'id="{id}" class="block field {kind}"{self._data(name)}{hidden}'
        return self._described(f"<{tag} {attributes}>{inside}{hint}{wrong}</{tag}>\n", name, described)

    def _data(self, name: str) -> str:
        return f' data-form="{self.name}" data-name="{name}"'

    def _described(self, html: str, name: str, described: dict[str, Any]) -> Part:
        return Part(html, fields={self.name: {name: described}})


def button(id: str, label: str, kind: str = "", disabled: bool = False) -> str:
    """A button in HTML. kind: its class, say primary."""
    return f'<button type="button" id="{id}" class="{kind}"{" disabled" if disabled else ""}>{label}</button>'


def _number(value: float | None, least: float | None, most: float | None, step: float | str) -> str:
    bounds = "".join(
        f' {name}="{bound}"' for name, bound in (("min", least), ("max", most)) if bound is not None
    )
    written = "" if value is None else value
    return f'<input type="number" inputmode="decimal" step="{step}" value="{written}"{bounds}>'


def _choice(value: str, choices: Choices) -> dict[str, Any]:
    return {"kind": "choice", "default": value, "choices": [each for _, each in choices]}
