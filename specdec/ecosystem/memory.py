"""Detects logits processors whose results depend on earlier calls: their texts would silently be wrong.

Drafting calls a processor on texts that are later rejected. Drafting and verification therefore call a copy
of the processor. The processor itself is called only on the committed texts, once each and in order, as in
plain decoding. Before a round's tokens are returned, the copy's results must equal the processor's results.
If copy and processor share state, for example in a module's variable, both may change equally. The copy is
therefore also called again on a text from before the round, and must give the same result.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence, Set
from types import CellType, FunctionType
from typing import Any

import torch
from torch import Tensor

Process = Callable[[Sequence[int], Tensor], Tensor]
"""Maps a text and the logits [vocabulary] after it to processed logits, float32 [vocabulary]."""

_DEPTH = 5
"""How many levels of nested objects are searched for models."""


class Watched:
    """A `Process` for speculative decoding. It checks that its results on committed texts are those of plain
    decoding.

    ahead: processes logits by copies of the processors. plain: processes them by the processors themselves.
    names: the processors' names, for error messages.
    """

    def __init__(self, ahead: Process, plain: Process, names: str):
        self._ahead, self._plain, self._names = ahead, plain, names
        self._previous: tuple[list[int], Tensor, Tensor] | None = None  # text, logits and answer

    def __call__(self, text: Sequence[int], logits: Tensor) -> Tensor:
        """Processed logits [vocabulary] after a text that may be rejected later."""
        answer = self._ahead(text, logits)
        if self._previous is None:  # the first text is the prompt, before anything was drafted
            self._previous = list(text), logits.clone(), answer.clone()
        return answer

    def check(self, text: Sequence[int], logits: Tensor, answer: Tensor) -> None:
        """Compare the processed logits [vocabulary] that decided a token with those of plain decoding."""
        if not _equal(self._plain(text, logits), answer):
            self._refuse("other scores than in plain decoding")

    def check_again(self, text: Sequence[int], logits: Tensor, answer: Tensor) -> None:
        """Process the stored earlier text again and compare the results. Then store this text instead."""
        assert self._previous is not None, "the processor was asked about the round's root"
        old_text, old_logits, old_answer = self._previous
        if not _equal(self._ahead(old_text, old_logits), old_answer):
            self._refuse("other scores for the same text in a second call")
        self._previous = list(text), logits.clone(), answer.clone()

    def _refuse(self, gives: str) -> None:
        raise ValueError(
            f"logits_processor ({self._names}) gives {gives}: its results depend on earlier calls, but "
            "speculative decoding also calls it on texts that are rejected. Only processors that depend on "
            "the text alone are supported"
        )


def _equal(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.nan_to_num(), other.nan_to_num())


def isolated(processor: Any) -> Any:
    """A copy of a processor that shares no state with it, except models. The variables that its functions
    close over are copied too.

    ValueError if the processor can't be copied, like many objects of modules that are written in C or Rust.
    """
    try:
        memo: dict[int, Any] = {}
        _share_models(processor, memo)
        return _copied(processor, memo)
    except Exception as error:
        raise ValueError(
            f"logits_processor {type(processor).__name__} can't be copied ({str(error)[:100]}), but "
            f"speculative decoding calls a copy on drafts: give it a __deepcopy__, or decode without it"
        ) from error


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, FunctionType):
        return _copied_function(value, memo)
    result = copy.deepcopy(value, memo)
    for name, part in vars(value).items() if hasattr(result, "__dict__") and result is not value else ():
        if isinstance(part, FunctionType):  # deepcopy does not copy functions
            vars(result)[name] = _copied_function(part, memo)
    return result


def _copied_function(function: FunctionType, memo: dict[int, Any]) -> FunctionType:
    """A copy of the function, with copies of the variables that it closes over."""
    if id(function) in memo:
        return memo[id(function)]
    cells = tuple(CellType() for _ in function.__closure__ or ())
    result = FunctionType(function.__code__, function.__globals__, function.__name__, None, cells)
    memo[id(function)] = result
    result.__defaults__ = copy.deepcopy(function.__defaults__, memo)
    result.__kwdefaults__ = copy.deepcopy(function.__kwdefaults__, memo)
    vars(result).update(copy.deepcopy(vars(function), memo))
    for cell, own in zip(function.__closure__ or (), cells, strict=True):
        own.cell_contents = _copied(cell.cell_contents, memo)
    return result


def _share_models(value: Any, memo: dict[int, Any], depth: int = 0) -> None:
    """Register the models inside an object as copies of themselves, so that deepcopy does not copy them."""
    if isinstance(value, torch.nn.Module):
        memo[id(value)] = value
    if depth == _DEPTH or isinstance(value, str | bytes | int | float | Tensor | type | torch.nn.Module):
        return
    parts: list[Any] = []
    if isinstance(value, Mapping):
        parts += value.values()
    elif isinstance(value, Sequence | Set):
        parts += value
    if isinstance(value, FunctionType):
        parts += [cell.cell_contents for cell in value.__closure__ or ()]
    for part in (*parts, *getattr(value, "__dict__", {}).values()):
        _share_models(part, memo, depth + 1)
