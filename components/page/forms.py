"""Makes the fields of forms: their HTML, and descriptions by which the page's scripts read and check their
values.

    seed = Form("lossless").number("seed", 1, "Seed of the check", least=0, whole=True)

A field is a part of the page (`frame.Part`): its HTML, and its description in `fields`. An error is shown
beside the field, and the field's HTML refers to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.page.frame import Part, template

Choices = Sequence[tuple[str, str]]
"""The choices of a menu, each as (label, value)."""


@dataclass(frozen=True)
class Form:
    """The fields of one form. name: the prefix of the form in the page's address. ids: the beginning of the
    fields' ids, by default the name and a hyphen.

    All methods but `hidden` take these as `look`: `id`, `info` (a sentence below the field) and `shown`
    (whether the field is visible).
    """

    name: str
    ids: str | None = None

    def text(
        self, name: str, value: str, label: str, *, placeholder: str = "", lines: int = 0, **look: Any
    ) -> Part:
        """A field for text. lines: the height of the field if the text may have several lines; 0: it has
        one."""
        look |= {"placeholder": placeholder, "lines": lines}
        return self._field("text", name, label, {"kind": "text", "default": value}, **look)

    def hidden(self, name: str, value: str, kind: str = "text", *, id: str = "") -> Part:
        """A hidden field that only scripts set. The page's address contains its value. kind: the kind of text
        that is valid, by which `assets/page/setup_fields.js` checks the address."""
        return self._field("hidden", name, "", {"kind": kind, "default": value}, id=id)

    def flag(self, name: str, value: bool, label: str, **look: Any) -> Part:
        """A box that can be ticked."""
        return self._field("flag", name, label, {"kind": "flag", "default": value}, **look)

    def radio(self, name: str, value: str, label: str, choices: Choices, **look: Any) -> Part:
        """A choice between few options, all of which are visible."""
        return self._field("radio", name, label, _choice(value, choices), choices=choices, **look)

    def menu(self, name: str, value: str, label: str, choices: Choices, **look: Any) -> Part:
        """A choice between many options in a drop-down list."""
        return self._field("menu", name, label, _choice(value, choices), choices=choices, **look)

    def number(
        self,
        name: str,
        value: float | None,
        label: str,
        *,
        least: float | None = None,
        most: float | None = None,
        whole: bool = False,
        **look: Any,
    ) -> Part:
        """A number that is typed. value: None leaves the field empty. whole: whether only whole numbers are
        valid. look may have `after`: HTML after the field."""
        schema = {"kind": "number", "default": value, "least": least, "most": most, "whole": whole}
        return self._field("number", name, label, schema, step=1 if whole else "any", **look)

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
        """A number that is typed or set with a slider. shown: the ends of the slider; None: least or most."""
        is_whole = float(step).is_integer()
        schema = {"kind": "number", "default": value, "least": least, "most": most, "whole": is_whole}
        ends = [end if own is None else own for end, own in zip((least, most), shown, strict=True)]
        return self._field("slider", name, label, schema, step=step, ends=ends, **look)

    def _field(
        self, look: str, name: str, label: str, schema: dict[str, Any], *, id: str = "", **extra: Any
    ) -> Part:
        values = {"shown": True, "info": "", "after": "", "value": schema["default"]} | schema | extra
        own = {
            "look": look,
            "form": self.name,
            "name": name,
            "label": label,
            "id": id or (f"{self.name}-" if self.ids is None else self.ids) + name,
        }
        return Part(template("page/field", **(values | own)), fields={self.name: {name: schema}})


def button(id: str, label: str, kind: str = "", disabled: bool = False) -> str:
    """A button in HTML. kind: its class in CSS, for example "primary"."""
    return f'<button type="button" id="{id}" class="{kind}"{" disabled" if disabled else ""}>{label}</button>'


def _choice(value: str, choices: Choices) -> dict[str, Any]:
    return {"kind": "choice", "default": value, "choices": [each for _, each in choices]}
