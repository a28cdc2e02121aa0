"""One run's state: caches, noise and text, advanced round by round.

In a round the drafter grows a tree of continuations (`drafters`), the target scores the root and all drafted
nodes in one forward pass, verification decides (`methods`), and both caches keep the accepted path.
Autoregressive decoding is the same round with an empty tree.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch

from specdec.checks import among
from specdec.context import ContextTree
from specdec.decoding.clock import Clock
from specdec.decoding.detail import drafted_nodes, verified_steps
from specdec.devices import one_thread, upload
from specdec.drafters.base import Drafter, NoDrafter
from specdec.drafters.context import ContextDrafter
from specdec.drafters.copies import COPYING, CopyingDrafter
from specdec.drafters.independent import IndependentDrafter
from specdec.drafters.model import ModelDrafter
from specdec.drafters.proposed import drafter_of_user
from specdec.drafters.strings import STRINGS, StringDrafter
from specdec.methods import METHODS, Drafted, Verdict, Verifier, followed
from specdec.models.other_tokenizer import OtherTokenizerModel
from specdec.models.requests import Request, Requesting, answered
from specdec.probs import LazyLogProbs
from specdec.race import Races
from specdec.settings import RunSettings
from specdec.text import TextStream
from specdec.topology import Topology
from specdec.trace import Finish, Kind, Method, Round, Seconds, Token

if TYPE_CHECKING:
    from specdec.pair import ModelPair

Work = Generator[Request | Round, Any, None]
"""A run as a generator. It yields requests, to which the caller sends answers, and finished rounds."""


def verifier_of(method: Method) -> Verifier:
    """The method's verifier; ValueError for an unknown method."""
    return METHODS[among("method", method, METHODS)].verify


