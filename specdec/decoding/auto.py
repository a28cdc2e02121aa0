"""Topology "auto": measure this pair on this machine, and take the tree with the most tokens per second.

Two measurements, made once per pair, method and sampling: what a forward over n tokens costs each model,
and how often the child with each index is accepted. Expected tokens over expected seconds then chooses
among optimal trees and sequences of several sizes, plain decoding (the empty tree) included.

Both take many small steps, and `measuring` and `choosing` stop between them, so that a server can let others
decode meanwhile. What is accepted is a function of pair, method and sampling; what a forward costs is not.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from specdec.checks import among
from specdec.decoding.costs import RoundCost, Steps, forward_costs, undisturbed
from specdec.decoding.engine import Engine, RunSettings
from specdec.methods import METHODS
from specdec.models import Model
from specdec.optimal import optimal_topology
from specdec.race import derived_seed
from specdec.stats import acceptance_vector, index_counts
from specdec.theory import expected_tokens
from specdec.topology import Topology, sequence
from specdec.trace import Method, Round

if TYPE_CHECKING:
    from specdec.pair import ModelPair

_WIDE = Topology([(*(0,) * depth, index) for depth in range(3) for index in range(8)])
"""Tried out to estimate acceptance: eight alternatives at each of three positions in a row."""
_TRIAL_TOKENS = 256
"""Tokens decoded to estimate acceptance, an equal share after each prompt."""
_TRIAL_TEXTS = (
    "Once upon a time, there was a little",
    "The weather that morning was",
    "One day, her best friend asked",
    "They went to the market to",
)
"""What trials begin with where nothing else is asked for: not the first user's prompt, or the tree that
everybody gets would depend on who came first."""
_TRIAL_PROMPT = 64
"""Most tokens of the prompt that a trial starts from."""
_TRIAL_SEED = 0x7472_6961_6C73
"""Trials must not race on a user's seed: GSD's tree would depend on the noise that it decodes with."""
_RARE = 1e-4
"""Acceptance of the first child where nothing at all was accepted, so that a tree can be grown."""
_MOST_ROWS = 96
"""Rows of the largest forward of many runs that is measured."""
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_REMEMBERED = 16
"""Methods with their sampling whose measurements and topologies a pair keeps."""

_T = TypeVar("_T")


def finished(steps: Generator[object, None, _T]) -> _T:
    """Take all the steps; returns what they find."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def drafting_models(pair: ModelPair, settings: RunSettings) -> list[Model]:
    """The target, and the draft where it is what drafts; ValueError where they can't decode speculatively."""
    method, drafter = settings.method, settings.drafter
    if pair.draft is None and drafter is None:
        raise ValueError(f"method = {method!r} needs a draft model, and this pair has none; use method 'ar'")
    models = [pair.target]
    if drafter is None and pair.draft is not None:
        models.append(pair.draft)
    for model in models:
        if model.capability == "ar":
            raise ValueError(f"method = {method!r}: {model.name} can only decode token by token; use 'ar'")
    return models


def choosing(pair: ModelPair, settings: RunSettings, at_once: int = 1) -> Steps[Topology]:
    """The topology with the most expected tokens per second, chosen on first use.

    at_once: runs that are decoded together (`batch`). The more there are, the less is a row free, and the
    smaller is the tree; a power of two is measured for all numbers up to it.

    It depends on how long forwards took: the same seed gives the same text again under ERSD, and under GSD
    where the tree is the same, which `Generation.paths` tells.
    """
    at_once = 1 << (at_once - 1).bit_length()
    key = (settings.method, settings.sampling, settings.draft_sampling, at_once)
    found = pair.measured_topologies.get(key)
    if found is None:
        trial = yield from measuring(pair, settings)
        found = yield from _fastest(pair, trial, at_once)
        _remember(pair.measured_topologies, key, found)
    return found


@dataclass(frozen=True)
class Measurement:
    """What a trial of some hundred rounds on a wide tree told; the rounds are not kept, half a megabyte.

    acceptance: R by child index [up to 8], as `specdec.stats.acceptance_vector`. draft: seconds that drafting
    took in a round. rest: seconds of a round beside its forwards and its drafting.
    """

    acceptance: np.ndarray
    draft: float
    rest: float


def measured_as(method: Method) -> Method:
    """Whose acceptance by index its trees are grown from: GSD's where its own is another on each tree."""
    return method if METHODS[among("method", method, METHODS)].by_index else "gsd"


