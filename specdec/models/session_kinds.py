"""Kinds of sessions over a model of transformers. A model gets the first one that passes the self-check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import torch
import transformers

from specdec.models.base import PreparedModel, Session, SessionKind
from specdec.models.graphs import graphed_decoder
from specdec.models.kernels import CompiledDecoder
from specdec.models.sessions.cached import UNWINDOWED, Layout, SequenceSession, TreeSession
from specdec.models.sessions.own_forward import CompiledSession, LeanSession
from specdec.models.sessions.plain import PlainSession
from specdec.models.sessions.states import MOST_REPEATED, StateSession, SteppingSession
from specdec.models.sessions.switching import SwitchingSession
from specdec.models.shrink import context_length

WINDOWED = {"full_attention": False, "sliding_attention": True}
"""Whether layers of a type have windows. Masks for other types are not built; they fail the self-check."""

COMPILED = SessionKind(
    "compiled", "tree", CompiledSession, partial(CompiledSession, ancestors_only=False), CompiledDecoder
)
LEAN = SessionKind("lean", "tree", LeanSession, partial(LeanSession, ancestors_only=False), graphed_decoder)
STATES = SessionKind(
    *("states", "sequence", StateSession, partial(StateSession, restoring=False)),
    most_repeated=MOST_REPEATED,
)
STEPPING = SessionKind("stepping", "ar", SteppingSession)
PLAIN = SessionKind("plain", "ar", PlainSession)


def unchecked(
    module: transformers.PreTrainedModel, name: str, device: torch.device, vocab_size: int
) -> PreparedModel:
    """The model before its self-check; its sessions have no cache."""
    config = module.config.get_text_config(decoder=True)
    context = context_length(config)
    return PreparedModel(name, module, config, device, module.dtype, vocab_size, context, PLAIN)


def cached_kinds(config: transformers.PretrainedConfig) -> Iterator[SessionKind]:
    """Kinds of sessions with our cache: of trees, then of sequences, for which models make their own masks.

    First with windows as the configuration states, then without, because some models ignore their windows. In
    sequence sessions, attention sees a layer's cache only within its window.
    """
    for name in layouts(config):
        open_tree = partial(_tree, name)
        yield SessionKind(f"tree, {name}", "tree", open_tree, partial(open_tree, ancestors_only=False))
    for name in layouts(config):
        yield SessionKind(f"sequence, {name}", "sequence", partial(_sequence, name))


def layouts(config: transformers.PretrainedConfig) -> dict[str, Layout]:
    """Layouts of masks that the model may need, by name, the most probable first."""
    window = getattr(config, "sliding_window", None)
    layer_types = getattr(config, "layer_types", None)
    if layer_types is None:
        result = {"one mask": Layout((window,) * getattr(config, "num_hidden_layers", 0), None)}
    else:
        by_type = {name: window if WINDOWED[name] else None for name in set(layer_types) & WINDOWED.keys()}
        windows = tuple(by_type.get(name) for name in layer_types)
        result = {"a mask per type": Layout(windows, by_type)}
        if len(set(layer_types)) == 1:
            result["one mask"] = Layout(windows, None)
    return result | {"one mask, no window": UNWINDOWED}


def switch_length(config: transformers.PretrainedConfig) -> int | None:
    """The text length up to which longrope embeddings use their short factors; None without longrope, or if
    the configuration states several lengths."""
    parameters = getattr(config, "rope_parameters", None) or {}
    ropes = [rope for rope in (parameters, *parameters.values()) if isinstance(rope, Mapping)]
    longropes = [rope for rope in ropes if rope.get("rope_type") == "longrope"]
    switches = {rope["original_max_position_embeddings"] for rope in longropes}
    return switches.pop() if len(switches) == 1 else None


def _tree(name: str, model: PreparedModel, ancestors_only: bool = True) -> Session:
    # computed from each model's own config, because the small copy of a model has other windows
    layout, switch = layouts(model.config)[name], switch_length(model.config)
    if switch is None:
        return TreeSession(model, layout, ancestors_only)
    return SwitchingSession(model, layout, switch, ancestors_only)


def _sequence(name: str, model: PreparedModel) -> SequenceSession:
    return SequenceSession(model, layouts(model.config)[name])
