"""The self-check on longer texts: a small copy of a model is run over its whole context.

Windows, chunks and rotary embeddings change the logits beyond some length. The copy (`shrink`) has the same
switches after fewer tokens. Its sessions cross all of them, once token by token from the start and once
behind a prefill, and every row of logits is compared with ordinary forwards, as in `selfcheck`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from itertools import cycle
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel

from specdec.models.base import Capability, PreparedModel, SessionKind
from specdec.models.selfcheck import (
    SCRIPTS,
    PlainForwards,
    Script,
    ScriptedForward,
    in_words,
    reraise_out_of_memory,
    session_fault,
)
from specdec.models.session_kinds import PLAIN
from specdec.models.shrink import ROOM, SMALL, context_length, lengths, shrunken, small_model

STRIDES: dict[Capability, Script] = {
    "tree": (ScriptedForward((-1, 0, 0, 2, 3, 4), (0, 2, 3)), ScriptedForward((-1, 0, 0, 1), (0, 1))),
    "sequence": (
        ScriptedForward((-1, 0, 1, 2, 3), (0, 1, 2)),
        ScriptedForward((-1, 0, 1), (0,)),
        ScriptedForward((-1, 0, 1, 2), ()),
        ScriptedForward((-1, 0, 1), (0, 1, 2)),
    ),
    "ar": (ScriptedForward((-1,), (0,)),),
}
"""Forwards that are repeated from the first token on. Their trees are deeper than the part that is committed,
so that each length is crossed by a tree; in one of them committed nodes move down, in the other they stay."""
LIMIT = 1e-4
"""Relative error that passes on a small copy, in float32: rounding gives some 1e-6, a token too many 1e-2."""
BEHIND = 12
"""Tokens at the end of the text that a script behind a prefill has for itself."""
PADS_AT = (7, 9)
"""Places of padding tokens in the text: one of them is committed, whatever the strides."""
MOST_SHORTFALL = 4
"""Tokens that a context may be shorter than its configuration says."""
LONGEST_TRIED = 1024
"""Tokens of a copy's context that is tried as a whole."""

_verdicts: dict[tuple, dict[str, Any]] = {}
"""By the shape of the copy: `shortfall`, and the verdict on each kind of session, None if it passes."""


class SmallCopy(NamedTuple):
    """A small copy of a model. shortfall: tokens that its context is shorter than its configuration says."""

    model: PreparedModel
    plain: PlainForwards
    shortfall: int


class LongContextCheck:
    """Judges kinds of sessions by a small copy of a model, along its whole context.

    Without a copy the check finds no fault, and `missing` says why there is no copy. Verdicts are remembered
    in this process, since the copies of models of one shape are the same.
    """

    def __init__(self, module: PreTrainedModel):
        self._module = module
        self._verdicts = _verdicts_of(module)

    @property
    def missing(self) -> str | None:
        """The reason why there is no small copy of the model. None if there is one, or if none was needed."""
        return self._verdicts.get("copy")

    @property
    def shortfall(self) -> int:
        """The number of tokens by which a text must be shorter than the stated context."""
        if "shortfall" not in self._verdicts:
            self._verdicts["shortfall"] = 0 if self._copy is None else self._copy.shortfall
        return self._verdicts["shortfall"]

    def fault(self, kind: SessionKind) -> str | None:
        """The fault of a kind of session on longer texts, in words; None if it passes."""
        if kind.name not in self._verdicts:
            self._verdicts[kind.name] = None if self._copy is None else _judged(kind, self._copy)
        return self._verdicts[kind.name]

    @cached_property
    def _copy(self) -> SmallCopy | None:
        """The copy; None where it can't be built, or is no causal model."""
        try:
            return _small_copy(self._module)
        except Exception as error:
            reraise_out_of_memory(error)
            self._verdicts["copy"] = in_words(error)
            return None


def _small_copy(original: PreTrainedModel) -> SmallCopy:
    module = small_model(type(original), original.config)
    config = module.config.get_text_config(decoder=True)
    plain, length = PlainForwards(module, torch.device("cpu")), context_length(config)
    shortfall = _shortfall(plain, length)
    pad = getattr(config, "pad_token_id", None)
    if type(pad) is int and 0 <= pad < plain.vocab_size:
        for place in PADS_AT:  # padding is sampled like any other token, and RoBERTa does not count it
            plain.tokens.insert(place, pad)
    model = PreparedModel(
        name="the small copy",
        module=module,
        config=config,
        device=plain.device,
        dtype=torch.float32,
        vocab_size=plain.vocab_size,
        context_length=length - shortfall,
        kind=PLAIN,
    )
    return SmallCopy(model, plain, shortfall)


def _shortfall(plain: PlainForwards, context: int) -> int:
    """The number of tokens that a context lacks. RoBERTa's positions start after that of the padding."""
    if context > LONGEST_TRIED:
        return 0
    for missing in range(MOST_SHORTFALL):
        try:
            plain.forward(tuple(plain.tokens[: context - missing]))
            return missing
        except (IndexError, RuntimeError):  # torch raises either where a table of positions ends
            continue
    return MOST_SHORTFALL


def _judged(kind: SessionKind, copy: SmallCopy) -> str | None:
    """The fault of a kind of session on the copy's longer texts; None if it passes."""
    longest = max(lengths(copy.model.module.config), default=SMALL)
    end = min(copy.model.context_length, longest + ROOM)
    scripts = (SCRIPTS[kind.capability], end - BEHIND), (list(_strides(kind.capability, end)), 0)
    try:
        model = kind.on(copy.model)
    except Exception as error:
        reraise_out_of_memory(error)
        return f"raises {in_words(error)}"
    fault = session_fault(model, copy.plain, scripts, LIMIT)
    return fault and f"{fault} on longer texts"


def _verdicts_of(module: PreTrainedModel) -> dict[str, Any]:
    """The verdicts that models with an equal small copy share. A model without a copy has its own."""
    try:
        config = shrunken(module.config)
        text = json.dumps(config.to_dict(), sort_keys=True, default=str)
    except Exception:  # `_copy` fails in the same way and tells it
        return {}
    return _verdicts.setdefault((type(module), config._attn_implementation, text), {})


def _strides(capability: Capability, end: int) -> Iterator[ScriptedForward]:
    """A script of forwards from the first token to the end of a text of `end` tokens."""
    length = 0
    for step in cycle(STRIDES[capability]):
        if length + len(step.parents) > end:
            return
        yield step
        length += len(step.committed or ())
