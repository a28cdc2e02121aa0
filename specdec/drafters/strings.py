"""A draft model with another tokenizer continues the text in its own tokens. Its continuation, translated
into the target's tokens, is the drafted path.

The draft may use any of its tokens, even if the token's string is not a token of the target. The tokens of
the path have no q, so only ERSD, which allows any proposal, can verify them. ERSD accepts a token that wins
both races. Therefore a draft token uses the exponential of the target token with which its string begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from specdec.methods import Drafted
from specdec.models import Model, Session
from specdec.models.other_tokenizer import OtherTokenizerModel
from specdec.models.requests import Requesting
from specdec.probs import Sampling, log_probs
from specdec.race import PositionNoise, Race
from specdec.topology import Topology

_MOST = 4
"""The most draft tokens per token of the path. One target token may be several draft tokens."""
_CANDIDATES = 16
"""The number of likeliest draft tokens that take part in the race for one place of the path."""


def check_strings(method: str, target: Model, draft: Model | None, topology: Any) -> None:  # noqa: ARG001
    """ValueError if strings can't be drafted with this method, by this draft model or along this topology."""
    if method != "ersd":
        raise ValueError(f"method = {method!r} needs probabilities, which drafted strings lack; use 'ersd'")
    if draft is not None and not isinstance(draft, OtherTokenizerModel):
        raise ValueError(
            "drafter = 'strings' is for a draft model with another tokenizer; "
            f"{draft.name} has the target's tokenizer"
        )
    if topology is not None and not (isinstance(topology, Topology) and topology.is_sequence):
        raise ValueError(f"topology = {topology!r:.60}: strings are one sequence; use sequence(k)")


class StringDrafter:
    """A `Drafter` of one run that drafts strings along a sequence."""

    def __init__(self, model: OtherTokenizerModel, sampling: Sampling):
        self.model, self.sampling = model, sampling
        self.session = model.session()
        self._first = cache(lambda token_id: next(iter(model.target_ids([token_id])), 0))

    def prompt_session(self, length: int) -> Session | None:  # noqa: ARG002
        """The session. It always has room, because it drops the beginning of a long text."""
        return self.session

    def draft(
        self, text_ids: Sequence[int], topology: Topology, depth: int, noise: PositionNoise
    ) -> Requesting[Drafted]:
        """Drafts a path of target tokens; see `Drafter.draft`."""
        self.session.append(text_ids[self.session.length :])
        depth = min(depth, topology.depth)
        draft_ids: list[int] = []
        token_ids: Sequence[int] = ()
        while len(token_ids) < depth and len(draft_ids) < _MOST * depth:
            logits = yield from self.session.following(draft_ids)  # [draft vocabulary]
            draft_ids.append(self._winner(logits, noise.race((0,) * len(token_ids))))
            token_ids = self.model.target_ids(draft_ids)
        token_ids = [text_ids[-1], *token_ids[:depth]]
        return Drafted(topology.limited(len(token_ids) - 1), token_ids, [None] * len(token_ids))

    def commit(self, rows: Sequence[int]) -> None:
        """Does nothing, because the next round appends the text."""

    def _winner(self, logits: Tensor, race: Race) -> int:
        """The draft token that arrives first. Only the `_CANDIDATES` tokens with the largest q take part."""
        log_q, candidates = log_probs(logits, self.sampling).topk(min(_CANDIDATES, len(logits)))
        log_e = race.log_e([self._first(token_id) for token_id in candidates.tolist()])
        return int(candidates[(torch.tensor(log_e, dtype=torch.float32) - log_q.cpu()).argmin()])
