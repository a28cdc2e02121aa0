"""Wraps models of transformers for decoding. A wrapper is made once and stored with the model.

Wrapping a model runs its self-check, which takes longer than decoding a short text. If the weights of a model
have changed since it was wrapped, it is wrapped again. The wrapper is deleted with the model, and is left out
when the model is copied or pickled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from transformers import PreTrainedModel

from specdec.models import HFModel, Model
from specdec.pair import ModelPair, over_ids_of

_NAME = "_specdec_wrapped"


class _Wrapped:
    """A wrapped model, and the measurements of "auto" with each draft.

    weights: the result of `_weights` when the model was wrapped. over_target_ids: for a draft with another
    tokenizer: (target's tokenizer, its own tokenizer, number of target ids, the model made for these three).
    A copy or a pickle of this object is None.
    """

    def __init__(self, module: PreTrainedModel):
        self.model, self.weights = HFModel(module), _weights(module)
        self.over_target_ids: tuple[Any, Any, int, Model] | None = None
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
    many of these are real tokens. It is needed if draft and target score different numbers of tokens, or if
    the draft has another tokenizer, which is `draft_tokenizer`.
    """
    wrapped = _wrapped(target)
    draft_model = None if draft is None else _drafting(wrapped.model, draft, tokenizer, draft_tokenizer)
    if draft_model is None or draft_model.vocab_size == wrapped.model.vocab_size:
        ModelPair(wrapped.model, draft_model, tokenizer)  # created only for its checks
        tokenizer = None
    elif tokenizer is None:
        raise ValueError(
            f"the target scores {wrapped.model.vocab_size:,} tokens, the draft {draft_model.vocab_size:,}: "
            "give tokenizer=, which says how many of them are tokens, and assistant_tokenizer= too if the "
            "draft has another one"
        )
    pair = ModelPair(wrapped.model, draft_model, tokenizer)
    pair.eos_ids = frozenset(eos_ids)
    if draft is not None:
        pair.measurements, pair.learned = wrapped.measured.setdefault(draft, ({}, {}))
    return pair


def _drafting(target: Model, draft: PreTrainedModel, tokenizer: Any, draft_tokenizer: Any) -> Model:
    """The draft model, made to score the target's ids. The last result is stored, because matching two
    vocabularies takes long."""
    wrapped = _wrapped(draft)
    cached, made_for = wrapped.over_target_ids, (tokenizer, draft_tokenizer, target.vocab_size)
    if cached is None or any(a is not b and a != b for a, b in zip(cached, made_for, strict=False)):
        model = over_ids_of(target, wrapped.model, tokenizer, draft_tokenizer)
        cached = wrapped.over_target_ids = *made_for, model
    return cached[-1]


def _wrapped(module: PreTrainedModel) -> _Wrapped:
    cache = vars(module).get(_NAME)
    if cache is None or cache.weights != _weights(module):
        # nn.Module's __setattr__ would register the value as a submodule, so it is bypassed
        cache = vars(module)[_NAME] = _Wrapped(module)
    return cache


def _weights(module: PreTrainedModel) -> list[tuple[Any, ...]]:
    """Address, dtype and number of in-place changes of each weight. Changes through `.data` do not count."""
    return [
        (weight.data_ptr(), weight.dtype, -1 if weight.is_inference() else weight._version)
        for weight in module.parameters()
    ]
