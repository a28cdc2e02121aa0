"""The check beyond a short prefix: a small copy of a model walks through its whole context.

All lengths that a configuration names, small ones now (`shrink`), are crossed by trees or sequences on the
way, and once more behind a prefill across all of them. Every row of logits is compared with plain forwards,
as in `selfcheck`, and sessions with a wrong mask must fail.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import cycle
from typing import Any

import torch
from transformers import PreTrainedModel

from specdec.models.base import Capability, Session, Wrapped
from specdec.models.kernels import CompiledDecoder
from specdec.models.lean import LeanDecoder
from specdec.models.selfcheck import (
    CONTROL_FACTOR,
    SCRIPTS,
    PlainForwards,
    ScriptedForward,
    reraise_out_of_memory,
    said,
    session_error,
)
from specdec.models.shrink import ROOM, SMALL, context_length, lengths, shrunken, small_model
from specdec.models.ways import Way

STRIDES: dict[Capability, tuple[ScriptedForward, ...]] = {
    "tree": (ScriptedForward((-1, 0, 0, 2, 3, 4), (0, 2, 3)), ScriptedForward((-1, 0, 0, 1), (0, 1))),
    "sequence": (ScriptedForward((-1, 0, 1, 2, 3), (0, 1, 2)), ScriptedForward((-1, 0, 1), (0,))),
    "ar": (ScriptedForward((-1,), (0,)),),
}
"""What a walk repeats from the first token on: trees deeper than what is kept of them, so that each length is
crossed by one, whether kept nodes move down or stay where they are."""
WALK_LIMIT = 1e-4
"""Relative error that passes on a small copy, in float32: rounding gives some 1e-6, a token too many 1e-2."""
BEHIND = 12
"""Tokens of the walk's end that a script behind a prefill has for itself."""
PADS_AT = (7, 9)
"""Places of padding tokens among those of a walk: one of them is kept, whatever the strides."""
MOST_SHORTFALL = 4
"""Tokens that a context may be shorter than its configuration says."""
LONGEST_TRIED = 1024
"""Tokens of a copy's context that is tried as a whole."""

_known: dict[tuple, dict[str, Any]] = {}
"""Verdicts by the shape of the copy and the way, None where nothing is wrong; and `shortfall`."""


class SmallModel:
    """A small copy of a model, of which sessions are opened as of the model itself.

    Raises whatever its class raises where there can be none.
    """

    name = "the small copy"
    device = torch.device("cpu")
    dtype = torch.float32
    capability_reason = ""

    def __init__(self, module: PreTrainedModel):
        self.module = small_model(type(module), module.config)
        self.config = self.module.config.get_text_config(decoder=True)
        self.plain = PlainForwards(self.module, self.device)
        self.shortfall = self._shortfall(context_length(self.config))
        self.context_length = context_length(self.config) - self.shortfall
        self._pad()
        self.lean = lean_decoder(self.module)
        self.compiled = compiled_decoder(self.module, self.lean)

    def check_room(self, position: int) -> None:
        """Raise ValueError where a position lies beyond the context."""
        if position >= self.context_length:
            raise ValueError(f"the small copy has a context of {self.context_length} tokens")

    def _pad(self) -> None:
        """Put padding tokens into texts: they are sampled like any other, and RoBERTa doesn't count them."""
        pad = getattr(self.config, "pad_token_id", None)
        if type(pad) is int and 0 <= pad < self.plain.vocab_size:
            for place in PADS_AT:
                self.plain.tokens.insert(place, pad)

    def _shortfall(self, context: int) -> int:
        """Tokens that the context lacks: RoBERTa's positions begin after that of the padding."""
        if context > LONGEST_TRIED:
            return 0
        for missing in range(MOST_SHORTFALL):
            try:
                self.plain.forward(tuple(self.plain.tokens[: context - missing]))
                return missing
            except (IndexError, RuntimeError):  # torch raises either where a table of positions ends
                continue
        return MOST_SHORTFALL


