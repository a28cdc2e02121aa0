"""The names and meanings of the kinds of tokens and of the statuses of nodes.

The names of methods are in `specdec.methods.catalogue`, those of topologies in `specdec.figures.topologies`.
Menus, figures and the endpoint's documentation read this module. The scripts read
`assets/shared/catalogue.js`, which `python -m components.page.catalogue` writes from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from markupsafe import Markup

from components.page.assets import ASSETS, constants
from components.page.frame import template
from specdec.drafters.catalogue import DRAFTERS
from specdec.figures.topologies import TOPOLOGIES
from specdec.methods import METHODS
from specdec.methods.catalogue import Entry
from specdec.race import RoundNoise

SCRIPT = ASSETS / "shared" / "catalogue.js"


class Meaning(NamedTuple):
    """How the page names a kind or a status of a token. name: its name in common words; sentence: its meaning
    in the legend."""

    name: str
    sentence: str


KINDS = {
    "accepted": Meaning("accepted draft token", "guessed, and right"),
    "bonus": Meaning("bonus token", "one more by the large model"),
    "residual": Meaning("token sampled from the residual", "sampled anew by the large model"),
    "correction": Meaning("correction: the large model's winner", "the large model's token instead"),
    "sampled": Meaning("sampled token", "the large model alone"),
}
"""The names of the kinds of emitted tokens, by their keys in records (`specdec.trace.Kind`)."""

STATUSES = {
    "accepted": Meaning("accepted", "guessed, and right"),
    "rejected": Meaning("rejected", "guessed, and wrong"),
    "unvisited": Meaning("not used", "guessed, never checked"),
}
"""The names of the statuses of drafted tokens, by their keys in records (`specdec.trace.Status`)."""
_ORDER = ("accepted", "rejected", "correction", "residual", "bonus", "sampled")


def legend(*left_out: str) -> Markup:
    """The meanings of the marks of tokens, as a list in HTML. left_out: kinds that the list leaves out."""
    meanings = STATUSES | KINDS
    pairs = [(kind, meanings[kind].sentence) for kind in _ORDER if kind not in left_out]
    return Markup(template("page/legend", meanings=pairs))


def method_menu() -> list[tuple[str, str]]:
    """The menu of methods, as (label, value).

    The three that are always visible come first: ERSD, GSD and plain decoding.
    """
    names = dict.fromkeys(("ersd", "gsd", "ar", *METHODS))
    return [("plain" if name == "ar" else METHODS[name].name, name) for name in names]


def drafter_menu() -> list[tuple[str, str]]:
    """The menu of drafters, as (label, value): those that every pair with a draft model can use."""
    return [(entry.label, name) for name, entry in DRAFTERS.items() if entry.offered]


def topology_menu(*names: str) -> list[tuple[str, str]]:
    """The menu of these topologies, as (label, value); without names, of all topologies."""
    options = names or TOPOLOGIES
    return [(f"{TOPOLOGIES[name].name}: {TOPOLOGIES[name].sentence}", name) for name in options]


def script() -> str:
    """The text of a JavaScript module with these names, for the browser."""
    tables: dict[str, Mapping[str, Any]] = {"METHODS": METHODS, "KINDS": KINDS, "STATUSES": STATUSES}
    return constants(
        "Names of methods, tokens and statuses. Written by `python -m components.page.catalogue`.\n"
        "// METHOD_SENTENCES: by the method's short name. INVARIANT: methods whose text for a seed does not\n"
        "// depend on the draft. INDEPENDENT: methods whose drafts are independent draws. JOINT: methods\n"
        "// that decide on several positions at once.",
        **{name: {key: entry.name for key, entry in table.items()} for name, table in tables.items()},
        METHOD_SENTENCES={entry.name: _in_words(entry) for entry in METHODS.values()},
        INVARIANT=[name for name, entry in METHODS.items() if entry.drafter_invariant],
        INDEPENDENT=[name for name, entry in METHODS.items() if entry.independent],
        JOINT=[name for name, entry in METHODS.items() if entry.noise is RoundNoise],
    )


def _in_words(entry: Entry) -> str:
    long_name, sentence = entry.long_name, entry.sentence
    return f"{long_name[0].upper()}{long_name[1:]}: {sentence[0].lower()}{sentence[1:]}"


if __name__ == "__main__":
    SCRIPT.write_text(script(), encoding="utf-8")