class Engine:
    """The models' caches, the noise and the text of one run. `round()` advances all of them.

    verifier: decides which nodes are accepted; None takes the method's own. changes: whether `plant` may
    change the tree. trees: the trees so far, each with the number of its first round.
    """

    def __init__(
        self,
        pair: ModelPair,
        settings: RunSettings,
        topology: Topology | ContextTree,
        prompt_ids: Sequence[int],
        seed: int,
        verifier: Verifier | None = None,
        changes: bool = False,
    ):
        self.verifier = verifier or verifier_of(settings.method)
        self.pair, self.settings, self.topology, self.seed = pair, settings, topology, seed
        self.text_ids = list(prompt_ids)
        self.stop_length = min(len(prompt_ids) + settings.max_new_tokens, pair.target.context_length)
        self.target = pair.target.session()
        self.trees: list[tuple[int, Topology]] = []
        self.drafter = self._new_drafter(changes)
        self.races = Races(seed, pair.vocab_size, pair.target.device)
        self.texts = TextStream(pair.tokenizer, prompt_ids)
        self.prefill_seconds = 0.0

    def _new_drafter(self, changes: bool) -> Drafter:
        beside = self._drafter_of_trees(changes)
        copies = self.settings.drafter in COPYING and METHODS[self.settings.method].drafts
        return CopyingDrafter(beside, self.topology.depth) if copies else beside

    def _drafter_of_trees(self, changes: bool) -> Drafter:
        size, sampling, topology = self.pair.vocab_size, self.settings.draft_sampling, self.topology
        if not topology.num_draft_tokens and not changes:
            return NoDrafter()
        if isinstance(topology, ContextTree):
            return ContextDrafter(self.pair.drafting, size, sampling, topology)
        if self.settings.drafter == STRINGS:
            return StringDrafter(cast(OtherTokenizerModel, self.pair.drafting), sampling, topology)
        if not isinstance(self.settings.drafter, str):
            return drafter_of_user(self.settings.drafter, size, sampling, topology)
        kind = IndependentDrafter if METHODS[self.settings.method].independent else ModelDrafter
        return kind(self.pair.drafting, size, sampling, topology)

    @property
    def _beside(self) -> Drafter:
        """The drafter of the trees, without the copied paths that may be added to them."""
        return self.drafter.beside if isinstance(self.drafter, CopyingDrafter) else self.drafter

    def plant(self, topology: Topology) -> None:
        """Set the tree of the next rounds of an engine whose tree may change."""
        self.topology = topology
        cast(ModelDrafter | CopyingDrafter, self.drafter).plant(topology)

    def rounds(self) -> Iterator[Round]:
        """Decodes this run alone. Yields its rounds until the text ends."""
        work = self.work()
        while (round := _next_round(work)) is not None:
            yield round

    def work(self, most: Callable[[], int] | None = None) -> Work:
        """The run as a generator. It yields requests, whose answers are sent to it, and each finished round.

        most: returns the largest number of tokens of the prompt's next piece; None means that the prompt is
        one piece.
        """
        yield from self._prefill(most)
        finish, number = None, 0
        while finish is None:
            round = yield from self._decode(number)
            finish, number = round.finish, number + 1
            yield round

    def _prefill(self, most: Callable[[], int] | None) -> Requesting[None]:
        """Processes the prompt without its last token, which is the root of the first round's tree."""
        clock = Clock(self.pair.target.device)
        prefix = self.text_ids[:-1]
        # A draft without room for the prompt never drafts, because a text only grows. A drafter that is set
        # later reads the whole text by itself.
        drafting = self.drafter.session if self._room(self._beside) else None
        while prefix:
            count = most() if most else len(prefix)
            piece, prefix = prefix[:count], prefix[count:]
            if drafting is not None:
                yield Request(drafting, piece, None)
            yield Request(self.target, piece, None)
        clock.launched()
        (self.prefill_seconds,) = clock.seconds()

    def _decode(self, number: int) -> Requesting[Round]:
        """One round: draft, evaluate, verify; then commit the accepted path and the last token."""
        clock = Clock(self.pair.target.device)
        if isinstance(self.topology, Topology) and [self.topology] != [tree for _, tree in self.trees[-1:]]:
            self.trees.append((number, self.topology))
        position = len(self.text_ids)
        noise = METHODS[self.settings.method].noise(self.races, position)
        drafted = yield from self.drafter.draft(self.text_ids, self._room(self.drafter), noise)
        clock.launched()
        log_p = yield from self._evaluate(drafted)  # for each row, [vocabulary]
        clock.launched()
        verdict = followed(drafted, self.verifier(drafted, log_p, noise), log_p, noise)
        verdict = self._until_eos(drafted, verdict)
        self._commit(drafted, verdict)
        clock.lap()
        finish = self._finish()
        tokens = self._tokens(drafted, verdict, finish is not None)
        detail, texts = self.settings.detail, self.pair.token_texts
        nodes = drafted_nodes(drafted, verdict, texts, log_p if detail else None)
        grown = isinstance(self.topology, ContextTree)
        steps = verified_steps(drafted, verdict, texts, log_p, noise, grown) if detail else ()
        clock.lap()  # making the record is part of the recorded time
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

    def _room(self, drafter: Drafter) -> int:
        """The depth of the deepest tree that fits into both contexts.

        A round emits up to depth + 1 tokens, and the draft scores depth - 1. If the target must read many
        accepted tokens again, there is no tree: it can only keep a state that has read no rejected token.
        """
        if self.target.must_catch_up:
            return 0
        length = len(self.text_ids)
        return max(min(self.stop_length - length - 1, drafter.context_length - length + 1), 0)

    def _evaluate(self, drafted: Drafted) -> Requesting[LazyLogProbs]:
        tokens = upload(drafted.token_ids, self.pair.target.device)  # [1 + k]
        # [1 + k, vocabulary or more]
        logits = yield Request(self.target, tokens, drafted.topology.parents)
        return LazyLogProbs(logits, self.settings.sampling, self.pair.vocab_size)

    def _until_eos(self, drafted: Drafted, verdict: Verdict) -> Verdict:
        """The verdict without everything after an accepted end-of-sequence token."""
        for i, row in enumerate(verdict.rows):
            if drafted.token_ids[row] in self.pair.eos_ids:
                return verdict._replace(rows=verdict.rows[: i + 1], token_id=None)
        return verdict

    def _commit(self, drafted: Drafted, verdict: Verdict) -> None:
        self.target.commit([0, *verdict.rows])
        self.drafter.commit(verdict.rows)
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


@torch.inference_mode()
@one_thread()
def _next_round(work: Work) -> Round | None:
    """The next round of a run whose requests are answered by themselves; None at its end."""
    return answered(work)
