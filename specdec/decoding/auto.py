"""Topology "auto": measure this pair on this machine, and take the tree with the most tokens per second.

Two measurements: what a forward over n tokens costs each model, and how often the child with each index is
accepted. Expected tokens over expected seconds then chooses among optimal trees of several sizes and depths
(`forest`), plain decoding (the empty tree) included. The `Choice` keeps what it was chosen among.

Both take many small steps, and `measuring` and `choosing` stop between them, so that a server can decode for
others meanwhile. Acceptance is a function of pair, method and sampling; the cost of a forward is not.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from specdec.checks import among
from specdec.decoding import forest
from specdec.decoding.costs import (
    ForwardCost,
    JointCost,
    Overhead,
    RoundCost,
    Steps,
    forward_costs,
    undisturbed,
)
from specdec.decoding.engine import Engine, RunSettings
from specdec.decoding.forest import Node, queue, rounds, tree
from specdec.methods import METHODS
from specdec.models import Model
from specdec.race import derived_seed
from specdec.stats import acceptance_vector, index_counts
from specdec.theory import node_acceptance
from specdec.topology import Topology, sequence
from specdec.trace import Candidate, Method, Milliseconds, Round, Seconds

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
"""Default prompts of trials. With the first user's prompt, all trees would depend on who came first."""
_TRIAL_PROMPT = 64
"""Most tokens of a trial's prompt."""
_TRIAL_SEED = 0x7472_6961_6C73
"""Trials do not race on a user's seed: GSD's tree would depend on the noise that it decodes with."""
_RARE = 1e-4
"""Acceptance of the first child where nothing at all was accepted, so that a tree can be grown."""
_MOST_ROWS = 96
"""Rows of the largest forward of many runs that is measured."""
SIZES = (*range(9), 10, 12, 16, 20, 24, 32)
"""Numbers of drafted tokens of the candidates."""
QUEUE = 64
"""Nodes among which the candidates are cut: more than the largest, so that shallow trees have wide levels."""
_SMALL = (Topology([]), sequence(1), sequence(2))
_TIMED = 32
"""Tokens that are decoded on small trees, to measure their seconds."""
_REMEMBERED = 16
"""Measurements and topologies that a pair keeps, each of a method and a sampling."""

_T = TypeVar("_T")


def finished(steps: Generator[object, None, _T]) -> _T:
    """Runs a generator to its end and returns its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def drafting_models(pair: ModelPair, settings: RunSettings) -> list[Model]:
    """The target, and the draft if it drafts. ValueError if they can't decode speculatively."""
    method, drafter = settings.method, settings.drafter
    if pair.draft is None and drafter is None:
        raise ValueError(f"method = {method!r} needs a draft model, and this pair has none; use method 'ar'")
    models = [pair.target]
    if (drafter is None or isinstance(drafter, str)) and pair.draft is not None:
        models.append(pair.draft)
    for model in models:
        if model.capability == "ar":
            raise ValueError(f"method = {method!r}: {model.name} can only decode token by token; use 'ar'")
    return models


class Choice(NamedTuple):
    """A tree, and what it was chosen among.

    topology: the candidate with the most tokens per second. acceptance: R by child index, and costs: of a
    round, from which candidates and forests are computed. at_once: the number of texts that it is for.
    """

    topology: Topology
    candidates: tuple[Candidate, ...]
    acceptance: np.ndarray
    costs: RoundCost
    at_once: int


def choosing(pair: ModelPair, settings: RunSettings, at_once: int = 1) -> Steps[Choice]:
    """The topology with the most expected tokens per second, chosen on first use.

    at_once: runs that are decoded together (`batch`), rounded up to a power of two. More runs make a drafted
    token more expensive, so that the tree is smaller.

    The choice depends on measured times, so it may differ between two runs. Under ERSD, a seed gives the same
    text for every tree. Under GSD it does so on the same tree, which `Generation.paths` records.
    """
    at_once = 1 << (at_once - 1).bit_length()
    key = (settings.method, settings.sampling, settings.draft_sampling, at_once)
    choice = pair.choices.get(key)
    if choice is None:
        trial = yield from measuring(pair, settings)
        costs = yield from _costs(pair, trial, at_once)
        choice = chosen(trial.acceptance, costs, at_once)
        _remember(pair.choices, key, choice)
    return choice


