"""The self-check: a session must give the same logits as plain forward passes of the model.

Many models accept a tree mask and silently ignore it, so a configuration is never trusted. A session runs a
script of forward passes and commits. For every token, the logits after it are compared with an ordinary call
of the model, without a cache, on the text up to this token. A model in half precision is compared with its
own code in float32 (`widened`): a session passes if its error is not much larger than that of the model's own
decoding (`ROUNDING`). There are two negative controls: a tree session must *fail* under a wrong mask, and a
session that restores states must fail if it does not restore them. If a control passes, the model ignores
masks or earlier tokens, and the comparison proves nothing.

`short_check` runs the model itself over a few tokens. Windows, chunks and rotary embeddings that change with
the length matter on longer texts only: `long_context` checks them on a small copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import groupby
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
import transformers
from torch import Tensor

from specdec.models.base import Capability, PreparedModel, Session, SessionKind
from specdec.models.partial_head import PartialHead
from specdec.models.sessions.states import SteppingSession
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
"""For each dtype, two bounds of a session's relative error. An error up to the first bound passes; one above
the second fails. Between them, it passes up to `ROUNDING` times the error of the model's own decoding."""
ROUNDING = {False: 4.0, True: 3.0}
"""By `PlainForwards.in_float32`, the largest ratio of a session's error to that of the model's own decoding.
Both errors are maxima over few tokens, so even forward passes with equal rounding had ratios up to 2.2."""
NOT_CAUSAL = 0.1
"""If later tokens change a logit by more than this relative error, a model is not causal."""
CONTROL_FACTOR = 4.0
"""With a wrong mask or state, the error must exceed the limit and this many times the session's error."""

NO_MEMORY = (MemoryError, torch.OutOfMemoryError)
Line = tuple[int, ...]
_Result = TypeVar("_Result")


class ScriptedForward(NamedTuple):
    """One forward pass of a script, and the nodes that are then committed; None leaves all nodes pending."""

    parents: Sequence[int]
    committed: Sequence[int] | None


Script = Sequence[ScriptedForward]
Scripts = Sequence[tuple[Script, int]]
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


class Rows(Protocol):
    """The correct logits, for comparison with a session's. tokens: the ids of the test text."""

    tokens: list[int]

    def last_rows(self, lines: Sequence[Line]) -> Tensor:
        """Logits [lines, vocabulary], float32 or wider, of the token after each sequence of tokens."""
        ...


class PlainForwards:
    """Logits from ordinary calls of the model on whole sequences, without a cache.

    in_float32: whether a model in half precision is computed in float32. This is impossible for some models,
    such as those with quantised weights.

    Raises ValueError for a model that is not causal: it gives no logits, or later tokens change them.
    """

    def __init__(self, module: transformers.PreTrainedModel, device: torch.device):
        self.module, self.device, self.in_float32 = module, device, False
        self.tokens = ordinary_tokens(module)
        self.vocab_size = self._checked_vocab_size()
        self.in_float32 = module.dtype in HALF and self._runs_in_float32()
        self._rows: dict[Line, Tensor] = {}

    def last_rows(self, lines: Sequence[Line]) -> Tensor:
        """Logits [lines, vocabulary], float32 or wider, of the token after each sequence of tokens.

        Only sequences of one length share a forward pass, because the length may change all rotary angles.
        """
        new = sorted({line for line in lines if line not in self._rows}, key=len)
        for _, same in groupby(new, key=len):
            batch = list(same)
            self._rows.update(zip(batch, self._correct(batch)[:, -1], strict=True))
        return torch.stack([self._rows[line] for line in lines])

    def own_error(self, model: PreparedModel, prefix_length: int) -> float:
        """The larger of two relative errors: of the model's own forward pass, and of its cached decoding."""
        line = tuple(self.tokens[: prefix_length + 6])
        error = relative_error(_widened(self._own_output([line]).logits), self._correct([line]))
        cached = tried(lambda: session_error(SteppingSession(model), self, SCRIPTS["ar"], prefix_length))
        return error if isinstance(cached, Exception) else max(error, cached)

    def _correct(self, lines: Sequence[Line]) -> Tensor:
        """Logits [lines, tokens, vocabulary] of sequences of one length, in float32 if possible."""
        with Widened() if self.in_float32 else nullcontext():
            return _widened(self._own_output(lines).logits)

    def _own_output(self, lines: Sequence[Line]) -> Any:
        """The model's own output for sequences of one length; logits [lines, tokens, vocabulary]."""
        return self.module(input_ids=torch.tensor(lines, device=self.device), use_cache=False)

    def _runs_in_float32(self) -> bool:
        """Whether the model's code runs in float32 and then gives the same logits up to rounding."""
        line = tuple(self.tokens[:4])
        own = self._own_output([line]).logits
        try:
            with Widened():
                wide = self._own_output([line]).logits
            return wide.dtype == torch.float32 and relative_error(own.float(), wide) < LIMITS[own.dtype][1]
        except Exception:  # kernels that take only half precision, or no memory for a wide matrix on a GPU
            return False

    def _checked_vocab_size(self) -> int:
        line, kind = tuple(self.tokens[:4]), type(self.module).__name__
        logits = getattr(self._own_output([line]), "logits", None)
        if not isinstance(logits, Tensor) or logits.dim() != 3:
            raise ValueError(f"{kind} gives no logits per token: a causal language model has a head")
        head = self.module.get_output_embeddings()
        scored = logits[0][:, head.output_ids if isinstance(head, PartialHead) else slice(None)]
        if not scored.isfinite().all():
            raise ValueError(
                f"{kind} gives logits that are not numbers, but NaN or infinity: its weights or config are "
                "broken"
            )
        if (scored == scored[:, :1]).all():
            raise ValueError(
                f"{kind} gives all {scored.shape[-1]:,} tokens the same logits: its weights are broken, or "
                "its vocabulary has one token"
            )
        shorter = self._own_output([line[:2]]).logits
        if relative_error(_widened(shorter[0]), _widened(logits[0, :2])) > NOT_CAUSAL:
            raise ValueError(f"{kind} is not causal: its logits change with later tokens")
        return logits.shape[-1]


