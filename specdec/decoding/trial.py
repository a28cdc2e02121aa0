"""A trial of a pair: rounds on a few trees tell how often each child is accepted, and what a round takes.

It takes many small steps, so that a server can decode for others meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import count
from operator import attrgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch

from specdec.checks import among
from specdec.decoding.costs import Steps, undisturbed
from specdec.decoding.engine import Engine, Work
from specdec.devices import one_thread
from specdec.drafters.copies import MODEL_AND_COPIES
from specdec.drafters.proposed import MODEL
from specdec.drafters.strings import STRINGS
from specdec.methods import METHODS
from specdec.models import Model
from specdec.models.requests import Request
from specdec.race import derived_seed
from specdec.settings import RunSettings
from specdec.stats import acceptance_vector, index_counts
from specdec.topology import Topology, sequence
from specdec.trace import Method, Round

if TYPE_CHECKING:
    from specdec.pair import ModelPair

_WIDE = Topology([(*(0,) * depth, index) for depth in range(3) for index in range(8)])
"""Tried out to estimate acceptance: eight alternatives at each of three positions in a row."""
_WIDE_TOKENS = 256
"""Tokens decoded on it."""
_TEXTS = (
    "Once upon a time, there was a little",
    "The weather that morning was",
    "One day, her best friend asked",
    "They went to the market to",
)
"""Default prompts. With the first user's prompt, all trees would depend on who came first."""
_PROMPT = 64
"""Most tokens of a prompt that are read, which are its last."""
_SEED = 0x7472_6961_6C73
"""Trials do not race on a user's seed: GSD's tree would depend on the noise that it decodes with."""
_RARE = 1e-4
"""Acceptance of the first child where nothing at all was accepted, so that a tree can be grown."""
_LONGEST = sequence(4)
_TIMED = {Topology([]): (32, 0.1), sequence(1): (32, 0.1), _LONGEST: (64, 0.1)}
"""Trees whose rounds are timed, and the least tokens and seconds on each of them. The first ten rounds on a
tree are slow. A small model decodes 32 tokens in few more rounds than that, so each tree also gets a least
time."""
_TURN = 32
"""Rounds on a tree in a row. The first rounds after a change of the tree are slow."""
_REMEMBERED = 16
"""Measurements and topologies that a pair keeps, each of a method and a sampling."""


def drafting_models(pair: ModelPair, settings: RunSettings) -> list[Model]:
    """The target, and the draft if it drafts. ValueError if they can't decode speculatively."""
    method, drafter = settings.method, settings.drafter
    with_model = drafter in (MODEL, MODEL_AND_COPIES)
    if pair.draft is None and with_model:
        raise ValueError(
            f"method = {method!r} needs a draft model, and this pair has none; use method 'ar' or drafter "
            "'copies'"
        )
    models = [pair.target]
    if (with_model or drafter == STRINGS) and pair.draft is not None:
        models.append(pair.draft)
    for model in models:
        if model.capability == "ar":
            raise ValueError(f"method = {method!r}: {model.name} can only decode token by token; use 'ar'")
    return models


class Measurement(NamedTuple):
    """What a trial measured. Its rounds take half a megabyte and are not kept.

    acceptance: R by child index [up to 8], as `specdec.stats.acceptance_vector`. seconds: of a round in which
    each text drafts k tokens in a row, by k. node: the seconds outside the forwards that a further node adds
    to a text's round.
    """

    acceptance: np.ndarray
    seconds: Mapping[int, float]
    node: float


def measured_as(method: Method) -> Method:
    """The method whose acceptance is measured for this method's trees.

    It is GSD for a method whose acceptance depends on the rest of the tree.
    """
    return method if METHODS[among("method", method, METHODS)].by_index else "gsd"


def measuring(
    pair: ModelPair,
    settings: RunSettings,
    prompt_ids: Sequence[int] | None = None,
    texts: int = 1,
    thorough: int = 1,
) -> Steps[Measurement]:
    """Acceptance and timings of this pair, from a trial that is decoded on first use, a round a step.

    prompt_ids: the prompt of the trial; None takes a few fixed prompts. Length and seeds are the trial's own,
    so that the choice does not depend on the user's. texts: the number of texts that are decoded together;
    the wide tree is tried only for one. thorough: the trial is this many times as long. ValueError where the
    pair can't draft.
    """
    drafting_models(pair, settings)
    settings = settings._replace(method=measured_as(settings.method), drafter=MODEL)
    prompts = fixed_prompts(pair) if prompt_ids is None else (tuple(prompt_ids),)
    key = (settings.method, settings.sampling, prompts, settings.draft_sampling, texts, thorough)
    trials = {
        tree: _Trial(pair, settings, prompts, tree, texts, thorough * tokens, thorough * seconds)
        for tree, (tokens, seconds) in _trees(pair, texts).items()
    }
    # all trees take turns, so that a busy moment of the machine falls on all of them alike
    while any(trial.pending for trial in trials.values()):
        for trial in trials.values():
            for _ in range(_TURN):
                if key in pair.measurements:  # perhaps another run has measured it meanwhile
                    return pair.measurements[key]
                if trial.pending:
                    trial.step()
                    yield
    remember(pair.measurements, key, _measured(trials))
    return pair.measurements[key]


