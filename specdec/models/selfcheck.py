"""The self-check: a session must score what plain forwards of the model score.

Many models accept a tree mask and silently ignore it, so a configuration is never trusted. A session runs a
script of forwards and commits. Every row of logits that it returns is compared with an ordinary call of the
model, without a cache, on that row's own line of tokens. A model in half precision is compared with its own
code in float32 (`widened`): a session is right if it is no further from that than the model's own forward in
half precision. A tree session must also *fail* under a wrong mask,
and a session that restores states must fail when it does not restore them. Where it does not fail, the model
ignores masks, or its logits do not depend on earlier tokens, and the comparison has proved nothing.

`ShortCheck` runs the model itself over a few tokens. Windows, chunks and rotary embeddings that change with
the length act on longer texts only: `long_context` checks those on a small copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from specdec.models.base import Capability, PreparedModel, Session
from specdec.models.partial_head import PartialHead
from specdec.models.widened import HALF, Widened

PREFIX_LENGTH = 6
NUM_TOKENS = 512
"""Number of test tokens, more than any script needs."""
LIMITS = {
    torch.float64: (1e-6, 1e-4),  # many models compute their softmax in float32
    torch.float32: (1e-4, 5e-3),
    torch.float16: (5e-3, 0.3),
    torch.bfloat16: (3e-2, 0.3),
}
"""Relative errors: the first always passes, above the second nothing passes. Between them an error passes up
to `ROUNDING` times the error of the model's own decoding, which is rounding."""
ROUNDING = {False: 4.0, True: 3.0}
"""By whether the reference is in float32. Then both errors are distances from the same exact numbers. Each is
the largest error of a few rows: forwards of one model that round alike differed by up to 2.2 times."""
NOT_CAUSAL = 0.1
"""Relative change of a logit by later tokens above which a model is not causal."""
CONTROL_FACTOR = 4.0
"""A wrong mask or state must give at least this many times the error of the right one, and an error that does
not pass."""

Line = tuple[int, ...]


@dataclass(frozen=True)
class ScriptedForward:
    """One forward of a script, and the nodes to commit after it; None leaves all nodes pending."""

    parents: Sequence[int]
    committed: Sequence[int] | None


Script = Sequence[ScriptedForward]
SCRIPTS: dict[Capability, Script] = {
    "tree": (
        ScriptedForward((-1, -1, 0, 0, 1), None),
        ScriptedForward((2, 4), (0, 2, 5)),  # 0 ─┬─ 2 ─── 5     1 ─── 4 ─── 6
        ScriptedForward((-1, 0, 0), (0, 2)),  #    └─ 3
        ScriptedForward((-1,), (0,)),
    ),
    "sequence": (
        ScriptedForward((-1, 0, 1), None),
        ScriptedForward((2, 3), (0, 1, 2)),
        ScriptedForward((-1,), (0,)),
        ScriptedForward((-1, 0), ()),
    ),
    "ar": (ScriptedForward((-1,), (0,)), ScriptedForward((-1,), (0,)), ScriptedForward((-1,), ())),
}
UNPREFIXED: dict[Capability, Script] = {
    "tree": (ScriptedForward((-1, 0, 0), ()),),
    "sequence": (ScriptedForward((-1, 0), ()),),
    "ar": (ScriptedForward((-1,), ()),),
}


class Rows(Protocol):
    """Right logits, with which a session's are compared. tokens: the ids of the texts."""

    tokens: list[int]

    def last_rows(self, lines: Sequence[Line]) -> Tensor:
        """Logits [lines, vocabulary] after each line, float32 or wider."""
        ...


