"""The state of one run: its caches, random numbers and text. Each call of `round` decodes one more round.

In a round the drafter grows a tree of continuations (`drafters`), the target scores the root and all drafted
nodes in one forward pass, verification decides (`methods`), and both caches keep the accepted path.
Autoregressive decoding is the same round with an empty tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from specdec.context import ContextTree
from specdec.decoding.clock import Clock
from specdec.decoding.detail import drafted_nodes, verified_steps
from specdec.decoding.trees import Trees
from specdec.devices import READ_LATE, one_thread, upload
from specdec.drafters.base import EMPTY, Drafter, NoDrafter
from specdec.drafters.catalogue import Parts, entry_of
from specdec.drafters.stopping import Price, Stopping
from specdec.methods import METHODS, Drafted, Verdict, Verifier, followed
from specdec.methods.late import LateTokens
from specdec.models.requests import Request, Requesting, answered
from specdec.probs import LazyLogProbs
from specdec.race import PositionNoise, Races, first_of
from specdec.settings import RunSettings
from specdec.text import TextStream
from specdec.topology import Topology
from specdec.trace import Finish, Kind, Round, Seconds, Token

if TYPE_CHECKING:
    from specdec.pair import ModelPair


class _Scored(NamedTuple):
    """A round that the target has scored but that is not verified yet. clock: times the round's parts."""

    clock: Clock
    noise: PositionNoise
    drafted: Drafted
    log_p: LazyLogProbs


