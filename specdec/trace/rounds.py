"""The record of one round: its drafted tree, the races at verified positions, its tokens and its times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from specdec.methods import Kind
from specdec.trace.reading import adapter, check_tree, must, read
from specdec.trace.values import Count, Duration, Finish, Number, Path, Probability, Status


@dataclass(frozen=True, slots=True)
class Token:
    """One emitted token.

    text: the text that the token adds; empty while a character is incomplete.
    kind: `accepted` (it was drafted), `bonus` (a path was accepted down to a leaf, and the target adds this
    token), `residual` (it follows a rejection, under all methods but ERSD), `correction` (it won ERSD's race
    under P, and no drafted child has it) or `sampled` (the target sampled it where nothing was drafted, or
    only tokens copied from the text).
    """

    id: Count
    text: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Node:
    """One drafted token, a node of the draft tree.

    q, p: the token's probability given its parent, under the draft and under the target. Both are None
    without detail; q is also None if the token was drafted without probabilities.
    status: `accepted`; `rejected` (its parent was verified but did not accept it, or traversal verification
    tested it below such a rejected node); or `unvisited`.
    copied: whether it is on a path copied from the text, and not in the draft's tree.
    """

    path: Path
    token_id: Count
    text: str
    status: Status
    q: Probability | None = None
    p: Probability | None = None
    copied: bool = False


@dataclass(frozen=True, slots=True)
class Arrival:
    """One token in the race at one position. Both of its arrival times come from the same exponential.

    arrival_q = exponential / q and arrival_p = exponential / p; None if the probability is 0.
    """

    token_id: Count
    text: str
    exponential: Number
    q: Probability
    p: Probability
    arrival_q: Number | None
    arrival_p: Number | None


@dataclass(frozen=True, slots=True)
class Trial:
    """One acceptance test: the drafted token is accepted if `u < ratio` (None: infinite). ERSD has no tests.

    p and q are the values at the moment of the test: after earlier rejections, p is the residual and q is
    renormalised without the rejected tokens. The ratio is p / q for GSD and SpecInfer, p / (ρ q) for SpecTr
    with its threshold ρ, and the weight of the whole path for traversal verification. Equal independent draws
    are one node, which is tested once for each draw.
    """

    path: Path
    token_id: Count
    u: Probability
    p: Probability
    q: Probability
    ratio: Number | None
    accepted: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One verified position of a round.

    path: the node whose next token was decided (root: `()`).
    position: the absolute index of the decided token, counted from the start of the prompt. It keys the race.
    leading: the first arrivals under Q and under P, the node's children and the decided token, sorted by
    arrival under P.
    winner_q: the first arrival under Q. None where the draft gave no probabilities: at leaves, for tokens
    drafted without probabilities, and in autoregressive decoding. `leading` then has q = 0, arrival_q = None.
    winner_p: the first arrival under P. Only ERSD and autoregressive decoding decide by it; under the other
    rules it is shown for comparison.
    trials: the acceptance tests of the node's children, in order; under traversal verification also the tests
    of nodes below rejected children.
    token_id, kind: the decided token, and how it was decided.
    optimum: the highest acceptance probability of any lossless rule with these distributions and this number
    of drafts (`specdec.theory.optimal_acceptance`). None if there are no drafts or they have no
    probabilities, if their number depends on the noise that decides (`ContextTree`), or if computing it would
    take too long (`decoding.detail.MOST_DRAFTS`, `SOME_DRAFTS`).
    """

    path: Path
    position: Count
    leading: tuple[Arrival, ...]
    winner_q: Count | None
    winner_p: Count
    trials: tuple[Trial, ...]
    token_id: Count
    kind: Kind
    optimum: Probability | None = None


@dataclass(frozen=True, slots=True)
class Seconds:
    """Seconds of each part of a round. `rest` is everything outside the other three parts.

    `verify` includes the commit of the accepted path. On a GPU, `draft` and `evaluate` end when the GPU has
    finished their work. Work that the GPU still does for a commit counts in the next round.
    """

    draft: Duration = 0.0
    evaluate: Duration = 0.0
    verify: Duration = 0.0
    rest: Duration = 0.0

    @property
    def total(self) -> float:
        """Seconds of the whole round."""
        return self.draft + self.evaluate + self.verify + self.rest


@dataclass(frozen=True, slots=True)
class Round:
    """The record of one target call, its drafted tree and its new tokens.

    number: 0-based.
    position: absolute index of the first token that the round emitted, counted from the start of the prompt.
    text: the texts of the new tokens, joined.
    nodes: the drafted tree in level order, parents before children.
    steps: how the token at each verified position was decided; empty if the run was decoded without `detail`.
    finish: why generation ended with this round; None if it did not.
    """

    number: Count
    position: Count
    tokens: tuple[Token, ...]
    nodes: tuple[Node, ...]
    steps: tuple[Step, ...]
    seconds: Seconds
    text: str
    finish: Finish | None = None

    @property
    def num_accepted(self) -> int:
        """The number of drafted tokens that this round emitted."""
        return sum(token.kind == "accepted" for token in self.tokens)

    def verified(self) -> Iterable[tuple[Path, int | None, int]]:
        """The verified nodes with children: path, index of the accepted child, number of drafted children.

        Verified nodes are the root and accepted nodes, except a node that ended the text. Neither copied
        nodes count, nor nodes below rejected ones, which traversal verification also tests.
        """
        nodes: dict[Path, tuple[int | None, int]] = {}
        verified: set[Path] = {()}
        for node in self.nodes:
            parent, accepted = node.path[:-1], node.status == "accepted"
            if node.status != "unvisited" and not node.copied and parent in verified:
                index, children = nodes.get(parent, (None, 0))
                nodes[parent] = (node.path[-1] if accepted else index, children + 1)
            if accepted:
                verified.add(node.path)
        return ((parent, index, children) for parent, (index, children) in nodes.items())

    def to_json(self) -> str:
        """The round as one line of JSON, without infinities."""
        return adapter(type(self)).dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Round:
        """Read a record that `to_json` wrote. ValueError says what is invalid, and where."""
        round = read(cls, text)
        check_round(round, "")
        return round

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """A drawing of the tree with the status of each token, for notebooks."""
        from specdec.notebook.shown import round

        return round(self.to_json())


def check_round(round: Round, where: str) -> None:
    """ValueError if a round contradicts itself. assets/shared/trace.js checks the same."""
    must(round.tokens, f"{where}tokens is empty: a round emits at least one token")
    pieces = "".join(token.text for token in round.tokens)
    must(
        round.text == pieces,
        f"{where}text = {round.text!r:.60} is not the text of its tokens, {pieces!r:.60}",
    )
    must(
        len(round.steps) in (0, len(round.tokens)),
        f"{where}steps has {len(round.steps)} entries; it must have none, or one for each of the "
        f"{len(round.tokens)} tokens",
    )
    children = check_tree([node.path for node in round.nodes], where + "nodes[{}].path")
    for i, step in enumerate(round.steps):
        place = f"{where}steps[{i}]."
        must(step.path in children, f"{place}path = {step.path} is not a drafted node")
        for j, trial in enumerate(step.trials):
            below = trial.path in children and trial.path[: len(step.path)] == step.path != trial.path
            must(below, f"{place}trials[{j}].path = {trial.path} is not a drafted node below {step.path}")