class Measurement(NamedTuple):
    """The result of a trial, some hundred rounds on a few trees, whose half a megabyte is not kept.

    acceptance: R by child index [up to 8], as `specdec.stats.acceptance_vector`. seconds: of a round, by the
    number of drafted tokens; `rest` are those outside drafting and the target's forward (`evaluate`).
    """

    acceptance: np.ndarray
    seconds: Mapping[int, Seconds]


def measured_as(method: Method) -> Method:
    """The method whose acceptance is measured for this method's trees.

    It is GSD for a method whose acceptance depends on the rest of the tree.
    """
    return method if METHODS[among("method", method, METHODS)].by_index else "gsd"


def measuring(
    pair: ModelPair, settings: RunSettings, prompt_ids: Sequence[int] | None = None
) -> Steps[Measurement]:
    """Acceptance and timings of this pair, from a trial that is decoded on first use, a round a step.

    prompt_ids: the prompt of the trial; None takes a few fixed prompts. Length and seeds are the trial's own,
    so that the choice does not depend on the user's. ValueError where the pair can't draft.
    """
    drafting_models(pair, settings)
    settings = settings._replace(method=measured_as(settings.method))
    prompts = fixed_prompts(pair) if prompt_ids is None else (tuple(prompt_ids),)
    key = (settings.method, settings.sampling, prompts, settings.draft_sampling)
    wide = _trial_topology(pair)
    rounds: dict[Topology, list[Round]] = {}
    for topology, least in (*((small, _TIMED) for small in _SMALL), (wide, _TRIAL_TOKENS)):
        decoding, rounds[topology] = _trial_rounds(pair, settings, prompts, topology), []
        tokens = 0
        while tokens < least and key not in pair.measurements:  # another run may measure it meanwhile
            rounds[topology].append(round := next(decoding))
            tokens += len(round.tokens)
            yield
    if key not in pair.measurements:
        _remember(pair.measurements, key, _measured(rounds, wide))
    return pair.measurements[key]


def fixed_prompts(pair: ModelPair) -> tuple[tuple[int, ...], ...]:
    """Fixed texts, as messages to a chat model; fixed tokens where there is no tokenizer."""
    if pair.tokenizer is None:
        seeds = (derived_seed(_TRIAL_SEED, number) for number in range(len(_TRIAL_TEXTS)))
        return tuple((seed % pair.vocab_size,) for seed in seeds)
    try:
        return tuple(tuple(pair.chat_prompt(text)) for text in _TRIAL_TEXTS)
    except ValueError:  # no template, or a broken one
        return tuple(tuple(pair.encode(text)) for text in _TRIAL_TEXTS)


def _measured(rounds: Mapping[Topology, Sequence[Round]], wide: Topology) -> Measurement:
    counts = index_counts(rounds[wide], wide)
    acceptance = acceptance_vector(counts.accepted, counts.reached)
    if not acceptance.any():
        acceptance = np.array([_RARE])
    seconds = {
        topology.num_draft_tokens: Seconds(
            draft=undisturbed([round.seconds.draft for round in some]),
            evaluate=undisturbed([round.seconds.evaluate for round in some]),
            rest=undisturbed([round.seconds.verify + round.seconds.rest for round in some]),
        )
        for topology, some in rounds.items()
    }
    return Measurement(acceptance, seconds)


def _remember(entries: dict[Any, Any], key: Any, value: Any) -> None:
    """Adds an entry and removes the oldest ones, since visitors may choose any number of temperatures."""
    entries[key] = value
    for oldest in list(entries)[:-_REMEMBERED]:
        entries.pop(oldest, None)  # another visitor's run may have done so in between


