"""Measures a pair's acceptance by child index, on texts that are decoded only for this measurement."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from specdec.checks import among
from specdec.decoding.engine import Engine
from specdec.decoding.trees import Trees
from specdec.drafters.catalogue import MODEL, entry_of
from specdec.methods import METHODS
from specdec.models import Model
from specdec.race import derived_seed
from specdec.settings import RunSettings
from specdec.stats import acceptance_vector, index_counts
from specdec.topology import Topology, sequence
from specdec.trace import Method, Round

if TYPE_CHECKING:
    from specdec.pair import ModelPair

_T = TypeVar("_T")
Steps = Generator[Any, None, _T]
"""A generator that yields after each small step of its work, so that its caller can do other work between
steps. At its end it returns its result."""
LONGEST = sequence(4)
"""The draft tree used for the measurement if one of the two models can only score sequences."""
WIDE = Topology([(*(0,) * depth, index) for depth in range(3) for index in range(8)])
"""The draft tree used if both models can score trees: eight alternatives at each of three positions."""
_TOKENS = 256
"""The number of tokens that are decoded for a measurement."""
_TEXTS = (
    "Once upon a time, there was a little",
    "The weather that morning was",
    "One day, her best friend asked",
    "They went to the market to",
)
"""The prompts of the measurement, unless the caller gives others. They are fixed, because otherwise the first
user's prompt would influence the trees of all users."""
_PROMPT = 64
"""Only the last tokens of a prompt are read, at most this many."""
_SEED = 0x7472_6961_6C73
"""The seed of the measurement's texts. No user is likely to give this seed. With a user's seed, the tree
would depend on the random numbers that GSD uses to decode the user's text."""
_RARE = 1e-4
"""The acceptance assumed for the first child if the measurement accepted no token. Trees can only be grown
from a value above 0."""
_REMEMBERED = 16
"""The largest number of measurements that are stored for a pair. Each belongs to one combination of method,
sampling and prompts."""


def finished(steps: Generator[object, None, _T]) -> _T:
    """Run a generator to its end, and return the value that it returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def drafting_models(pair: ModelPair, settings: RunSettings) -> list[Model]:
    """The models that take part in drafting: the target, and the draft model unless the drafter replaces it.
    ValueError if the draft model is missing, or if a model can only decode token by token."""
    method, uses_model = settings.method, entry_of(settings.drafter).uses_model
    if pair.draft is None and uses_model:
        raise ValueError(
            f"method = {method!r} needs a draft model, and this pair has none; use method 'ar' or drafter "
            "'copies'"
        )
    models = [pair.target]
    if uses_model and pair.draft is not None:
        models.append(pair.draft)
    for model in models:
        if model.capability == "ar":
            copies = " or drafter 'copies'" if model is pair.draft else ""
            raise ValueError(
                f"method = {method!r}: {model.name} can only decode token by token; use method 'ar'{copies}"
            )
    return models


def measured_as(method: Method) -> Method:
    """The method whose acceptance is measured for the given method: GSD if a child's acceptance under the
    given method depends on the rest of the tree, otherwise the given method itself. ValueError for an unknown
    name."""
    return method if METHODS[among("method", method, METHODS)].by_index else "gsd"


def only_sequences(pair: ModelPair) -> bool:
    """Whether the pair can draft sequences only, because one of its models can't score trees."""
    return "sequence" in (pair.target.capability, pair.drafting.capability)


def measuring(
    pair: ModelPair, settings: RunSettings, prompt_ids: Sequence[int] | None = None, thorough: int = 1
) -> Steps[np.ndarray]:
    """Decodes texts, measures the acceptance by child index [up to 8] on them, and stores it in the pair.

    prompt_ids: the prompt of the texts; None takes a few fixed prompts. thorough: a factor for the number of
    decoded tokens, which is `_TOKENS` by default. ValueError if the pair can't draft.
    """
    drafting_models(pair, settings)
    settings = settings._replace(method=measured_as(settings.method), drafter=MODEL)
    prompts = fixed_prompts(pair) if prompt_ids is None else (tuple(prompt_ids),)
    key = (settings.method, settings.sampling, prompts, settings.draft_sampling, thorough)
    tree, rounds = LONGEST if only_sequences(pair) else WIDE, list[Round]()
    number, missing = 0, thorough * _TOKENS
    while missing > 0:
        for round in trial(pair, settings, tree, prompts, number).rounds():
            if key in pair.measurements:  # another run may have stored this measurement meanwhile
                return pair.measurements[key]
            rounds.append(round)
            missing -= len(round.tokens)
            if missing <= 0:
                break
            yield
        number += 1
    counts = index_counts(rounds, tree)
    acceptance = acceptance_vector(counts.accepted, counts.reached)
    remember(pair.measurements, key, acceptance if acceptance.any() else np.array([_RARE]))
    return pair.measurements[key]


def trial(
    pair: ModelPair, settings: RunSettings, tree: Topology, prompts: Sequence[Sequence[int]], number: int
) -> Engine:
    """An engine that decodes text `number` of a measurement on this tree, with a seed of its own."""
    settings = settings._replace(max_new_tokens=_TOKENS // len(prompts), detail=False)
    # The prompt leaves room for the deepest tree in both contexts.
    room = min(pair.target.context_length, pair.drafting.context_length) - LONGEST.depth - 2
    prompt = prompts[number % len(prompts)][-max(1, min(_PROMPT, room)) :]
    return Engine(pair, settings, Trees(tree), prompt, derived_seed(_SEED, number))


def fixed_prompts(pair: ModelPair) -> tuple[tuple[int, ...], ...]:
    """Token ids of the fixed prompts. For a chat model each prompt is formatted as a chat message. Without a
    tokenizer each prompt is one fixed token."""
    if pair.tokenizer is None:
        seeds = (derived_seed(_SEED, number) for number in range(len(_TEXTS)))
        return tuple((seed % pair.vocab_size,) for seed in seeds)
    try:
        return tuple(tuple(pair.chat_prompt(text)) for text in _TEXTS)
    except ValueError:  # the template is missing or broken
        return tuple(tuple(pair.encode(text)) for text in _TEXTS)


def remember(entries: dict[Any, Any], key: Any, value: Any) -> None:
    """Stores an entry, and drops all but the newest `_REMEMBERED` entries, because visitors may choose any
    number of temperatures."""
    entries[key] = value
    for oldest in list(entries)[:-_REMEMBERED]:
        entries.pop(oldest, None)  # another visitor's run may have removed this entry meanwhile
