"""Keeps all settings of the page in its address, so that a link shows what its sender saw.

The address contains only values that differ from their defaults. Names of a run's settings have no prefix
(`?k=16&seed=3`); names of other parts begin with the part's name (`?race.seed=3`). Parts are of two kinds:

- Fields of a form (`components.page.forms`): their descriptions say how the browser reads a value.
- A view in the browser: its script calls, when it is mounted,

      import { offer } from "../page/setup.js";
      offer("race", { fields, get, set });

  `fields` describes each value: its kind, its default and its limits. `get()` returns a flat object of texts,
  numbers, booleans or lists of numbers. `set(values)` gets such an object from the address; missing and
  invalid values have their defaults. It returns a list of messages about values that do not fit together (or
  nothing), or throws an Error with one. `offer` calls `set` at once if the address has values for the part.
"""

from __future__ import annotations

from collections.abc import Sequence

from components.page import frame
from components.page.settings import TABLE

DECODE = "live"
"""The name of the form with a run's settings. Only these settings have no prefix in the page's address."""
RUN = ("trace", "round", "decision")
"""The names in the address that say which recorded run, round and decision are shown. They have no prefix."""
VIEWS = ("story", "race", "trees", "codec", "experiments", "compare", "payoff")
"""Parts whose scripts register them in the browser, most of them when their view is first opened."""
_FOLLOWS = {"tree": [row.setting.address for row in TABLE.values() if row.shapes]}
"""For each computed setting of a run, the settings from which it is computed, by their names in the address.
If an address has one of these settings but not the computed setting, the computed setting becomes empty.
Empty settings are left out of the address."""


def panel(page: frame.Part, tabs: Sequence[str] = ()) -> frame.Part:
    """The button that copies the link, and the messages about invalid values in the address.

    It also mounts all forms of the page. page: all fields that the address holds. tabs: the names of all
    views.
    """
    return frame.panel(
        "setup",
        frame.template("page/setup"),
        fields=page.fields,
        alone=DECODE,
        follows=_FOLLOWS,
        names=[*page.fields.get(DECODE, ()), *RUN],
        views=[*VIEWS, *page.fields],
        tabs=list(tabs),
    )