def fixed_prompts(pair: ModelPair) -> tuple[tuple[int, ...], ...]:
    """Fixed texts, as messages to a chat model; fixed tokens where there is no tokenizer."""
    if pair.tokenizer is None:
        seeds = (derived_seed(_SEED, number) for number in range(len(_TEXTS)))
        return tuple((seed % pair.vocab_size,) for seed in seeds)
    try:
        return tuple(tuple(pair.chat_prompt(text)) for text in _TEXTS)
    except ValueError:  # no template, or a broken one
        return tuple(tuple(pair.encode(text)) for text in _TEXTS)


def _measured(trials: Mapping[Topology, _Trial]) -> Measurement:
    widest = max(trials, key=attrgetter("num_draft_tokens"))
    counts = index_counts(trials[widest].rounds, widest)
    acceptance = acceptance_vector(counts.accepted, counts.reached)
    if not acceptance.any():
        acceptance = np.array([_RARE])
    one, most = trials[sequence(1)], trials[widest]
    nodes = most.nodes - one.nodes
    node = max(most.rest - one.rest, 0.0) / nodes if nodes > 0 else 0.0
    return Measurement(acceptance, {tree.num_draft_tokens: trials[tree].seconds for tree in _TIMED}, node)


def remember(entries: dict[Any, Any], key: Any, value: Any) -> None:
    """Adds an entry and removes the oldest ones, because visitors may choose any number of temperatures."""
    entries[key] = value
    for oldest in list(entries)[:-_REMEMBERED]:
        entries.pop(oldest, None)  # another visitor's run may have done so in between


class _Trial:
    """Decodes texts after each prompt in turn on one tree, several at once.

    texts: decoded together. tokens, seconds: to decode, at least. rounds: of all texts so far.
    """

    def __init__(
        self,
        pair: ModelPair,
        settings: RunSettings,
        prompts: Sequence[Sequence[int]],
        topology: Topology,
        texts: int,
        tokens: int,
        seconds: float,
    ):
        settings = settings._replace(max_new_tokens=_WIDE_TOKENS // len(prompts), detail=False)
        # short enough that every tree fits behind it in both contexts
        room = min(pair.target.context_length, pair.drafting.context_length) - _LONGEST.depth - 2
        cut = [prompt[-max(1, min(_PROMPT, room)) :] for prompt in prompts]
        self._to_come = (
            Engine(pair, settings, topology, cut[number % len(cut)], derived_seed(_SEED, number))
            for number in count()
        )
        self._topology, self._texts, self._missing_tokens = topology, texts, tokens
        self._works: dict[Work, Engine] = {}
        self._requests: dict[Work, Request] = {}
        self._missing_seconds = seconds
        self.rounds: list[Round] = []
        self._seconds: dict[bool, list[float]] = {True: [], False: []}

    @property
    def pending(self) -> bool:
        """Whether tokens or seconds are missing."""
        return self._missing_tokens > 0 or self._missing_seconds > 0

    def step(self) -> None:
        """Gives each text a round, or its prompt to both models."""
        while len(self._works) < self._texts:
            engine = next(self._to_come)
            self._works[engine.work()] = engine
        start = time.perf_counter()
        rounds = self._advance()
        seconds = time.perf_counter() - start
        self._missing_seconds -= seconds
        if rounds:
            drafted = [len(round.nodes) for round in rounds]
            whole = drafted == [self._topology.num_draft_tokens] * self._texts
            self._seconds[whole].append(seconds)
        self.rounds += rounds
        self._missing_tokens -= sum(len(round.tokens) for round in rounds)

    @torch.inference_mode()
    @one_thread()
    def _advance(self) -> list[Round]:
        """The rounds of a step: drafts grow level by level, and one forward of the target scores them."""
        requests = self._requests
        for work in self._works:
            if work not in requests:
                requests[work] = cast(Request, next(work))
        while drafting := [
            work for work, engine in self._works.items() if requests[work].session is not engine.target
        ]:
            requests |= cast(dict[Work, Request], self._answered(drafting))
        reached = self._answered(list(self._works))
        rounds = {work: each for work, each in reached.items() if isinstance(each, Round)}
        self._requests = {work: each for work, each in reached.items() if isinstance(each, Request)}
        for work in [work for work, round in rounds.items() if round.finish is not None]:
            del self._works[work]
        return list(rounds.values())

    def _answered(self, works: Sequence[Work]) -> dict[Work, Request | Round]:
        """What each text reaches with the answer to its request."""
        from specdec.models.batching import answers  # late, because it waits for transformers

        reached = {}
        for work, answer in zip(works, answers([self._requests[work] for work in works]), strict=True):
            if isinstance(answer, Exception):
                raise answer
            reached[work] = work.send(answer)
        return reached

    @property
    def seconds(self) -> float:
        """Seconds of a round of all texts together, undisturbed.

        Rounds beside a prompt or with a smaller tree count only where there are no others.
        """
        return undisturbed(self._seconds[True] or self._seconds[False])

    @property
    def rest(self) -> float:
        """Seconds of a text's round outside drafting and the target's forward, undisturbed."""
        return undisturbed([round.seconds.verify + round.seconds.rest for round in self.rounds])

    @property
    def nodes(self) -> float:
        """Drafted tokens of a round, on average: at most those of the tree."""
        return fmean(len(round.nodes) for round in self.rounds)


def _trees(pair: ModelPair, texts: int) -> dict[Topology, tuple[int, float]]:
    """The trees of a trial, and the least tokens and seconds on each.

    The tree on which acceptance is counted has no least seconds, so that acceptance depends on no times.
    """
    if texts > 1:
        return _TIMED
    only_sequences = "sequence" in (pair.target.capability, pair.drafting.capability)
    return _TIMED | {_LONGEST if only_sequences else _WIDE: (_WIDE_TOKENS, 0.0)}