def session_error(session: Session, plain: Rows, script: Script, prefix_length: int) -> float:
    """The largest relative error of a session's logits in a script, compared with plain forward passes."""
    rows, lines = [], []
    tokens = iter(plain.tokens)
    prefix = tuple(next(tokens) for _ in range(prefix_length))
    for part in (prefix[: prefix_length // 2], prefix[prefix_length // 2 :]):
        session.prefill(list(part))  # in two parts, because long prompts are prefilled in parts
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
    """The largest difference between `have` and `want`, divided by the largest distance of a logit from its
    row's mean.

    Both tensors must have -inf at the same tokens, which are those that the model never scores.
    """
    have, scored = have.to(want.device), want > -torch.inf
    if not torch.equal(have > -torch.inf, scored):
        return float("inf")
    have, want = torch.where(scored, have, 0), torch.where(scored, want, 0)
    mean = want.sum(-1, keepdim=True) / scored.sum(-1, keepdim=True)
    spread = torch.where(scored, want - mean, 0).abs().max()
    error = ((have - want).abs().max() / spread).item()
    return error if error == error else float("inf")


class Check(NamedTuple):
    """A check of kinds of sessions on one model.

    model: the model before its kind is chosen. plain: the correct logits. scripts: gives for a capability
    pairs of a script and the number of tokens to prefill. limit: the largest relative error that passes.
    """

    model: PreparedModel
    plain: Rows
    scripts: Callable[[Capability], Scripts]
    limit: float

    def tried(self, kind: SessionKind) -> PreparedModel | str:
        """The model with this kind of session; if the check fails, the fault as the end of a sentence."""
        model = tried(lambda: kind.on(self.model))  # an unusual module may lack attributes
        if isinstance(model, Exception):
            return f"raises {in_words(model)}"
        return session_fault(model, self.plain, self.scripts(kind.capability), self.limit) or model


def short_check(model: PreparedModel, plain: PlainForwards) -> Check:
    """The check on the model itself, over a few tokens.

    Its limit is `ROUNDING` times the error of the model's own decoding, clamped between the two `LIMITS`.
    """
    prefix = max(1, min(PREFIX_LENGTH, model.context_length - 12))
    always, most = LIMITS.get(model.dtype, LIMITS[torch.bfloat16])
    own = ROUNDING[plain.in_float32] * plain.own_error(model, prefix)
    return Check(model, plain, lambda i: [(SCRIPTS[i], prefix)], min(most, max(always, own)))


def session_fault(model: PreparedModel, plain: Rows, scripts: Scripts, limit: float) -> str | None:
    """What is wrong with the model's sessions, as the end of a sentence; None if they pass.

    The kind's control, a session with a wrong mask or state, must fail the first script.
    """
    error = tried(lambda: max(session_error(model.session(), plain, *script) for script in scripts))
    if isinstance(error, Exception):
        return f"raises {in_words(error)}"
    if error > limit:
        return f"gives logits that are off by {error:.2g} of their spread"
    open_control = model.kind.control
    if open_control is None:
        return None
    control = tried(lambda: session_error(open_control(model), plain, *scripts[0]))
    if isinstance(control, Exception) or control > max(limit, CONTROL_FACTOR * error):
        return None  # the mistake was noticed
    return "gives the same logits under a wrong mask or from a wrong state"


def in_words(exception: Exception) -> str:
    """A short description of an exception."""
    return f"{type(exception).__name__} ({' '.join(str(exception).split())[:80]})"


def ordinary_tokens(module: transformers.PreTrainedModel) -> list[int]:
    """Token ids spread over the vocabulary, without special tokens; the same ids on every run."""
    special: set[Any] = set()
    for key, ids in module.config.to_dict().items():
        if key.endswith(("token_id", "token_index")):
            special.update(ids if isinstance(ids, list) else [ids])
    embedding: Any = module.get_input_embeddings()
    spread = [(17 + 7919 * i) % len(embedding.weight) for i in range(NUM_TOKENS)]
    return [token_id for token_id in spread if token_id not in special] or spread


def _widened(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turns errors in the block into a ValueError with the name, except ValueErrors and lack of memory."""
    try:
        yield
    except (ValueError, *NO_MEMORY):
        raise
    except Exception as error:
        raise ValueError(f"{name} can't be run as a causal language model: {in_words(error)}") from error


def tried(work: Callable[[], _Result]) -> _Result | Exception:
    """Calls `work` and returns its result, or the error that it raises. A lack of memory is raised, because
    it says nothing about the model."""
    try:
        return work()
    except NO_MEMORY:
        raise
    except Exception as error:
        return error
