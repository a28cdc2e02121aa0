"""The self-check on longer texts: a small copy of a model is run over its whole context.

Windows, chunks and rotary embeddings change the logits beyond some length. The copy (`shrink`) has the same
switches after fewer tokens. Its sessions cross all of them, once token by token from the start and once
behind a prefill, and every row of logits is compared with ordinary forwards, as in `selfcheck`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle

import torch
import transformers

from specdec.models.base import Capability, SessionKind
from specdec.models.selfcheck import SCRIPTS, Check, PlainForwards, Script, ScriptedForward, in_words, tried
from specdec.models.session_kinds import unchecked
from specdec.models.shrink import ROOM, SMALL, lengths, small_model

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
"""Forwards that are repeated from the first token on. Their trees are deeper than what is committed, so that
each length is crossed by a tree. One tree's committed nodes move in the cache, the other's lie in place."""
LIMIT = 1e-4
"""Relative error that passes on a small copy in float32: rounding gives 1e-6, one token too many 1e-2."""
BEHIND = 12
"""Tokens at the end of the text for the script that runs after a long prefill."""
PADS_AT = (7, 9)
"""Places of padding tokens in the text: one of them is committed, whatever the strides."""
CHECKED = 20
"""The length of the text in the check on the model itself, in tokens."""
MOST_COPIES = 8
"""Copies that are kept in memory at once."""

_checks: dict[tuple, LongContextCheck] = {}


class LongContextCheck:
    """Checks kinds of sessions on a small copy of a model, over its whole context.

    missing: why there is no copy, in words; None if there is one. Without a copy the check finds no fault.
    """

    def __init__(self, module: transformers.PreTrainedModel):
        self._faults: dict[str, str | None] = {}
        self._check = tried(lambda: _check_of(module))  # each architecture fails in its own way
        self.missing = in_words(self._check) if isinstance(self._check, Exception) else None

    def fault(self, kind: SessionKind) -> str | None:
        """The fault of a kind of session on longer texts, in words; None if it passes."""
        if isinstance(self._check, Check) and kind.name not in self._faults:
            fault = self._check.tried(kind)
            self._faults[kind.name] = f"{fault} on longer texts" if isinstance(fault, str) else None
        return self._faults.get(kind.name)


def long_context_check(module: transformers.PreTrainedModel) -> LongContextCheck:
    """The check of a module; modules of one class and configuration share it, whatever their weights."""
    config = module.config
    text = json.dumps(config.to_dict(), sort_keys=True, default=str)
    key = type(module), config._attn_implementation, text
    if key not in _checks:
        if len(_checks) >= MOST_COPIES:
            _checks.clear()
        _checks[key] = LongContextCheck(module)
    return _checks[key]


def _check_of(original: transformers.PreTrainedModel) -> Check:
    module = small_model(type(original), original.config)
    plain = PlainForwards(module, torch.device("cpu"))
    model = unchecked(module, "the small copy", plain.device, plain.vocab_size)
    pad = getattr(model.config, "pad_token_id", None)
    if type(pad) is int and 0 <= pad < plain.vocab_size:
        for place in PADS_AT:  # padding is sampled like any other token, and RoBERTa does not count it
            plain.tokens.insert(place, pad)
    end = min(model.context_length, max(lengths(module.config), default=SMALL) + ROOM)
    return Check(model, plain, lambda of: ((SCRIPTS[of], end - BEHIND), (list(_strides(of, end)), 0)), LIMIT)


def _strides(capability: Capability, end: int) -> Iterator[ScriptedForward]:
    """A script of forwards from the first token to the end of a text of `end` tokens."""
    length = 0
    for step in cycle(STRIDES[capability]):
        if length + len(step.parents) > end:
            return
        yield step
        length += len(step.committed or ())
