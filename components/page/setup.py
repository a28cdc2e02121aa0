"""The whole setup of the page in its address, so that a link shows what its sender saw.

The address contains only values that differ from their defaults. Names of the Decode tab have no prefix
(`?k=16&seed=3`); names of other parts begin with the part's name (`?race.seed=3`). Parts
are of two kinds:

- Gradio components: its `panel()` returns them by name, and `app.build` hands them to `panel` here as
  `{"lossless": {"k": slider, ...}}`. Kind, range, choices and default are read from the components.
- A view in the browser: its script calls, when it is mounted,

      import { offer } from "../page/setup.js";
      offer("race", { get, set });

  `get()` returns a flat object of texts, numbers, booleans or lists of numbers: the values that differ from
  their defaults. `set(values)` gets such an object with the texts of the address; missing values return to
  their defaults. It returns a list of messages about invalid values (or nothing), or throws an Error with
  one. `offer` calls `set` at once if the address has values for the part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from components.page import frame

Fields = dict[str, Any]
"""Components by their names in the address."""

DECODE = "live"
"""The part whose names have no prefix: the Decode tab."""
RUN = ("trace", "round", "decision")
"""Names for the recorded run that is shown. They have no prefix either."""
VIEWS = ("story", "race", "trees", "codec", "experiments", "compare", "payoff")
"""Parts that register themselves in the browser, most of them when their tab is first opened."""

_TEMPLATE = """
<div class="setup">
  <span class="copied" role="status"></span>
  <button type="button" class="copy icon" aria-label="Copy link to this set-up" title="Copy link">
    <svg viewBox="0 0 24 24" aria-hidden="true"><path d="M10 14a4 4 0 0 0 6 .4l3-3a4.2 4.2 0 0 0-6-6l-1.5 1.5
      M14 10a4 4 0 0 0-6-.4l-3 3a4.2 4.2 0 0 0 6 6l1.5-1.5"/></svg></button>
  <div class="told" role="alert" hidden><ul></ul><button type="button" class="dismiss">Dismiss</button></div>
</div>
"""


def panel(parts: dict[str, Fields], tabs: gr.Tabs, follows: Mapping[str, Sequence[str]]) -> gr.HTML:
    """The button that copies the link, and the messages about invalid values in the address.

    Call this after all components of `parts` and all of `tabs` are placed. follows: for a value of the Decode
    tab, the names of those that it was computed for. An address that sets one of them, and not the value,
    leaves the value empty. An empty one stays out of the address.
    """
    fields = {part: {name: describe(field) for name, field in named.items()} for part, named in parts.items()}
    children: list[Any] = tabs.children
    element = frame.panel(
        "setup",
        _TEMPLATE,
        fields=fields,
        alone=DECODE,
        follows={name: list(others) for name, others in follows.items()},
        names=[*parts[DECODE], *RUN],
        views=[*VIEWS, *parts],
        tabs=[tab.id for tab in children],
    )
    components = [component for named in parts.values() for component in named.values()]
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    report = "(...values) => { window.specdec?.setup?.heard(values); return []; }"
    gr.on([component.change for component in components], None, components, js=report, **quiet)
    wanted = "(...values) => window.specdec.setup.wanted(values)"
    element.submit(None, components, components, js=wanted, **quiet)
    element.select(None, None, tabs, js="() => window.specdec.setup.wantedTab()", **quiet)
    return element


def describe(field: Any) -> dict[str, Any]:
    """Describe a component so that the browser can read its value from an address.

    kind: text, flag, choice (with choices) or number (with least and most, null if there is none, and whole);
    default: the component's initial value. TypeError for a component of another kind.
    """
    if isinstance(field, gr.Textbox):
        return {"kind": "text", "default": field.value or ""}
    if isinstance(field, gr.Checkbox):
        return {"kind": "flag", "default": bool(field.value)}
    if isinstance(field, (gr.Radio, gr.Dropdown)):
        return {"kind": "choice", "default": field.value, "choices": [value for _, value in field.choices]}
    if isinstance(field, (gr.Slider, gr.Number)):
        return {"kind": "number", "default": field.value, **_range(field)}
    raise TypeError(
        f"{type(field).__name__} has no form in the address; Textbox, Checkbox, Radio, Dropdown, "
        "Slider and Number have"
    )


def _range(field: gr.Slider | gr.Number) -> dict[str, Any]:
    step = field.step if isinstance(field, gr.Slider) else None if field.precision != 0 else 1
    return {
        "least": field.minimum,
        "most": field.maximum,
        "whole": step is not None and float(step).is_integer(),
    }
