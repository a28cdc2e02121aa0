"""The draft models that the columns of a comparison can use with the same target: a good, a perfect and
deliberately bad ones.

Under ERSD the text is the same with every draft. A bad draft only lowers the tokens per target call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch

import specdec
from components.runs import zero_gpu
from components.runs.lazy import present
from specdec.checks import among
from specdec.pair import Pair

if TYPE_CHECKING:
    from specdec.models import Model

LABELS = {
    "own": "the pair's own",
    "target": "the large model itself",
    "noisy": "own with errors",
    "uniform": "uniform probabilities",
}
"""The label of each draft, by name."""

_ERRORS = 2.0
"""Standard deviation of the errors that are added to the noisy draft's logits, in nats. Errors of this size
reduce the acceptance to about half."""
_ERRORS_SEED = 0x6E6F_6973_7921


class Drafts:
    """The drafts for the target of one pair.

    The measurements of a draft are stored as long as the pair exists.
    """

    def __init__(self, pair: Pair):
        self.pair = pair
        # A weak reference, so that a replaced pair can be freed.
        self._pairs: WeakKeyDictionary[Pair, dict[str, Pair]] = WeakKeyDictionary()

    def now(self) -> Drafts:
        """The drafts for the pair that is in use now.

        The object does not change if another pair is loaded later.
        """
        drafts = Drafts(present(self.pair))
        drafts._pairs = self._pairs
        return drafts

    def pair_with(self, name: str) -> Pair:
        """The pair of the target and the draft with this name. ValueError lists the known names."""
        pair = present(self.pair)
        if among("draft", name, LABELS) == "own":
            return pair
        if isinstance(pair, zero_gpu.Lender):
            raise ValueError(
                f"draft = {name!r}: on the shared GPU only the pair's own draft can be used; choose 'own'"
            )
        by_name = self._pairs.setdefault(pair, {})
        if name not in by_name:
            by_name[name] = specdec.ModelPair(pair.target, _draft(pair, name), pair.tokenizer)
        return by_name[name]


def _draft(pair: Pair, name: str) -> Model:
    if name == "target":
        return pair.target
    if name == "uniform":
        from specdec.models import MarkovModel

        size = pair.target.vocab_size
        return MarkovModel(torch.full((size,), 1 / size, dtype=torch.float32), name="uniform")
    if pair.draft is None:
        raise ValueError("draft = 'noisy': this pair has no draft of its own; give 'target' or 'uniform'")
    return noisy(pair.draft)


def noisy(model: Model) -> Model:
    """A noisy copy of a model: each token's logit has a fixed normal error, the same in every context."""
    from specdec.ecosystem.processors import ProcessedModel  # late, because it imports transformers

    noise = torch.Generator().manual_seed(_ERRORS_SEED)
    errors = _ERRORS * torch.randn(model.vocab_size, dtype=torch.float32, generator=noise).to(model.device)
    copy = ProcessedModel(model, lambda _, logits: logits + errors, eos_ids=frozenset(), prompt_length=0)
    copy.name = f"{model.name}, with errors"
    return copy
