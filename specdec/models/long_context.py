"""The self-check on longer texts: a small copy of a model is run over its whole context.

Windows, chunks and rotary embeddings change the logits beyond some length. In the copy (`shrink`) these
lengths are short. Sessions on it cross all of them, once in small steps from the first token and once after a
prefill. All logits are compared with ordinary forward passes, as in `selfcheck`.
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
"""Forward passes that are repeated until the whole text is read. Each tree is deeper than the path that is
committed from it, so that each length lies inside a tree. Only the first tree's commit moves nodes."""
LIMIT = 1e-4
"""The largest relative error that passes on a small copy in float32. Rounding causes an error of 1e-6, and
attention to a wrong token at least 1e-2."""
BEHIND = 12
"""In the check with a prefill, the number of tokens at the end that are not prefilled but scored."""
PADS_AT = (7, 9)
"""Places of padding tokens in the text. With any of the `STRIDES`, at least one of them is committed."""
CHECKED = 20
"""The most tokens of a text in the check on the model itself (`selfcheck`), which needs no copy."""
MOST_COPIES = 8
"""The most small copies that are kept in memory."""

_checks: dict[tuple, LongContextCheck] = {}


class LongContextCheck:
    """Checks kinds of sessions on a small copy of a model, over the copy's whole context.

    missing: why there is no copy, in words; None if there is one. Without a copy the check finds no fault.
    """

    def __init__(self, module: transformers.PreTrainedModel):
        self._faults: dict[str, str | None] = {}
        self._check = tried(lambda: _check_of(module))  # each architecture fails in its own way
        self.missing = in_words(self._check) if isinstance(self._check, Exception) else None

    def fault(self, kind: SessionKind) -> str | None:
        """What is wrong with a kind of session on longer texts, in words; None if it passes."""
        if isinstance(self._check, Check) and kind.name not in self._faults:
            fault = self._check.tried(kind)
            self._faults[kind.name] = f"{fault} on longer texts" if isinstance(fault, str) else None
        return self._faults.get(kind.name)


def long_context_check(module: transformers.PreTrainedModel) -> LongContextCheck:
    """The long-context check of a module. Modules of one class and configuration share one check."""
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
        for place in PADS_AT:  # a run may sample padding too, and RoBERTa gives it no position of its own
            plain.tokens.insert(place, pad)
    end = min(model.context_length, max(lengths(module.config), default=SMALL) + ROOM)
    return Check(model, plain, lambda i: ((SCRIPTS[i], end - BEHIND), (list(_strides(i, end)), 0)), LIMIT)


def _strides(capability: Capability, end: int) -> Iterator[ScriptedForward]:
    """A script of forward passes over a text of `end` tokens, from its first token to its end."""
    length = 0
    for step in cycle(STRIDES[capability]):
        if length + len(step.parents) > end:
            return
        yield step
        length += len(step.committed or ())
