"""Models of transformers, wrapped for decoding once and stored with the model.

Wrapping a model checks its abilities, which takes longer than a short text. The wrapper is deleted with the
model, and is left out when the model is copied or pickled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from transformers import PreTrainedModel

from specdec.models import HFModel
from specdec.pair import ModelPair

_NAME = "_specdec_wrapped"


class _Wrapped:
    """A wrapped model, and the measurements of `auto` with each draft.

    It stays with its module: a copy or a pickle of it is None.
    """

    def __init__(self, module: PreTrainedModel):
        self.model = HFModel(module)
        self.measured: WeakKeyDictionary[PreTrainedModel, tuple[dict[Any, Any], dict[Any, Any]]] = (
            WeakKeyDictionary()
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def wrapped_pair(
    target: PreTrainedModel,
    draft: PreTrainedModel | None,
    eos_ids: Iterable[int],
    tokenizer: Any = None,
    draft_tokenizer: Any = None,
) -> ModelPair:
    """The pair of these models; its texts end with `eos_ids`. ValueError as from `ModelPair`.

    As in transformers, the target's distribution is over all tokens that it scores. The tokenizer says how
    many of them are tokens, and is needed only if draft and target score different numbers.
    """
    wrapped = _wrapped(target)
    draft_model = None if draft is None else _wrapped(draft).model
    if draft_model is None or draft_model.vocab_size == wrapped.model.vocab_size:
        ModelPair(wrapped.model, draft_model, tokenizer, draft_tokenizer)  # for its checks alone
        tokenizer = draft_tokenizer = None
    elif tokenizer is None:
        raise ValueError(
            f"the target scores {wrapped.model.vocab_size:,} tokens, the draft {draft_model.vocab_size:,}: "
            "give tokenizer=, which says how many of them are tokens"
        )
    pair = ModelPair(wrapped.model, draft_model, tokenizer, draft_tokenizer)
    pair.eos_ids = frozenset(eos_ids)
    if draft is not None:
        pair.measurements, pair.measured_topologies = wrapped.measured.setdefault(draft, ({}, {}))
    return pair


def _wrapped(module: PreTrainedModel) -> _Wrapped:
    cache = vars(module).get(_NAME)
    if cache is None:
        # past nn.Module's own, which would take it for a part
        cache = vars(module)[_NAME] = _Wrapped(module)
    return cache