class Engine:
    """The models' caches, the trees, the noise and the text of one run. `round()` advances all of them.

    trees: the trees along which tokens are drafted. stopping: ends a draft model's tree early if a further
    level costs more than it is expected to give. verifier: decides which nodes are accepted; None takes the
    method's own. number: the next round's number. finish: why the text has ended; None until it has.
    """

    def __init__(
        self,
        pair: ModelPair,
        settings: RunSettings,
        trees: Trees,
        prompt_ids: Sequence[int],
        seed: int,
        verifier: Verifier | None = None,
    ):
        self.verifier = verifier or METHODS[settings.method].verify
        self.pair, self.settings, self.trees = pair, settings, trees
        self.text_ids = list(prompt_ids)
        self.stop_length = min(len(prompt_ids) + settings.max_new_tokens, pair.target.context_length)
        self.target = pair.target.session()
        self.stopping = Stopping()
        self.drafter = self._new_drafter()
        self.races = Races(seed, pair.vocab_size, pair.target.device)
        self.texts = TextStream(pair.tokenizer, prompt_ids)
        # Only under these settings can the GPU choose each token without the host.
        self._reads_late = settings.method == "ar" and not settings.detail and verifier is None
        self._reads_late &= pair.target.device.type in READ_LATE
        self._ahead: _Scored | None = None
        self.prefill_seconds, self.number = 0.0, 0
        self.finish: Finish | None = None

    def _new_drafter(self) -> Drafter:
        method, drafter = METHODS[self.settings.method], self.settings.drafter
        if not method.drafts:
            return NoDrafter()
        parts = Parts(
            drafter,
            self.pair.draft,
            self.pair.vocab_size,
            self.settings.draft_sampling,
            self.stopping,
            method.independent,
            empty=self.trees.all_empty,
            grown=isinstance(self.trees.first, ContextTree),
        )
        return entry_of(drafter).new(parts)

    def follow(self, topology: Topology, price: Price | None) -> None:
        """Sets the tree of the next rounds. price: of a further level; None drafts the whole tree."""
        self.trees.present, self.stopping.price = topology, price

    def rounds(self) -> Iterator[Round]:
        """Decodes this run alone, without a batch, and yields its rounds until the text ends."""
        while self.finish is None:
            yield _alone(self.round())

    def round(self, most: Callable[[], int] | None = None) -> Requesting[Round]:
        """The next round. The first one also processes the prompt.

        most: a function that returns the largest size of the prompt's next piece; None processes the prompt
        in one piece.
        """
        if not self.number:
            yield from self._prefill(most)
        round = yield from self._decode()
        self.finish, self.number = round.finish, self.number + 1
        return round

    def _prefill(self, most: Callable[[], int] | None) -> Requesting[None]:
        """Processes all tokens of the prompt except the last one. The last token is the root of the first
        round's tree."""
        clock = Clock(self.pair.target.device)
        prefix = self.text_ids[:-1]
        # If the prompt leaves the draft no room, it never drafts in this run, because a text only grows.
        drafting = self.drafter.prompt_session(len(self.text_ids)) if self._room() else None
        while prefix:
            count = most() if most else len(prefix)
            piece, prefix = prefix[:count], prefix[count:]
            if drafting is not None:
                yield Request(drafting, piece, None)
            yield Request(self.target, piece, None)
        clock.launched()
        (self.prefill_seconds,) = clock.seconds()

    def _decode(self) -> Requesting[Round]:
        """Decodes one round: drafts, evaluates and verifies, then adds the accepted path and the last token
        to the text."""
        position = len(self.text_ids)
        scored = self._ahead or (yield from self._scored())
        clock, noise, drafted, log_p = scored
        self._ahead = None
        if self._reads_late and position + 1 < self.stop_length:
            verdict = yield from self._read_late(scored)
        else:
            verdict = followed(drafted, self.verifier(drafted, log_p, noise), log_p, noise)
            verdict = self._until_eos(drafted, verdict)
            self._commit(verdict)
        self._add(drafted, verdict)
        clock.lap()
        finish = self._reason_to_end()
        tokens = self._tokens(drafted, verdict, finish is not None)
        detail, texts = self.settings.detail, self.pair.token_texts
        nodes = drafted_nodes(drafted, verdict, texts, log_p if detail else None)
        grown = isinstance(self.trees.present, ContextTree)
        steps = verified_steps(drafted, verdict, texts, log_p, noise, grown) if detail else ()
        clock.lap()  # making the record is part of the recorded time
        return Round(
            number=self.number,
            position=position,
            tokens=tokens,
            nodes=nodes,
            steps=steps,
            seconds=Seconds(*clock.seconds()),
            text="".join(token.text for token in tokens),
            finish=finish,
        )

    def _scored(self) -> Requesting[_Scored]:
        """Drafts a tree, and lets the target score it."""
        clock = Clock(self.pair.target.device)
        if self.trees.later and self.number in self.trees.later:
            self.trees.present, self.stopping.recorded = self.trees.later[self.number]
        self.stopping.begin()
        noise = METHODS[self.settings.method].noise(self.races, len(self.text_ids))
        drafted = yield from self.drafter.draft(self.text_ids, self.trees.present, self._room(), noise)
        self.trees.add(self.number, self.stopping.depth)
        clock.launched()
        log_p = yield from self._evaluate(drafted)  # for each row, [vocabulary]
        clock.launched()
        return _Scored(clock, noise, drafted, log_p)

    def _read_late(self, scored: _Scored) -> Requesting[Verdict]:
        """The verdict of a round of plain decoding. The next round's forward pass is launched before the host
        reads the token of this round, so that the GPU does not wait for the host."""
        log_p = scored.log_p.launched()  # [1, vocabulary]
        assert log_p is not None, "a device that is not read late"
        tokens = LateTokens([], [first_of(scored.noise.race(()).exponentials - log_p, 1)])
        clock = Clock(self.pair.target.device)
        clock.launched()
        self.target.commit([0])
        drafted = Drafted(EMPTY, tokens, [None])
        scores = yield from self._evaluate(drafted)
        clock.launched()
        token_id = tokens[0]
        clock.begin()
        noise = METHODS[self.settings.method].noise(self.races, len(self.text_ids) + 1)
        self._ahead = _Scored(clock, noise, drafted, scores)
        return Verdict((), token_id, "sampled")

    def _room(self) -> int:
        """The largest depth of a tree that fits into the rest of the text and into the target's context.

        A round emits up to depth + 1 tokens. The depth is 0 if a target with recurrent states must first read
        many accepted tokens again: it can only store its state after a round without rejected tokens.
        """
        return 0 if self.target.must_catch_up else max(self.stop_length - len(self.text_ids) - 1, 0)

    def _evaluate(self, drafted: Drafted) -> Requesting[LazyLogProbs]:
        ids = drafted.token_ids
        tokens = ids.on_device if isinstance(ids, LateTokens) else upload(ids, self.pair.target.device)
        # tokens: [1 + k], logits: [1 + k, vocabulary or more]
        logits = yield Request(self.target, tokens, drafted.topology.parents)
        return LazyLogProbs(logits, self.settings.sampling, self.pair.vocab_size)

    def _until_eos(self, drafted: Drafted, verdict: Verdict) -> Verdict:
        """Cuts a verdict after the first accepted end-of-sequence token."""
        for i, row in enumerate(verdict.rows):
            if drafted.token_ids[row] in self.pair.eos_ids:
                return verdict._replace(rows=verdict.rows[: i + 1], token_id=None)
        return verdict

    def _commit(self, verdict: Verdict) -> None:
        self.target.commit([0, *verdict.rows])
        self.drafter.commit(verdict.rows)

    def _add(self, drafted: Drafted, verdict: Verdict) -> None:
        self.text_ids += [drafted.token_ids[row] for row in verdict.rows]
        if verdict.token_id is not None:
            self.text_ids.append(verdict.token_id)

    def _reason_to_end(self) -> Finish | None:
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


@torch.inference_mode()
@one_thread()
def _alone(round: Requesting[Round]) -> Round:
    """Runs a round to its end, answering its requests one by one, and returns its result."""
    return answered(round)
