"""Ways of running a model, the most capable and likeliest first: the self-check takes the first right one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from transformers import PretrainedConfig

from specdec.models.base import Capability, Session
from specdec.models.sessions import (
    CompiledSession,
    Layout,
    LeanSession,
    SequenceSession,
    SteppingSession,
    SwitchingSession,
    TreeSession,
)

if TYPE_CHECKING:
    from specdec.models.base import Wrapped

WINDOW_OF_TYPE: Mapping[str, Callable[[int | None], int | None]] = {
    "full_attention": lambda window: None,  # noqa: ARG005
    "sliding_attention": lambda window: window,
}
"""Types of layers whose masks are known here; any other type fails the self-check."""
UNWINDOWED = Layout((), None)
"""One mask for all layers, and all of the cache."""


@dataclass(frozen=True)
class Way:
    """A kind of session, to be opened of a model or of its small copy. control: with a wrong mask."""

    name: str
    capability: Capability
    open: Callable[[Wrapped], Session]
    control: Callable[[Wrapped], Session] | None = None


def _lean(model: Wrapped, lines: bool = True) -> LeanSession:
    return LeanSession(model, UNWINDOWED, lines)


def _compiled(model: Wrapped, lines: bool = True) -> CompiledSession:
    return CompiledSession(model, UNWINDOWED, lines)


COMPILED = Way("compiled", "tree", _compiled, partial(_compiled, lines=False))
LEAN = Way("lean", "tree", _lean, partial(_lean, lines=False))
STEPS = Way("steps", "ar", SteppingSession)


def tree_ways(config: PretrainedConfig) -> Iterator[Way]:
    """With the masks that a configuration suggests, then without its windows: not every model obeys them."""
    for name in layouts(config):
        open_tree = partial(_tree, name)
        yield Way(f"tree, {name}", "tree", open_tree, partial(open_tree, lines=False))


def sequence_ways(config: PretrainedConfig) -> Iterator[Way]:
    """With the model's own masks, over a cache that shows what windows reach, then over all of it."""
    for name in layouts(config):
        yield Way(f"sequence, {name}", "sequence", partial(_sequence, name))


def layouts(config: PretrainedConfig) -> dict[str, Layout]:
    """Masks that a model may want, by name, the likeliest first."""
    window = getattr(config, "sliding_window", None)
    layer_types = getattr(config, "layer_types", None)
    if layer_types is None:
        found = {"one mask": Layout((window,) * getattr(config, "num_hidden_layers", 0), None)}
    else:
        by_type = {name: WINDOW_OF_TYPE[name](window) for name in set(layer_types) if name in WINDOW_OF_TYPE}
        windows = tuple(by_type.get(name) for name in layer_types)
        found = {"a mask per type": Layout(windows, by_type)}
        if len(set(layer_types)) == 1:
            found["one mask"] = Layout(windows, None)
        if any(windows):
            found["a mask per type, no window"] = Layout((), dict.fromkeys(by_type))
    return found | {"one mask, no window": UNWINDOWED}


def switch_length(config: PretrainedConfig) -> int | None:
    """Tokens up to which the short factors of a longrope embedding hold; None without one or with several."""
    found = {rope["original_max_position_embeddings"] for rope in _ropes(config)}
    return found.pop() if len(found) == 1 else None


def _ropes(config: PretrainedConfig) -> Iterator[Mapping[str, Any]]:
    parameters = getattr(config, "rope_parameters", None) or {}
    for rope in (parameters, *parameters.values()):
        if isinstance(rope, Mapping) and rope.get("rope_type") == "longrope":
            yield rope


def _tree(name: str, model: Wrapped, lines: bool = True) -> Session:
    layout, switch = layouts(model.config)[name], switch_length(model.config)
    if switch is None:
        return TreeSession(model, layout, lines)
    return SwitchingSession(model, layout, switch, lines)


def _sequence(name: str, model: Wrapped) -> SequenceSession:
    return SequenceSession(model, layouts(model.config)[name])