class Walk:
    """Judges ways of running a model by a small copy of it, along a whole context.

    Where there is no copy nothing is found wrong, and `missing` says why. Verdicts are kept: a process loads
    many models of one shape, whose copies would be the same.
    """

    def __init__(self, module: PreTrainedModel):
        self._module = module
        self._known = _verdicts(module)

    @property
    def missing(self) -> str | None:
        """Why there is no copy; None where there is one, or none was needed."""
        return self._known.get("copy")

    @property
    def shortfall(self) -> int:
        """How many tokens shorter than the stated context a text must stay."""
        if "shortfall" not in self._known:
            self._known["shortfall"] = 0 if self.copy is None else self.copy.shortfall
        return self._known["shortfall"]

    @cached_property
    def copy(self) -> SmallModel | None:
        """The copy, built when it is first needed; None where it can't be built or is no causal model."""
        try:
            return SmallModel(self._module)
        except Exception as error:
            reraise_out_of_memory(error)
            self._known["copy"] = said(error)
            return None

    def fault(self, way: Way) -> str | None:
        """What is wrong with a way on longer texts, as the rest of a sentence; None if it passes."""
        if way.name not in self._known:
            self._known[way.name] = None if self.copy is None else _judged(way, self.copy)
        return self._known[way.name]


def _judged(way: Way, copy: SmallModel) -> str | None:
    """What is wrong with a way on the copy's longer texts; None if it passes."""
    script, end = SCRIPTS[way.capability], _end(copy)
    try:
        stepped = _error(way.open, copy, list(_strides(way.capability, end)), 0)
        error = max(stepped, _error(way.open, copy, script, end - BEHIND))
        if error > WALK_LIMIT:
            return f"gives logits that are off by {error:.2g} of their spread on longer texts"
        if way.control is not None:
            control = _error(way.control, copy, script, end - BEHIND)
            if control <= max(WALK_LIMIT, CONTROL_FACTOR * error):
                return "gives the same logits under a wrong mask on longer texts"
    except Exception as exception:
        reraise_out_of_memory(exception)
        return f"raises {said(exception)} on longer texts"
    return None


def _error(
    open_session: Callable[[Wrapped], Session],
    copy: SmallModel,
    script: Sequence[ScriptedForward],
    prefix_length: int,
) -> float:
    return session_error(open_session(copy), copy.plain, script, prefix_length)


def _end(copy: SmallModel) -> int:
    """Tokens of the walk: past all lengths, up to the end of the context."""
    longest = max(lengths(copy.module.config), default=SMALL)
    return min(copy.context_length, longest + ROOM)


def _verdicts(module: PreTrainedModel) -> dict[str, Any]:
    """Those of all models whose small copies are alike; of this one alone where it can have none."""
    try:
        config = shrunken(module.config)
        text = json.dumps(config.to_dict(), sort_keys=True, default=str)
    except Exception:  # told by `copy`, which fails in the same way
        return {}
    return _known.setdefault((type(module), config._attn_implementation, text), {})


def lean_decoder(model: PreTrainedModel, pack: bool = True) -> LeanDecoder | None:
    """The lean forward of a model; None where it has none, or its parts are others than its class makes."""
    try:
        return LeanDecoder(model, pack)
    except Exception as error:  # what was put into its parts may lack anything
        reraise_out_of_memory(error)
        return None


def compiled_decoder(model: PreTrainedModel, lean: LeanDecoder | None) -> CompiledDecoder | None:
    """The compiled forward of a model that has a lean one, where there can be one."""
    if lean is None:
        return None
    try:
        return CompiledDecoder(model)
    except ValueError:
        return None


def _strides(capability: Capability, end: int) -> Iterator[ScriptedForward]:
    """Steps from the first token to the end of a text of so many tokens, none beyond."""
    length = 0
    for step in cycle(STRIDES[capability]):
        if length + len(step.parents) > end:
            return
        yield step
        length += len(step.keep or ())
