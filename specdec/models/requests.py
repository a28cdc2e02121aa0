"""Requests for the forward passes that decoding needs, and code that answers them one by one.

Drafting and rounds are generators. They yield the next `Request` and are sent its answer. So the same code
decodes one run alone (`decoding.engine`) and many runs at once (`batching`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from specdec.devices import all_threads
from specdec.models.base import Session


class Request(NamedTuple):
    """A request for one forward pass or one prefill of a session.

    For a forward pass, token_ids is int64 [n], parents is as in `Session.forward`, and the answer is the
    logits [n, vocabulary] of the new nodes. For a prefill, token_ids is a list, and parents and the answer
    are None.
    """

    session: Session
    token_ids: Any
    parents: Sequence[int] | None

    def answer(self) -> Tensor | None:
        """Runs this request alone and returns its answer."""
        with all_threads():
            if self.parents is None:
                self.session.prefill(self.token_ids)
                return None
            logits = self.session.forward(self.token_ids, self.parents)
        if not isinstance(logits, Tensor) or logits.dim() != 2 or len(logits) != len(self.token_ids):
            given = getattr(logits, "shape", type(logits).__name__)
            raise ValueError(
                f"{type(self.session).__name__}.forward gave {given} for {len(self.token_ids)} tokens; it "
                "must give a tensor of logits [tokens, vocabulary]"
            )
        return logits


_T = TypeVar("_T")
Requesting = Generator[Request, Any, _T]
"""A generator that yields requests, is sent their answers, and returns its result."""


def answered(work: Generator[Any, Any, _T]) -> _T:
    """Runs a generator and answers its requests, until it ends or yields a value that is no request. Returns
    this value, or else the generator's result."""
    answer = None
    while True:
        try:
            result = work.send(answer)
        except StopIteration as end:
            return end.value
        if not isinstance(result, Request):
            return result
        answer = result.answer()