class PlainForwards:
    """The model called in the ordinary way: whole sequences, without a cache.

    in_float32: whether a model in half precision is computed in float32 here. Some code can't be, such as
    that of quantised weights.

    Raises ValueError where it is no causal language model: no logits, or logits that change with
    the tokens after them.
    """

    def __init__(self, module: PreTrainedModel, device: torch.device):
        self.module = module
        self.device = device
        self.tokens = ordinary_tokens(module)
        self.vocab_size = self._checked_vocab_size()
        self.in_float32 = module.dtype in HALF and self._runs_in_float32()
        self._rows: dict[Line, Tensor] = {}

    def last_rows(self, lines: Sequence[Line]) -> Tensor:
        """Logits [lines, vocabulary] after each line, float32 or wider.

        Only lines of one length share a forward, because the length may change the rotary embedding of all
        tokens.
        """
        new = sorted({line for line in lines if line not in self._rows}, key=len)
        for _, same in groupby(new, key=len):
            batch = list(same)
            self._rows.update(zip(batch, self._logits(batch)[:, -1], strict=True))
        return torch.stack([self._rows[line] for line in lines])

    def forward(self, line: Line) -> Tensor:
        """Logits [tokens, vocabulary] of one sequence."""
        return self._logits([line])[0]

    def _logits(self, lines: Sequence[Line]) -> Tensor:
        """Logits [lines, tokens, vocabulary] of lines of one length."""
        token_ids = torch.tensor(lines, device=self.device)
        with Widened() if self.in_float32 else nullcontext():
            return _widened(self.module(input_ids=token_ids, use_cache=False).logits)

    def _runs_in_float32(self) -> bool:
        """Whether the model's code can be run in float32, and gives the logits of the model then."""
        token_ids = torch.tensor([self.tokens[:4]], device=self.device)
        own = self.module(input_ids=token_ids, use_cache=False).logits
        try:
            with Widened():
                wide = self.module(input_ids=token_ids, use_cache=False).logits
            return wide.dtype == torch.float32 and relative_error(own.float(), wide) < LIMITS[own.dtype][1]
        except Exception:  # kernels for half precision alone, or no memory for a wide matrix on a GPU
            return False

    def own_error(self, length: int) -> float:
        """The larger relative error of the model's own forward and of its own cached decoding."""
        line = tuple(self.tokens[:length])
        want = self.forward(line)
        return max(self._own_forward_error(line, want), self._own_cache_error(line, want))

    def _own_forward_error(self, line: Line, want: Tensor) -> float:
        if not self.in_float32:
            return 0.0
        token_ids = torch.tensor([line], device=self.device)
        return relative_error(_widened(self.module(input_ids=token_ids, use_cache=False).logits[0]), want)

    def _own_cache_error(self, line: Line, want: Tensor) -> float:
        length = len(line)
        try:
            token_ids = torch.tensor([line], device=self.device)
            start = self.module(input_ids=token_ids[:, :-2], use_cache=True)
            cache = start.past_key_values
            rows = []
            for i in (length - 2, length - 1):
                out = self.module(input_ids=token_ids[:, i : i + 1], past_key_values=cache, use_cache=True)
                cache = out.past_key_values
                rows.append(_widened(out.logits[0, -1]))
        except Exception as error:
            reraise_out_of_memory(error)
            return 0.0
        return relative_error(torch.stack(rows), want[-2:])

    def _checked_vocab_size(self) -> int:
        token_ids = torch.tensor([self.tokens[:4]], device=self.device)
        logits = getattr(self.module(input_ids=token_ids, use_cache=False), "logits", None)
        kind = type(self.module).__name__
        if not isinstance(logits, Tensor) or logits.dim() != 3:
            raise ValueError(f"{kind} gives no logits per token: a causal language model has a head")
        head = self.module.get_output_embeddings()
        scored = head.output_ids if isinstance(head, PartialHead) else slice(None)
        _check_telling(logits[0][:, scored], kind)
        shorter = self.module(input_ids=token_ids[:, :2], use_cache=False).logits
        if relative_error(_widened(shorter[0]), _widened(logits[0, :2])) > NOT_CAUSAL:
            raise ValueError(f"{kind} is not causal: its logits change with later tokens")
        return logits.shape[-1]


def _check_telling(logits: Tensor, kind: str) -> None:
    """ValueError if logits [tokens, vocabulary] are NaN or infinite, or are the same for all tokens."""
    if not logits.isfinite().all():
        raise ValueError(
            f"{kind} gives logits that are not numbers, but NaN or infinity: its weights or config are broken"
        )
    if (logits == logits[:, :1]).all():
        raise ValueError(
            f"{kind} gives all {logits.shape[-1]:,} tokens the same logits: its weights are broken, or its "
            "vocabulary has one token"
        )


