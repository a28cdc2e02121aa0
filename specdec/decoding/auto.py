"""Topology "auto": trees with the most tokens per second, chosen again and again from the rounds of the run.

Nothing is measured before a run. Its first tree comes from earlier runs of the same draft and target, or from
assumptions that fit any pair of models. The rounds of the run then show how often the child with each index
is accepted, and how long drafting and the target's forward pass take on this machine, by number of rows
(`costs.RoundTimes`). The candidates are trees of Algorithm 3 (`joint_trees`) and the empty tree, which is
plain decoding. The candidate with the most expected tokens per expected second is chosen. The second, fifth
and eighth round, counted over all runs of a pair, are plain, so that trees can be compared with plain
decoding. Runs decoded together share one budget of rows.

A draft model may stop in the middle of a tree, if its forward pass takes longer than the decision to stop
(`drafters.stopping`). Its tree is made deeper, and each further level gets a price in expected tokens. The
model stops before a level that is expected to give fewer tokens than its price.

No tree depends on noise that later decides about the tree's tokens. Apart from measured times, a tree depends
only on verified nodes of earlier rounds of its text, on texts with other seeds, and on levels of the same
tree that are drafted already. With such trees every verification rule is lossless (docs/tree_choice.md).
Under ERSD the text does not depend on the trees at all. Under the other rules a seed gives the same text
again only with the same trees, which the run's record stores.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np

from specdec.decoding.acceptance import only_sequences
from specdec.decoding.costs import RoundCost, RoundTimes
from specdec.decoding.experience import PRIOR, Counts, learned_of
from specdec.decoding.fastest import SIZES, Choice, chosen
from specdec.decoding.joint_trees import deepened, joint_trees, price_of_level, queue
from specdec.devices import READ_LATE
from specdec.drafters.catalogue import entry_of
from specdec.drafters.stopping import Price
from specdec.settings import RunSettings
from specdec.topology import Topology, sequence
from specdec.trace import Round

if TYPE_CHECKING:
    from specdec.context import Tree
    from specdec.pair import ModelPair

_MOST_NODES = 64
"""The most drafted tokens in a round of all texts that are decoded together."""
_SHARE = 0.01
"""The share of the time that choosing trees may take. After a choice that took t seconds, the next choice is
made t / `_SHARE` seconds later."""
SHORT = 0.001
"""Drafting is stopped early only if a forward pass of the draft model takes more seconds than this. For a
faster model, deciding whether to stop would cost too much of the time. On a GPU drafting is never stopped
early, because the host would have to read the tokens of each level."""
_PLAIN = Topology([])
_LOOK, _FIRST_PAUSE, _LONGEST_PAUSE = 3, 16, 256
"""While plain decoding is fastest, a run pauses drafting, and after each pause it drafts in `_LOOK` rounds to
test whether plain decoding still is fastest. The first pause lasts `_FIRST_PAUSE` rounds, each further one
twice as many as the one before, up to `_LONGEST_PAUSE`."""


class Run(Protocol):
    """The parts of a run that this module uses to choose its trees (`specdec.decoding.run.Run`)."""

    settings: RunSettings
    seed: int
    follows: bool

    @property
    def latest_tree(self) -> Tree:
        """The tree of the latest round."""


def first_choice(pair: ModelPair, settings: RunSettings, seed: int, at_once: int = 1) -> Choice:
    """The first tree of a run, with its candidates. at_once: the number of runs decoded together."""
    learned = learned_of(pair)
    if learned.times.needs_plain(at_once):
        return Choice(_PLAIN, ())
    vector = _for_pair(pair, learned.before(settings, seed).vector())
    return chosen(vector, learned.times.costs(pair.target.most_repeated), at_once)


@dataclass
class _RunState:
    """The state of `AutoTrees` for one run. A look: a few rounds that draft one token to measure acceptance.

    counts: the verified nodes of this run and of earlier runs. alone: those of this run only.
    idle: the number of rounds with the empty tree since the last other tree.
    pause: after this many idle rounds, a look begins.
    look: the number of rounds that remain in a look; None outside of a look.
    price: the price of a further level of the tree.
    is_due: whether the next round gets a newly chosen tree in any case.
    is_plain: whether the present tree is empty. A tree that only a copied path replaces is not empty.
    """

    counts: Counts
    alone: Counts
    idle: int = 0
    pause: int = _FIRST_PAUSE
    look: int | None = None
    price: Price | None = None
    is_due: bool = False
    is_plain: bool = False

    def learn(self, round: Round, tree: Topology) -> None:
        """Count the verified nodes of a round on the tree `tree`, and count idle rounds and looks."""
        counts = Counts.of(round, tree)
        self.counts.add(counts)
        self.alone.add(counts)
        self.idle = self.idle + 1 if self.is_plain else 0
        if self.look and any(not node.copied for node in round.nodes):
            self.look -= 1

    def next_tree(self, best: Topology) -> Topology:
        """The tree for the next round. best: the fastest tree by the estimates.

        If the best tree is empty, a look now and then drafts one token in each of a few rounds, to measure
        whether drafting has become worth its time. Otherwise the result is the best tree.
        """
        if best.num_draft_tokens:
            self.pause, self.look = _FIRST_PAUSE, None
            return best
        return self.look_change() or (sequence(1) if self.look else best)

    def look_change(self) -> Topology | None:
        """The tree with which a look begins or ends in the next round; None in other rounds."""
        if self.idle >= self.pause:
            self.look, self.idle, self.pause = _LOOK, 0, min(2 * self.pause, _LONGEST_PAUSE)
            self.counts.at_most(PRIOR)
            return sequence(1)
        if self.look == 0:
            self.look = None
            return _PLAIN
        return None


AnyRun = TypeVar("AnyRun", bound=Run)


class AutoTrees:
    """Chooses, again and again, the trees of the runs with topology "auto" in a batch of runs.

    A run with a given tree keeps it. The choice for the other runs counts it as a text without drafts.
    times: the record of the times of rounds; None takes the record of the pair.
    """

    def __init__(self, pair: ModelPair, times: RoundTimes | None = None):
        self._pair, self._learned = pair, learned_of(pair)
        self._times = self._learned.times if times is None else times
        self._states: WeakKeyDictionary[Run, _RunState] = WeakKeyDictionary()
        self._due = 0.0

    def trees(self, runs: Sequence[AnyRun], texts: int) -> dict[AnyRun, Topology]:
        """New trees for the next round of these runs. The result leaves out runs that keep their tree.

        texts: the number of runs decoded together, including runs in the middle of a round.
        """
        following = [run for run in runs if run.follows]
        result = self._new_trees(following, texts) if following else {}
        for run, topology in result.items():
            self._state(run).is_plain = not topology.num_draft_tokens
        return result

    def _new_trees(self, following: Sequence[AnyRun], texts: int) -> dict[AnyRun, Topology]:
        start = time.perf_counter()
        if len(following) == texts and self._times.needs_plain(texts):
            for run in following:
                self._state(run).is_due = True  # the round after the plain one drafts again
            return dict.fromkeys(following, _PLAIN)
        if start < self._due and not any(self._state(run).is_due for run in following):
            turns = ((run, self._state(run).look_change()) for run in following)
            return {run: tree for run, tree in turns if tree is not None}
        costs = self._times.costs(self._pair.target.most_repeated)
        if costs.most_repeated:
            # only `choice` counts the tokens that the target reads again after a rejection
            trees = [self.choice(run, texts).topology for run in following]
        else:
            trees = self._shared(following, texts, costs)
        both = zip(following, trees, strict=True)
        result = {run: self._next(run, tree, texts, costs) for run, tree in both}
        now = time.perf_counter()
        self._due = now + (now - start) / _SHARE
        return result

    def _next(self, run: Run, best: Topology, texts: int, costs: RoundCost) -> Topology:
        """The tree for the next round of a run. Stores the price of a further level in the run's state.

        best: the fastest tree. It is made deeper if the draft model decides where to stop. texts: the number
        of runs that are decoded together.
        """
        state, stops = self._state(run), entry_of(run.settings.drafter).uses_model and not costs.most_repeated
        stops = stops and self._pair.drafting.device.type not in READ_LATE
        state.price, state.is_due = None, False
        if best.num_draft_tokens and stops and costs.draft.seconds(1, 1) > SHORT:
            state.price = price_of_level(_for_pair(self._pair, state.counts.vector()), best, costs, texts)
            best = deepened(best)
        return state.next_tree(best)

    def price(self, run: Run) -> Price | None:
        """The price of a further level of the run's present tree; None if the whole tree must be drafted."""
        return self._state(run).price

    def choice(self, run: Run, texts: int = 1) -> Choice:
        """The best tree for this run now, under the assumption that all texts have this run's acceptance."""
        costs = self._times.costs(self._pair.target.most_repeated)
        return chosen(_for_pair(self._pair, self._state(run).counts.vector()), costs, texts)

    def learn_times(self, rounds: Iterable[Round], draft: float, target: float) -> None:
        """Learn from the times of the rounds of one step. draft, target: seconds of the two models' forward
        passes for all rounds together."""
        self._times.add(list(rounds), draft, target)

    def learn(self, rounds: Mapping[AnyRun, Round]) -> None:
        """Learn from the accepted and rejected nodes in the rounds of one step."""
        for run, round in rounds.items():
            if run.follows:
                self._state(run).learn(round, cast(Topology, run.latest_tree))

    def _shared(self, runs: Sequence[Run], texts: int, costs: RoundCost) -> list[Topology]:
        all_texts = max(SIZES) if texts == 1 else _MOST_NODES
        most = max(1, min(all_texts, 4 * _MOST_NODES // len(runs)))
        vectors = [_for_pair(self._pair, self._state(run).counts.vector()) for run in runs]
        queues = [queue(vector, most, number) for number, vector in enumerate(vectors)]
        return joint_trees(queues, costs, all_texts, texts)

    def _state(self, run: Run) -> _RunState:
        if run not in self._states:
            before = self._learned.before(run.settings, run.seed)
            alone = self._learned.of_new_run(run.settings, run.seed)
            self._states[run] = _RunState(before, alone, is_plain=not run.latest_tree.num_draft_tokens)
        return self._states[run]


def _for_pair(pair: ModelPair, acceptance: np.ndarray) -> np.ndarray:
    return acceptance[:1] if only_sequences(pair) else acceptance