def _trial_rounds(
    pair: ModelPair, settings: RunSettings, prompts: Sequence[Sequence[int]], topology: Topology
) -> Iterator[Round]:
    """Endless rounds on this tree, with one text after each prompt in turn."""
    settings = settings._replace(max_new_tokens=_TRIAL_TOKENS // len(prompts), detail=False)
    # short enough that the trial tree fits behind it in both contexts
    room = min(pair.target.context_length, pair.drafting.context_length) - _WIDE.depth - 2
    for number, prompt in enumerate(cycle(prompts)):
        prompt_ids = prompt[: max(1, min(_TRIAL_PROMPT, room))]
        engine = Engine(pair, settings, topology, prompt_ids, derived_seed(_TRIAL_SEED, number))
        yield from engine.rounds()


def _costs(pair: ModelPair, trial: Measurement, at_once: int) -> Steps[RoundCost]:
    """The cost of a round of up to `at_once` texts. Forwards are measured once for each number of texts."""
    models = (pair.target, pair.drafting)
    # the largest forward that is measured must fit into the contexts of both models
    room = min(1 + max(SIZES), *(model.context_length for model in models))
    texts = 1
    while texts <= at_once:
        if texts not in pair.forward_costs:
            most = room if texts == 1 else max(2, min(room, _MOST_ROWS // texts))
            pair.forward_costs[texts] = yield from forward_costs(models, most, texts)
        texts *= 2
    measured = {texts: costs for texts, costs in pair.forward_costs.items() if texts <= at_once}
    target, draft = (
        JointCost({texts: costs[model] for texts, costs in measured.items()}) for model in (0, 1)
    )
    return RoundCost(target, draft, _overhead(trial, *measured[1]), pair.target.most_repeated)


def _overhead(trial: Measurement, target: ForwardCost, draft: ForwardCost) -> Overhead:
    """The seconds of the trial's rounds outside the forwards. target, draft: the costs of their forwards."""
    small, size = trial.seconds, max(trial.seconds)
    forward = draft.seconds(1)
    level = max(small[2].draft - small[1].draft - forward, 0.0)
    # the draft's forwards push the target's weights out of the processor's cache
    evicted = small[1].evaluate - small[0].evaluate * target.seconds(2) / target.seconds(1)
    added = (small[1].rest - small[0].rest, small[1].draft - forward - level, evicted)
    return Overhead(
        empty=small[0].rest,
        drafting=sum(max(seconds, 0.0) for seconds in added),
        node=max(small[size].rest - small[1].rest, 0.0) / (size - 1),
        level=level,
    )


def chosen(
    acceptance: np.ndarray,
    costs: RoundCost,
    at_once: int = 1,
    sizes: Collection[int] = SIZES,
    nodes: Sequence[Node] | None = None,
) -> Choice:
    """The tree for this many texts of equal acceptance [indices], and the best tree of each size.

    sizes: the numbers of drafted tokens to choose from, 0 among them. nodes: those that trees are cut from,
    parents before their children; by default Algorithm 3's queue.
    """
    nodes = queue(acceptance, QUEUE) if nodes is None else nodes
    best: dict[int, tuple[forest.Round, Sequence[Node]]] = {}
    for depth in range(max(len(node.path) for node in nodes) + 1):
        shallow = [node for node in nodes if len(node.path) <= depth][: max(sizes)]
        for size, round in enumerate(rounds(shallow, costs, at_once, at_once)):
            if size not in sizes:
                continue
            if costs.most_repeated and size:
                repeated = repeated_tokens(acceptance, _tree(shallow[:size]), costs.most_repeated)
                rows = at_once * (1 + size + repeated)
                round = round._replace(target=costs.target.seconds(at_once, rows))
            if size not in best or round.rate > best[size][0].rate:
                best[size] = round, shallow[:size]
    fastest = max(best, key=lambda size: best[size][0].rate)
    candidates = tuple(
        Candidate(
            _tree(drafted).paths,
            round.tokens / at_once,
            Milliseconds(*(1000 * seconds for seconds in round[1:])),
            round.rate,
            chosen=size == fastest,
        )
        for size, (round, drafted) in sorted(best.items())
    )
    return Choice(_tree(best[fastest][1]), candidates, acceptance, costs, at_once)


def _tree(nodes: Sequence[Node]) -> Topology:
    return tree(tuple(node.path for node in nodes))


def repeated_tokens(acceptance: np.ndarray, tree: Topology, most: float) -> float:
    """Accepted tokens that a target with states reads again in each round, on average; at most `most`.

    A round that rejects a token adds its own tokens to them, and a round that accepts all ends them. So the
    average is the mean of what rounds add, divided by the probability that all is accepted.
    """
    reached = node_acceptance(acceptance, tree)
    full = reached[-1]
    return min((sum(reached) - full * len(reached)) / full, most) if full > 0 else most


def _trial_topology(pair: ModelPair) -> Topology:
    return sequence(_WIDE.depth) if _only_sequences(pair) else _WIDE


def _only_sequences(pair: ModelPair) -> bool:
    return "sequence" in (pair.target.capability, pair.drafting.capability)
