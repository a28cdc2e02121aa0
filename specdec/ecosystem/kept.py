"""Models of transformers as decoding needs them, wrapped once and kept with the model.

Wrapping a model checks what it can do, which takes longer than a short text. What is kept goes with the model
when it is deleted, and stays behind when it is copied or pickled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from transformers import PreTrainedModel

from specdec.models import HFModel
from specdec.pair import ModelPair

_NAME = "_specdec_kept"


class _Kept:
    """A wrapped model, and by draft what `auto` measured with it; a copy of it is None."""

    def __init__(self, module: PreTrainedModel):
        self.model = HFModel(module)
        self.measured: WeakKeyDictionary[PreTrainedModel, tuple[dict[Any, Any], dict[Any, Any]]] = (
            WeakKeyDictionary()
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def kept_pair(
    target: PreTrainedModel,
    draft: PreTrainedModel | None,
    eos_ids: Iterable[int],
    tokenizer: Any = None,
    draft_tokenizer: Any = None,
) -> ModelPair:
    """The pair of these models, whose texts end with these tokens; ValueError as from `ModelPair`.

    The target's law is over all tokens that it scores, as in transformers. Only where the draft scores fewer,
    or more, the tokenizer says which of them are tokens.
    """
    wrapped = _kept(target)
    draft_model = None if draft is None else _kept(draft).model
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


def _kept(module: PreTrainedModel) -> _Kept:
    found = vars(module).get(_NAME)
    if found is None:
        # past nn.Module's own, which would take it for a part
        found = vars(module)[_NAME] = _Kept(module)
    return found
