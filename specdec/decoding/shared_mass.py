"""Measures the target's probability of shared tokens: those that a draft with another tokenizer also has. A
drafted token is accepted with at most this probability, whatever the method and the tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from specdec.decoding.acceptance import fixed_prompts
from specdec.decoding.engine import Engine
from specdec.decoding.trees import Trees
from specdec.methods import METHODS, Drafted, Verdict
from specdec.models.other_tokenizer import OtherTokenizerModel
from specdec.probs import Sampling
from specdec.race import PositionNoise
from specdec.settings import RunSettings
from specdec.topology import Topology

if TYPE_CHECKING:
    from specdec.pair import ModelPair

_TOKENS = 16
"""The number of tokens of the text, after each prompt, at which the probability is measured."""


def measure_shared_mass(pair: ModelPair) -> float | None:
    """The target's mean probability of the tokens that it shares with the draft, at temperature 1. None if
    the draft has the target's tokenizer.

    It is measured once, while the target writes after a few fixed prompts, and stored as the draft's
    `shared_mass`.
    """
    draft = pair.draft
    if not isinstance(draft, OtherTokenizerModel):
        return None
    if draft.shared_mass is None:
        probabilities: list[float] = []
        shared_ids = draft.shared_ids.to(pair.target.device)

        def recorded(drafted: Drafted, log_p: Sequence[Tensor], noise: PositionNoise) -> Verdict:
            probabilities.append(float(log_p[0][shared_ids].exp().sum()))
            return METHODS["ar"].verify(drafted, log_p, noise)

        settings = RunSettings("ar", _TOKENS, Sampling(), None, False)
        for seed, prompt in enumerate(fixed_prompts(pair)):
            for _ in Engine(pair, settings, Trees(Topology([])), prompt, seed, recorded).rounds():
                pass
        draft.shared_mass = sum(probabilities) / len(probabilities)
    return draft.shared_mass
