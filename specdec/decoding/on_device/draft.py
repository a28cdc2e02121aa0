"""Drafting whose tokens stay on the device: a level's children are looked up, not read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from specdec.decoding.on_device.plan import DeviceTree, Level
from specdec.devices import upload
from specdec.drafters.model import Drafter
from specdec.models.together.forwards import Asking, Forward
from specdec.probs import unchecked_log_probs
from specdec.race import log_arrival_times
from specdec.topology import Topology


class DraftedThere(NamedTuple):
    """A drafted tree on the device, with all nodes of the topology.

    tokens: the root's first. supported: whether q, where the token was drafted from, had so many tokens; else
    the token means nothing. log_q: in level order. sound: what `probs.check_sound` has to see of it.
    """

    tokens: Tensor  # int64 [1 + k]
    supported: Tensor  # bool [1 + k]
    log_q: Tensor  # [inner nodes, vocabulary]
    sound: Tensor  # [inner nodes]

    @classmethod
    def root(cls, token_id: int, vocab_size: int, device: torch.device) -> DraftedThere:
        """The tree without drafted tokens."""
        there = torch.ones(1, dtype=torch.bool, device=device)  # [1]
        nothing = torch.empty(0, vocab_size, device=device)  # [0, vocabulary]
        return cls(upload([token_id], device), there, nothing, nothing[:, 0])


class DeviceDrafter(Drafter):
    """The draft model's cache, and drafting level by level without asking the device what it drafted."""

    def launch(self, text_ids: Sequence[int], plan: DeviceTree, log_e: Tensor) -> Asking[DraftedThere]:
        """As `draft`; nodes that q has no support for are drafted from too, since only the device knows them.

        log_e: the race of each depth, [depth + 1, vocabulary].
        """
        logits = yield from self._root_logits(text_ids)  # [1, vocabulary or more]
        root = DraftedThere.root(text_ids[-1], self.vocab_size, self.model.device)
        tokens, supported, log_q, sound = [root.tokens], [root.supported], [], []
        for depth, level in enumerate(plan.levels):
            if depth:
                scored = tokens[-1].index_select(0, level.places)  # [inner]
                logits = yield Forward(self.session, scored, self._numbered(plan.topology, level.inner))
            # [inner, vocabulary] and [inner], then [children] twice
            of_level, its_sound = unchecked_log_probs(logits, self.sampling, self.vocab_size)
            times, drafted = _children(of_level, log_e[depth], level)
            tokens.append(drafted)
            supported.append(times.isfinite())
            log_q.append(of_level)
            sound.append(its_sound)
        return DraftedThere(*map(torch.cat, (tokens, supported, log_q, sound)))

    def leave(self, topology: Topology, rows: Sequence[int]) -> Topology:
        """The launched tree without the rows that q had no support for; `keep` takes rows of this one."""
        return self._keep_rows(topology, rows)


def _children(log_q: Tensor, log_e: Tensor, level: Level) -> tuple[Tensor, Tensor]:
    """Log times and tokens [children] of the level's children, the first arrivals in each node's race."""
    count = min(level.most, log_q.shape[-1])
    times, tokens = log_arrival_times(log_q, log_e).topk(count, -1, largest=False)  # [inner, count] each
    beyond = (0, level.most - count)  # a node may be asked for more children than there are tokens
    times, tokens = pad(times, beyond, value=torch.inf), pad(tokens, beyond)  # [inner, most] each
    return times.flatten().index_select(0, level.slots), tokens.flatten().index_select(0, level.slots)