def measuring(
    pair: ModelPair, settings: RunSettings, prompt_ids: Sequence[int] | None = None
) -> Steps[Measurement]:
    """Acceptance and timings of this pair, from a trial that is decoded on first use, a round a step.

    prompt_ids: what the trial's texts go on from; None takes a few fixed prompts.

    Length and seeds are the trial's own: what is chosen by it must not depend on the user's. ValueError where
    the pair can't draft.
    """
    drafting_models(pair, settings)
    settings = settings._replace(method=measured_as(settings.method))
    prompts = _fixed_prompts(pair) if prompt_ids is None else (tuple(prompt_ids),)
    key = (settings.method, settings.sampling, prompts, settings.draft_sampling)
    decoding, rounds, tokens = _trial_rounds(pair, settings, prompts), [], 0
    while (found := pair.measurements.get(key)) is None:  # nor has somebody else measured it meanwhile
        rounds.append(round := next(decoding))
        tokens += len(round.tokens)
        if tokens >= _TRIAL_TOKENS:
            _remember(pair.measurements, key, _told(rounds, _trial_topology(pair)))
        yield
    return found


def _fixed_prompts(pair: ModelPair) -> tuple[tuple[int, ...], ...]:
    """The same for everybody: texts, which a chat model is asked for; tokens where there is no tokenizer."""
    if pair.tokenizer is None:
        seeds = (derived_seed(_TRIAL_SEED, number) for number in range(len(_TRIAL_TEXTS)))
        return tuple((seed % pair.vocab_size,) for seed in seeds)
    return tuple(tuple(_begun(pair, text)) for text in _TRIAL_TEXTS)


def _begun(pair: ModelPair, text: str) -> list[int]:
    try:
        return pair.chat_prompt(text)
    except ValueError:  # no template, or a broken one
        return pair.encode(text)


def _told(rounds: Sequence[Round], topology: Topology) -> Measurement:
    counts = index_counts(rounds, topology)
    acceptance = acceptance_vector(counts.accepted, counts.reached)
    if not acceptance.any():
        acceptance = np.array([_RARE])
    return Measurement(
        acceptance=acceptance,
        draft=undisturbed([round.seconds.draft for round in rounds]),
        rest=undisturbed([round.seconds.verify + round.seconds.rest for round in rounds]),
    )


def _remember(found: dict[Any, Any], key: Any, value: Any) -> None:
    """Keep it, and forget the oldest: a server is asked for more temperatures than it has memory for."""
    found[key] = value
    for oldest in list(found)[:-_REMEMBERED]:
        found.pop(oldest, None)  # another visitor's run may have done so in between


def _trial_rounds(
    pair: ModelPair, settings: RunSettings, prompts: Sequence[Sequence[int]]
) -> Iterator[Round]:
    """Rounds on the trial's tree, without end: texts after each prompt in turn."""
    settings = settings._replace(max_new_tokens=_TRIAL_TOKENS // len(prompts), detail=False)
    topology = _trial_topology(pair)
    # short enough that the trial tree fits behind it in both contexts
    room = min(pair.target.context_length, pair.drafting.context_length) - _WIDE.depth - 2
    for number, prompt in enumerate(cycle(prompts)):
        prompt_ids = prompt[: max(1, min(_TRIAL_PROMPT, room))]
        engine = Engine(pair, settings, topology, prompt_ids, derived_seed(_TRIAL_SEED, number))
        yield from engine.rounds()


def _fastest(pair: ModelPair, trial: Measurement, at_once: int) -> Steps[Topology]:
    acceptance, most = trial.acceptance, _most_tokens(pair)
    models = (pair.target, pair.drafting)
    alone = yield from forward_costs(models, most)
    costs = RoundCost.of(trial.draft, trial.rest, alone, _trial_topology(pair))
    if at_once > 1:
        most = max(2, min(most, _MOST_ROWS // at_once))
        costs = costs.together((yield from forward_costs(models, most, at_once)), at_once)
    candidates = [Topology([])]
    for k in _SIZES:
        if 1 + k <= most:
            candidates += [optimal_topology(acceptance, k), sequence(k)]
    allowed = [tree for tree in candidates if tree.is_sequence or not _only_sequences(pair)]
    return max(allowed, key=lambda tree: expected_tokens(acceptance, tree) / costs.seconds(tree))


def _trial_topology(pair: ModelPair) -> Topology:
    return sequence(_WIDE.depth) if _only_sequences(pair) else _WIDE


def _only_sequences(pair: ModelPair) -> bool:
    return "sequence" in (pair.target.capability, pair.drafting.capability)


def _most_tokens(pair: ModelPair) -> int:
    """Tokens of the largest forward worth measuring; it must fit into both contexts."""
    return min(1 + max(_SIZES), pair.target.context_length, pair.drafting.context_length)
