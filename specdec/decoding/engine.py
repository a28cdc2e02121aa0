"""One run's state: caches, noise and text, advanced round by round.

A round: the drafter grows a tree of continuations (`drafters`), the target scores the root and all drafted
nodes in one forward, verification decides (`methods`), and both caches keep the accepted path. Autoregressive
decoding is the same round with an empty tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from specdec.checks import among
from specdec.context import ContextTree
from specdec.decoding.clock import Clock
from specdec.decoding.detail import drafted_nodes, verified_steps
from specdec.devices import one_thread
from specdec.drafters.base import Drafter, NoDrafter
from specdec.drafters.context import ContextDrafter
from specdec.drafters.independent import IndependentDrafter
from specdec.drafters.model import ModelDrafter
from specdec.drafters.proposed import Estimator, Proposer, drafter_of_user
from specdec.methods import METHODS, Drafted, Verdict, Verifier
from specdec.models.together.forwards import Asking, Forward, alone
from specdec.probs import LazyLogProbs, Sampling
from specdec.race import PositionNoise, Races, RoundNoise
from specdec.text import TextStream
from specdec.topology import Topology
from specdec.trace import Finish, Kind, Method, Round, Seconds, Token

if TYPE_CHECKING:
    from specdec.pair import ModelPair


class RunSettings(NamedTuple):
    """What a run was asked for, the models and the topology aside."""

    method: Method
    max_new_tokens: int
    sampling: Sampling
    seed: int | None
    detail: bool
    draft_temperature: float | None = None
    drafter: Proposer | Estimator | None = None

    @property
    def draft_sampling(self) -> Sampling:
        """The draft's; the target's where it has no temperature of its own."""
        if self.draft_temperature is None:
            return self.sampling
        return replace(self.sampling, temperature=self.draft_temperature)


class Decided(NamedTuple):
    """What a round drafted and verified.

    log_p: by row of the drafted tree, [vocabulary].
    """

    drafted: Drafted
    verdict: Verdict
    log_p: Sequence[Tensor]
    noise: PositionNoise


def verifier_of(method: Method) -> Verifier:
    """The method's verifier; ValueError where there is no such method."""
    return METHODS[among("method", method, METHODS)].verify


