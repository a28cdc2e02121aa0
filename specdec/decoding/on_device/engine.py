"""One run's state where a device decides: a round is launched as a whole and read in one transfer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from specdec.context import ContextTree
from specdec.decoding.clock import Clock
from specdec.decoding.engine import Decided, Engine, RunSettings, Uniforms
from specdec.decoding.on_device.draft import DeviceDrafter, DraftedThere
from specdec.decoding.on_device.plan import DeviceTree
from specdec.decoding.on_device.verify import Outcomes, outcomes_ersd, outcomes_gsd, walk_gsd
from specdec.devices import upload
from specdec.methods import Drafted, Verdict, walk_ersd
from specdec.models.together.forwards import Asking, Forward
from specdec.probs import check_sound, unchecked_log_probs
from specdec.topology import Topology
from specdec.trace import Method

if TYPE_CHECKING:
    from specdec.pair import ModelPair


ON_DEVICE = ("ar", "gsd", "ersd")
"""Methods that a device decides; the others are decided by the host, wherever the models are."""


def engine_for(pair: ModelPair, topology: Topology | ContextTree, method: Method) -> type[Engine]:
    """The engine that decides where the models are.

    The host does on a CPU, for models on several devices, where the tree's shape is read off the draft, and
    for methods that are not in `ON_DEVICE`.
    """
    if isinstance(topology, ContextTree) or method not in ON_DEVICE:
        return Engine
    models = [pair.target, pair.drafting] if topology.num_draft_tokens else [pair.target]
    # as tensors have it, with its number
    devices = {torch.empty(0, device=model.device).device for model in models}
    return Engine if len(devices) > 1 or devices.pop().type == "cpu" else DeviceEngine


class Launched(NamedTuple):
    """A round that was launched and is not read yet.

    packed: what the host must know, the columns of `Table`. The rest stays on the device; the record's
    details are made of it.
    """

    plan: DeviceTree
    packed: Tensor  # float64 [1 + k, 7]
    log_p: Tensor  # [1 + k, vocabulary]
    log_q: Tensor  # [inner nodes, vocabulary]
    log_e: Tensor  # [depth + 1, vocabulary]


class Table(NamedTuple):
    """What the host reads of a round: a column a field, an entry for each row of the topology.

    winners, p, q: as in `Outcomes`. p_sound, q_sound: what `probs.check_sound` has to see of each row.
    """

    token_ids: list[int]
    supported: list[bool]
    winners: list[int]
    p_sound: list[float]
    q_sound: list[float]
    p: list[float]
    q: list[float]

    @classmethod
    def read(cls, packed: Tensor) -> Table:
        """The round's one transfer from the device."""
        columns: list[list[Any]] = [*map(list, zip(*packed.cpu().tolist(), strict=True))]
        token_ids, supported, winners, *rest = columns
        return cls([*map(int, token_ids)], [*map(bool, supported)], [*map(int, winners)], *rest)

    def of(self, rows: Sequence[int]) -> Table:
        """These rows alone."""
        columns: list[list[Any]] = [[column[row] for row in rows] for column in self]
        return Table(*columns)