def session_error(session: Session, plain: Rows, script: Script, prefix_length: int) -> float:
    """Largest relative error of the rows that a session returns along a script."""
    rows, lines = [], []
    tokens = iter(plain.tokens)
    prefix = tuple(next(tokens) for _ in range(prefix_length))
    for part in (prefix[: prefix_length // 2], prefix[prefix_length // 2 :]):
        session.prefill(list(part))  # long prompts come in several parts, too
    pending: list[Line] = []
    for step in script:
        token_ids = [next(tokens) for _ in step.parents]
        for token_id, parent in zip(token_ids, step.parents, strict=True):
            pending.append((*(pending[parent] if parent >= 0 else prefix), token_id))
        rows.append(session.forward(torch.tensor(token_ids), step.parents))
        lines += pending[-len(token_ids) :]
        if step.committed is not None:
            session.commit(step.committed)
            prefix = pending[step.committed[-1]] if step.committed else prefix
            pending = []
    return relative_error(_widened(torch.cat(rows)), plain.last_rows(lines))


def relative_error(have: Tensor, want: Tensor) -> float:
    """The largest difference, relative to the largest distance of a logit from its row's mean.

    Both must have -inf at the same tokens, those that the model never scores.
    """
    have, scored = have.to(want.device), want > -torch.inf
    if not torch.equal(have > -torch.inf, scored):
        return float("inf")
    have, want = torch.where(scored, have, 0), torch.where(scored, want, 0)
    mean = want.sum(-1, keepdim=True) / scored.sum(-1, keepdim=True)
    spread = torch.where(scored, want - mean, 0).abs().max()
    error = ((have - want).abs().max() / spread).item()
    return error if error == error else float("inf")


class ShortCheck:
    """Checks kinds of sessions on the model itself, after a few tokens.

    limit: the error that passes: `LIMITS`, or `ROUNDING` times the rounding of the model's own decoding.
    """

    def __init__(self, plain: PlainForwards, dtype: torch.dtype, context_length: int):
        self._plain = plain
        self._prefix_length = max(1, min(PREFIX_LENGTH, context_length - 12))
        always, most = LIMITS.get(dtype, LIMITS[torch.bfloat16])
        own = ROUNDING[plain.in_float32] * plain.own_error(self._prefix_length + 6)
        self.limit = min(most, max(always, own))

    def fault(self, model: PreparedModel) -> str | None:
        """The fault of the model's kind of session, as the end of a sentence; None if it passes."""
        capability = model.capability
        scripts = (SCRIPTS[capability], self._prefix_length), (UNPREFIXED[capability], 0)
        return session_fault(model, self._plain, scripts, self.limit)


def session_fault(
    model: PreparedModel, plain: Rows, scripts: Sequence[tuple[Script, int]], limit: float
) -> str | None:
    """The fault of the model's sessions, as the end of a sentence; None if they pass.

    scripts: each with the length of the text that is prefilled before it. A session with a wrong mask must
    fail the first script.
    """
    try:
        error = max(session_error(model.session(), plain, *script) for script in scripts)
    except Exception as exception:
        reraise_out_of_memory(exception)
        return f"raises {in_words(exception)}"
    if error > limit:
        return f"gives logits that are off by {error:.2g} of their spread"
    if model.kind.control is None:
        return None
    try:
        control = session_error(model.kind.control(model), plain, *scripts[0])
    except Exception as exception:
        reraise_out_of_memory(exception)
        return None  # the mistake was noticed
    if control > max(limit, CONTROL_FACTOR * error):
        return None
    return "gives the same logits under a wrong mask or from a wrong state"


def in_words(exception: Exception) -> str:
    """A short description of an exception."""
    return f"{type(exception).__name__} ({' '.join(str(exception).split())[:80]})"


def ordinary_tokens(module: PreTrainedModel) -> list[int]:
    """Token ids spread over the vocabulary, without the special ones; the same on every run."""
    config = module.config.to_dict()
    special = {
        id for key, ids in config.items() if key.endswith(("token_id", "token_index")) for id in _listed(ids)
    }
    embedding: Any = module.get_input_embeddings()
    size = int(embedding.weight.shape[0])
    spread = [(17 + 7919 * i) % size for i in range(NUM_TOKENS)]
    return [token_id for token_id in spread if token_id not in special] or spread


def _listed(ids: object) -> list[int]:
    return ids if isinstance(ids, list) else [ids] if isinstance(ids, int) else []


def _widened(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn every error of a model's code into a ValueError that names the model."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:
        reraise_out_of_memory(error)
        raise ValueError(f"{name} can't be run as a causal language model: {in_words(error)}") from error


def reraise_out_of_memory(error: Exception) -> None:
    """Raise the error again if memory was short."""
    # It says nothing about the model's attention.
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        raise error