class Engine:
    """The models' caches, the noise and the text of one run; `round()` advances all of them.

    verifier: decides which nodes are accepted; the method's own where it is None.
    """

    def __init__(
        self,
        pair: ModelPair,
        settings: RunSettings,
        topology: Topology | ContextTree,
        prompt_ids: Sequence[int],
        seed: int,
        verifier: Verifier | None = None,
    ):
        self.verifier = verifier or verifier_of(settings.method)
        self.pair, self.settings, self.topology, self.seed = pair, settings, topology, seed
        self.text_ids = list(prompt_ids)
        self.stop_length = min(len(prompt_ids) + settings.max_new_tokens, pair.target.context_length)
        self.target = pair.target.session()
        self.drafter = self._new_drafter()
        self.races = Races(seed, pair.vocab_size, pair.target.device)
        self.texts = TextStream(pair.tokenizer, prompt_ids)
        self.prefill_seconds = 0.0
        if isinstance(topology, Topology):
            # cutting a topology costs more than a round's other bookkeeping, and few depths occur
            self.limited = lru_cache(maxsize=None)(topology.limited)

    def _new_drafter(self) -> Drafter | ProposedDrafter | None:
        size, sampling = self.pair.vocab_size, self.settings.draft_sampling
        if self.settings.drafter is not None and self.topology.num_draft_tokens:
            return ProposedDrafter(self.settings.drafter, size, sampling)
        if isinstance(self.topology, ContextTree):
            return ContextDrafter(self.pair.drafting, size, sampling, self.topology)
        if not self.topology.num_draft_tokens:
            return None
        if METHODS[self.settings.method].drafting == "draws":
            return IndependentDrafter(self.pair.drafting, size, sampling, self.seed)
        return Drafter(self.pair.drafting, size, sampling)

    def rounds(self) -> Iterator[Round]:
        """The prefill, and round by round to the end of the text."""
        self.prefill()
        finish, number = None, 0
        while finish is None:
            round = self.round(number)
            finish, number = round.finish, number + 1
            yield round

    def prefill(self) -> None:
        """The prompt without its last token, which is the root of the first round."""
        alone(self.prefilling())

    @torch.inference_mode()
    @one_thread()
    def round(self, number: int) -> Round:
        """Draft, evaluate, verify; commit the accepted path and the last token."""
        return alone(self.decoding(number))

    def prefilling(self, most: Callable[[], int] | None = None) -> Asking[None]:
        """`prefill`, its forwards asked for, the draft's first. most: tells how many tokens the next piece
        has at most."""
        clock = Clock(self.pair.target.device)
        prefix = self.text_ids[:-1]
        while prefix:
            count = most() if most else len(prefix)
            piece, prefix = prefix[:count], prefix[count:]
            if self.drafter is not None and self.drafter.session is not None:
                yield Forward(self.drafter.session, piece, None)
            yield Forward(self.target, piece, None)
        clock.launched()
        (self.prefill_seconds,) = clock.seconds()

    def decoding(self, number: int) -> Asking[Round]:
        """`round`, its forwards asked for: the draft's level by level, then one of the target's."""
        clock = Clock(self.pair.target.device)
        position = len(self.text_ids)
        drafted, verdict, log_p, log_e = yield from self._decide(position, clock)
        verdict = self._until_eos(drafted, verdict)
        self._commit(drafted, verdict)
        clock.lap()
        finish = self._finish()
        tokens = self._tokens(drafted, verdict, finish is not None)
        detail, texts = self.settings.detail, self.pair.token_texts
        nodes = drafted_nodes(drafted, verdict, texts, log_p if detail else None)
        grown = isinstance(self.topology, ContextTree)
        steps = verified_steps(drafted, verdict, texts, log_p, log_e, position, grown) if detail else ()
        clock.lap()  # the record's own making is part of the time that it states
        return Round(
            number=number,
            position=position,
            tokens=tokens,
            nodes=nodes,
            steps=steps,
            seconds=Seconds(*clock.seconds()),
            text="".join(token.text for token in tokens),
            finish=finish,
        )

    def _decide(self, position: int, clock: Clock) -> Asking[Decided]:
        """Draft, evaluate and verify; the first two end a lap."""
        drafted, log_e = yield from self._draft(position)
        clock.launched()
        log_p = yield from self._evaluate(drafted)
        clock.launched()
        noise: Any = log_e  # a method whose nodes have races of their own looks at none
        verdict = self.verifier(drafted, log_p, noise, Uniforms(self.seed, position))
        return Decided(drafted, verdict, log_p, log_e)

    def _room(self) -> int:
        """Deepest tree that fits: a round emits up to depth + 1 tokens, and the draft scores depth - 1."""
        length = len(self.text_ids)
        room = self.stop_length - length - 1
        if self.drafter is not None:
            room = min(room, self.drafter.context_length - length + 1)
        return max(room, 0)

    def _draft(self, position: int) -> Asking[tuple[Drafted, Noise | NodeRaces]]:
        """The drafted tree and the races of its depths, depth + 1 of them."""
        room = self._room()
        if room and isinstance(self.topology, ContextTree):
            assert isinstance(self.drafter, ContextDrafter), "a tree that grows has a drafter that grows it"
            drafted = yield from self.drafter.grow(
                self.text_ids,
                min(room, self.topology.depth),
                race=lambda depth: self.races.log_exponentials(position, depth + 1)[depth],
                uniforms=Uniforms(self.seed, position).tests,
            )
            return drafted, self.races.log_exponentials(position, drafted.topology.depth + 1)
        topology = self.limited(room) if isinstance(self.topology, Topology) else Topology([])
        log_e = self._races(position, topology.depth + 1)
        if self.drafter is not None and topology.num_draft_tokens:
            return (yield from self.drafter.draft(self.text_ids, topology, log_e)), log_e
        return Drafted(topology, [self.text_ids[-1]], [None], [()]), log_e

    def _races(self, position: int, count: int) -> Noise | NodeRaces:
        """The races of so many depths, [count, vocabulary] or sparse ones, or those of a round's nodes."""
        if METHODS[self.settings.method].drafting == "node":
            return NodeRaces(self.seed, position, self.pair.vocab_size)
        # a record shows the exponentials of all tokens, decoding needs few of them
        races = self.races.log_exponentials if self.settings.detail else self.races.at
        return races(position, count)

    def _evaluate(self, drafted: Drafted) -> Asking[LazyLogProbs]:
        tokens = torch.tensor(drafted.token_ids, device=self.pair.target.device)  # [1 + k]
        # [1 + k, vocabulary or more]
        logits = yield Forward(self.target, tokens, drafted.topology.parents)
        return LazyLogProbs(logits, self.settings.sampling, self.pair.vocab_size)

    def _until_eos(self, drafted: Drafted, verdict: Verdict) -> Verdict:
        """The verdict cut after an accepted end-of-sequence token."""
        for i, row in enumerate(verdict.rows):
            if drafted.token_ids[row] in self.pair.eos_ids:
                return verdict._replace(rows=verdict.rows[: i + 1], token_id=None)
        return verdict

    def _commit(self, drafted: Drafted, verdict: Verdict) -> None:
        self.target.keep([0, *verdict.rows])
        if self.drafter is not None:
            self.drafter.keep(verdict.rows)
        self.text_ids += [drafted.token_ids[row] for row in verdict.rows]
        if verdict.token_id is not None:
            self.text_ids.append(verdict.token_id)

    def _finish(self) -> Finish | None:
        if self.text_ids[-1] in self.pair.eos_ids:
            return "eos"
        if len(self.text_ids) < self.stop_length:
            return None
        return "context" if self.stop_length == self.pair.target.context_length else "length"

    def _tokens(self, drafted: Drafted, verdict: Verdict, last: bool) -> tuple[Token, ...]:
        emitted: list[tuple[int, Kind]] = [(drafted.token_ids[row], "accepted") for row in verdict.rows]
        if verdict.token_id is not None:
            emitted.append((verdict.token_id, verdict.kind))
        texts = [self.texts.push(token_id) for token_id, _ in emitted]
        if last:
            texts[-1] += self.texts.flush()
        return tuple(Token(id, text, kind) for (id, kind), text in zip(emitted, texts, strict=True))
