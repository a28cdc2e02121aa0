"""Topology "auto": measure this pair on this machine, and take the tree with the most tokens per second.

Two measurements: what a forward over n tokens costs each model, and a trial, which tells how often the child
with each index is accepted and what a round costs besides its forwards. Expected tokens over expected seconds
then chooses among optimal trees of several sizes and depths (`forest`), plain decoding (the empty tree)
included. The `Choice` keeps what it was chosen among.

Both take many small steps, and `measuring` and `choosing` stop between them, so that a server can decode for
others meanwhile. Acceptance is a function of pair, method and sampling; costs are not.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from specdec.decoding import forest
from specdec.decoding.costs import JointCost, Overhead, RoundCost, Steps, forward_costs
from specdec.decoding.forest import Node, queue, rounds, tree
from specdec.decoding.trial import Measurement, measuring, remember
from specdec.settings import RunSettings
from specdec.theory import node_acceptance
from specdec.topology import Topology
from specdec.trace import Candidate, Milliseconds

if TYPE_CHECKING:
    from specdec.pair import ModelPair

_MOST_ROWS = 96
"""Rows of the largest forward of many runs that is measured."""
SIZES = (*range(9), 10, 12, 16, 20, 24, 32)
"""Numbers of drafted tokens of the candidates."""
QUEUE = 64
"""Nodes among which the candidates are cut: more than the largest, so that shallow trees have wide levels."""
_TOGETHER = 4
"""Texts of the second trial, which measures what the work outside the forwards costs in a batch."""
_T = TypeVar("_T")


def finished(steps: Generator[object, None, _T]) -> _T:
    """Runs a generator to its end and returns its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


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


def choosing(pair: ModelPair, settings: RunSettings, at_once: int = 1, thorough: int = 1) -> Steps[Choice]:
    """The topology with the most expected tokens per second, chosen on first use.

    at_once: runs that are decoded together (`batch`), rounded up to a power of two. More runs make a drafted
    token more expensive, so that the tree is smaller. thorough: the trial is this many times as long.

    The choice depends on measured times, so it may differ between two runs. Under ERSD, a seed gives the same
    text for every tree. Under GSD it does so on the same tree, which `Generation.paths` records.
    """
    at_once = 1 << (at_once - 1).bit_length()
    key = (settings.method, settings.sampling, settings.draft_sampling, at_once, thorough)
    choice = pair.choices.get(key)
    if choice is None:
        trials = {1: (yield from measuring(pair, settings, thorough=thorough))}
        if at_once > 1:
            trials[_TOGETHER] = yield from measuring(pair, settings, texts=_TOGETHER, thorough=thorough)
        costs = yield from _costs(pair, trials, at_once)
        choice = chosen(trials[1].acceptance, costs, at_once)
        remember(pair.choices, key, choice)
    return choice


def forget(pair: ModelPair) -> None:
    """Everything is measured again on its next use."""
    for known in (pair.measurements, pair.choices, pair.forward_costs):
        known.clear()


def _costs(pair: ModelPair, trials: Mapping[int, Measurement], at_once: int) -> Steps[RoundCost]:
    """The cost of a round of up to `at_once` texts. Forwards are measured once for each number of texts.

    trials: by the number of texts.
    """
    models = (pair.target, pair.drafting)
    # the largest forward that is measured must fit into the contexts of both models
    room = min(1 + max(SIZES), *(model.context_length for model in models))
    texts = 1
    while texts <= max(at_once, *trials):
        if texts not in pair.forward_costs:
            most = room if texts == 1 else max(2, min(room, _MOST_ROWS // texts))
            pair.forward_costs[texts] = yield from forward_costs(models, most, texts)
        texts *= 2
    measured = {number: costs for number, costs in pair.forward_costs.items() if number < texts}
    target, draft = (
        JointCost({number: costs[model] for number, costs in measured.items()}) for model in (0, 1)
    )
    costs = RoundCost(target, draft, {}, pair.target.most_repeated)
    overheads = {number: _overhead(trial, trials[1], number, costs) for number, trial in trials.items()}
    return replace(costs, overheads=overheads)


def _overhead(trial: Measurement, alone: Measurement, texts: int, costs: RoundCost) -> Overhead:
    """What the rounds of a trial of this many texts took besides their forwards.

    That includes what forwards take longer than alone, because each model pushes the other's weights out of
    the processor's cache. alone: the trial of one text.
    """
    besides = {}
    for k, seconds in trial.seconds.items():
        rows = texts * _rows(Topology([(0,) * depth for depth in range(1, k + 1)]), alone.acceptance, costs)
        forwards = costs.target.seconds(texts, rows) + k * costs.draft.seconds(texts, texts)
        besides[k] = max(seconds - forwards, 0.0) / texts
    none, one, longest = besides[0], besides[1], max(besides)
    level = max((besides[longest] - one) / (longest - 1) - alone.node, 0.0)
    return Overhead(none, max(one - none - level, 0.0), alone.node, level)


def _rows(tree: Topology, acceptance: np.ndarray, costs: RoundCost) -> float:
    """Rows of a text in the target's forward on this tree, with the tokens that are read again on average."""
    again = costs.most_repeated and tree.num_draft_tokens
    repeated = repeated_tokens(acceptance, tree, costs.most_repeated) if again else 0.0
    return 1 + tree.num_draft_tokens + repeated


def with_repeated(
    round: forest.Round, nodes: Sequence[Node], acceptance: np.ndarray, costs: RoundCost, texts: int
) -> forest.Round:
    """A round with the time of the tokens that a target with states reads again.

    nodes: those of the tree that each of the texts has.
    """
    if not costs.most_repeated:
        return round
    rows = texts * _rows(_tree(nodes), acceptance, costs)
    return round._replace(target=costs.target.seconds(texts, rows))


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
            round = with_repeated(round, shallow[:size], acceptance, costs, at_once)
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
