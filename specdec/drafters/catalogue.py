"""The built-in drafters by name, and users' own drafters.

`DRAFTERS` has one entry for each built-in drafter; settings, menus, checks and decoding read it. A new
drafter needs a file and an entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from specdec.checks import among
from specdec.devices import READ_LATE
from specdec.drafters.base import Drafter, NoDrafter
from specdec.drafters.context import ContextDrafter
from specdec.drafters.copies import CopyingDrafter
from specdec.drafters.independent import IndependentDrafter
from specdec.drafters.late import LateDrafter
from specdec.drafters.model import ModelDrafter
from specdec.drafters.proposed import Drafting, as_object, drafter_of_user
from specdec.drafters.stopping import Stopping
from specdec.drafters.strings import StringDrafter, check_strings
from specdec.methods import METHODS
from specdec.models import Model
from specdec.models.other_tokenizer import OtherTokenizerModel
from specdec.probs import Sampling
from specdec.race import PositionNoise
from specdec.topology import Topology

MODEL, COPIES, MODEL_AND_COPIES, STRINGS = "model", "copies", "model+copies", "strings"


class Parts(NamedTuple):
    """The values from which the drafter of one run is made.

    model: the pair's draft model, or None. sampling: the draft's settings. stopping: decides where a draft
    model ends a tree. independent: whether the method needs independent draws as children. empty: whether the
    trees of all rounds are empty. grown: whether each round grows its own tree, from a `ContextTree`.
    """

    drafter: Drafting
    model: Model | None
    vocab_size: int
    sampling: Sampling
    stopping: Stopping
    independent: bool = False
    empty: bool = False
    grown: bool = False


class Entry(NamedTuple):
    """The catalogue's description of a drafter.

    label: its name in menus.
    new: makes the drafter of one run.
    uses_model: whether it needs the pair's draft model.
    has_tree: whether it drafts along the run's topology.
    offered: whether the page offers it in its menu.
    check: raises ValueError if the drafter can't work with these arguments: the method, the target, the draft
    (or None) and the unchecked topology.
    """

    label: str
    new: Callable[[Parts], Drafter]
    uses_model: bool = True
    has_tree: bool = True
    offered: bool = True
    check: Callable[[str, Model, Model | None, Any], None] = lambda *_: None


def entry_of(drafter: Drafting) -> Entry:
    """The catalogue's entry for a checked drafter."""
    return DRAFTERS[drafter] if isinstance(drafter, str) else _OWN


def checked_drafter(drafter: Any) -> Drafting:
    """The drafter in checked form: None becomes "model", and a function an object with `propose`.

    ValueError if a name is unknown, or if an object has neither of the two methods in `drafters.proposed`.
    """
    if drafter is None:
        return MODEL
    return among("drafter", drafter, DRAFTERS) if isinstance(drafter, str) else as_object(drafter)


def has_tree(method: str, drafter: Drafting) -> bool:
    """Whether a run with this method and drafter drafts along a topology."""
    return METHODS[method].drafts and entry_of(drafter).has_tree


def _by_model(parts: Parts) -> Drafter:
    if parts.empty:
        return NoDrafter()
    assert parts.model is not None, "a run that needs a draft model is refused if its pair has none"
    if parts.grown:
        return ContextDrafter(parts.model, parts.vocab_size, parts.sampling)
    late = LateDrafter if parts.model.device.type in READ_LATE else ModelDrafter
    kind = IndependentDrafter if parts.independent else late
    return kind(parts.model, parts.vocab_size, parts.sampling, parts.stopping)


def _by_strings(parts: Parts) -> Drafter:
    return StringDrafter(cast(OtherTokenizerModel, parts.model), parts.sampling)


def _by_object(parts: Parts) -> Drafter:
    return drafter_of_user(parts.drafter, parts.vocab_size, parts.sampling)


def _check_trees(method: str, target: Model, draft: Model | None, topology: Any) -> None:  # noqa: ARG001
    if target.capability != "tree":
        raise ValueError(
            f"drafter = {MODEL_AND_COPIES!r}: {target.name} can score sequences only; use 'copies'"
        )


def _check_object(method: str, target: Model, draft: Model | None, topology: Any) -> None:  # noqa: ARG001
    if METHODS[method].independent or METHODS[method].noise is not PositionNoise:
        raise ValueError(f"method = {method!r} needs a draft model; with this drafter use 'gsd' or 'ersd'")
    if not isinstance(topology, Topology | None):
        raise ValueError(f"topology = {topology!r:.60} needs a draft model; give this drafter a Topology")


DRAFTERS = {
    MODEL: Entry("the small model", _by_model),
    COPIES: Entry(
        "copies from the text alone",
        lambda parts: CopyingDrafter(NoDrafter(), parts.stopping),
        uses_model=False,
        has_tree=False,
    ),
    MODEL_AND_COPIES: Entry(
        "the small model, beside copies from the text",
        lambda parts: CopyingDrafter(_by_model(parts), parts.stopping),
        check=_check_trees,
    ),
    STRINGS: Entry("a small model with another tokenizer", _by_strings, offered=False, check=check_strings),
}
"""All built-in drafters, by their names in settings and records."""
_OWN = Entry("", _by_object, uses_model=False, check=_check_object)
"""The entry for users' own drafters."""