class DeviceEngine(Engine):
    """The models' caches, the noise and the text of one run on a device that is read once a round."""

    topology: Topology
    drafter: DeviceDrafter | None

    def __init__(
        self, pair: ModelPair, settings: RunSettings, topology: Topology, prompt_ids: Sequence[int], seed: int
    ):
        super().__init__(pair, settings, topology, prompt_ids, seed)
        self._plan = lru_cache(maxsize=None)(lambda limited: DeviceTree(limited, pair.target.device))

    def launch(self, position: int, clock: Clock) -> Asking[Launched]:
        """Draft, evaluate and verify all nodes; nothing is read from the device, and nobody waits for it."""
        plan = self._plan(self.limited(self._room()))
        log_e = self.races.log_exponentials(position, plan.topology.depth + 1)
        drafted = yield from self._launch_draft(plan, log_e)
        clock.launched()
        # [1 + k, vocabulary or more]
        logits = yield Forward(self.target, self._target_tokens(drafted), plan.topology.parents)
        clock.launched()
        # [1 + k, vocabulary] and [1 + k]
        log_p, sound = unchecked_log_probs(logits, self.settings.sampling, self.pair.vocab_size)
        outcomes = self._outcomes(plan, drafted, log_p, log_e, position)
        return Launched(plan, _packed(plan, drafted, sound, outcomes), log_p, drafted.log_q, log_e)

    def _new_drafter(self) -> DeviceDrafter | None:
        if not self.topology.num_draft_tokens:
            return None
        return DeviceDrafter(self.pair.drafting, self.pair.vocab_size, self.settings.draft_sampling)

    def _decide(self, position: int, clock: Clock) -> Asking[Decided]:
        return self._read((yield from self.launch(position, clock)), position)

    def _launch_draft(self, plan: DeviceTree, log_e: Tensor) -> Asking[DraftedThere]:
        if self.drafter is not None and plan.levels:
            return (yield from self.drafter.launch(self.text_ids, plan, log_e))
        return DraftedThere.root(self.text_ids[-1], self.pair.vocab_size, plan.device)

    def _target_tokens(self, drafted: DraftedThere) -> Tensor:
        if self.pair.target.capability == "ar":
            return torch.tensor(self.text_ids[-1:])  # such a session keeps its text on the host
        return drafted.tokens

    def _outcomes(
        self, plan: DeviceTree, drafted: DraftedThere, log_p: Tensor, log_e: Tensor, position: int
    ) -> Outcomes:
        if self.settings.method == "gsd":
            uniforms = Uniforms(self.seed, position)
            last = [uniforms.last(depth) for depth in range(plan.topology.depth + 1)]
            return outcomes_gsd(plan, drafted, log_p, upload(last, plan.device, torch.float64))
        return outcomes_ersd(plan, log_p, log_e)

    def _read(self, launched: Launched, position: int) -> Decided:
        """What was drafted and decided; ValueError where logits that it rests on were broken."""
        plan, packed, log_e = launched.plan, launched.packed, launched.log_e
        table = Table.read(packed)
        rows = plan.there(table.supported)
        table = table.of(rows)
        topology = plan.topology
        if self.drafter is not None and plan.levels:
            topology = self.drafter.leave(topology, rows)
        verdict = self._walk(topology, table, position)
        detail = self.settings.detail
        looked_at = {0, *verdict.rows, *(topology.parents[1:] if detail else ())}
        check_sound([*table.q_sound, *(table.p_sound[row] for row in looked_at)])
        p_rows, q_rows = _on_host(launched, rows) if detail else ([], [None] * len(rows))
        return Decided(Drafted(topology, table.token_ids, q_rows), verdict, p_rows, log_e, rows)

    def _walk(self, topology: Topology, table: Table, position: int) -> Verdict:
        if self.settings.method == "gsd":
            uniforms = Uniforms(self.seed, position)
            return walk_gsd(topology, table.winners, table.p, table.q, uniforms.test)
        verdict = walk_ersd(topology, table.token_ids, table.winners.__getitem__)
        return verdict if self.settings.method == "ersd" else verdict._replace(kind="sampled")


def _packed(plan: DeviceTree, drafted: DraftedThere, p_sound: Tensor, outcomes: Outcomes) -> Tensor:
    """The columns of `Table`, float64 [1 + k, 7]: one tensor is one transfer, exact for tokens.

    p_sound: what `check_sound` has to see of the target's probabilities.
    """
    winners, p, q = outcomes  # [1 + k] each
    q_sound = torch.zeros_like(q).index_copy_(0, plan.inner, drafted.sound.double())  # [1 + k]
    columns = drafted.tokens, drafted.supported, winners, p_sound, q_sound, p, q
    return torch.stack([column.double() for column in columns], 1)


def _on_host(launched: Launched, rows: Sequence[int]) -> tuple[list[Tensor], list[Tensor | None]]:
    """log p and log q of these rows of the topology, of which leaves have no log q; one transfer each."""
    log_p, log_q = launched.log_p.cpu(), launched.log_q.cpu()  # [1 + k or inner nodes, vocabulary]
    q_rows = dict(zip(launched.plan.inner_rows, log_q, strict=True))
    return [log_p[row] for row in rows], [q_rows.get(row) for row in rows]
