"""Frozen records of what happened during decoding, to and from JSON.

One trace, many views: `specdec.stream` yields one `Round` per target call, and the page, the
statistics, the exports and the API all read that record, so that no two of them can disagree.

Records are plain data (no tensors). What is only collected with `detail=True` is optional here:
`Node.q`, `Node.p` and `Round.steps`. Infinite arrival times (tokens of probability zero) are
`None`, because JSON has no infinity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field, TypeAdapter

from specdec.methods import METHODS, Kind
from specdec.topology import Topology

MOST_CHARACTERS = 50_000_000
"""Longest JSON that is read: ten thousand rounds with all their detail."""

MOST_WHOLE = 2**53 - 1
"""Largest whole number that JSON keeps exactly for every reader, the page's scripts too."""
Count = Annotated[int, Field(ge=0, le=MOST_WHOLE)]
Seed = Annotated[int, Field(ge=0, lt=2**64)]
Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1 + 1e-6, allow_inf_nan=False, description="a probability")]
"""Up to rounding at most 1."""
Duration = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
"""Seconds, of which the longest run has fewer: sums of them stay finite."""
Path = tuple[Count, ...]
"""Index of a drafted token: 0-based child indices from the root, whose own path is `()`."""

if TYPE_CHECKING:  # the names of the catalogue are known when it runs
    Method = str
else:
    Method = Literal[tuple(METHODS)]
Finish = Literal["length", "context", "eos"]
Status = Literal["accepted", "rejected", "unvisited"]


@dataclass(frozen=True, slots=True)
class Token:
    """One emitted token.

    kind: `accepted` (it was drafted), `bonus` (all accepted down to a leaf), `residual` (after a rejection,
    under all methods but ERSD), `correction` (the race's winner under P that ERSD's draft did not contain) or
    `sampled` (autoregressive, or nothing but a copy was drafted). text: what it adds to the text; empty while
    a character is still incomplete.
    """

    id: Count
    text: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Node:
    """One drafted token, a node of the draft tree.

    q, p: its probability given its parent under the draft and under the target. Both are None without
    detail; q is None where it was drafted without probabilities, p where the target did not evaluate the
    parent's row. status: `accepted`; `rejected` (its parent was verified and another child or none was
    accepted, or traversal verification tested it below such a node); or `unvisited`. copied: whether it is on
    a path that was copied from the text, and no node of the draft's tree.
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
    """One token in the race of one position: both arrival times come from the same exponential.

    arrival_q = exponential / q and arrival_p = exponential / p; None where the probability is 0.
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
    """One acceptance test: accept the drafted token when `u < ratio` (None: infinite). ERSD has none.

    p and q are those of the moment of the test: after earlier rejections, p is the residual and
    q is renormalised without the rejected tokens. What the ratio is: of GSD and SpecInfer p / q, of SpecTr
    p / (ρ q) with its threshold ρ, of traversal verification the weight of the whole path. Independent draws
    that are equal are one node with a test for each.
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

    path: the node whose next token was decided (root: `()`). position: the absolute index of the decided
    token, counted from the start of the prompt; it keys the race. leading: the first arrivals under Q and
    under P, sorted by arrival under P. winner_q: the first arrival under Q. It is None at a leaf, where the
    draft was not evaluated, where it drafted without probabilities, and for autoregressive decoding; q is
    then 0 and arrival_q None. winner_p: the first arrival under P. Only ERSD and autoregressive decoding
    decide by it; under the other rules it is shown for comparison. trials: the acceptance tests, in order: of
    the node's children, under traversal verification of nodes below rejected ones too. token_id: the decided
    token; kind: how it was decided. optimum: the most that any rule can accept of a position with these
    distributions and this number of drafts (`specdec.theory.optimal_acceptance`). It is None without drafts,
    where they were drafted without probabilities, where their number depends on the noise that decides
    (`ContextTree`), and where it would take too long: above `decoding.detail.MOST_DRAFTS` drafts, or for
    several drafts of more than `MOST_TOKENS` tokens.
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
    """Where one round's time went, in seconds; `rest` is everything outside the three stages.

    `verify` includes the commit of the accepted path. On a GPU `draft` and `evaluate` end when the GPU has
    finished their work. What the GPU still computes for a commit counts in the next round.
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
    """One target call and what it yielded.

    number: 0-based. position: absolute index of the first token that the round emitted. text: what
    the round adds to the text (the concatenation of its tokens' texts). nodes: the drafted tree in
    level order, parents before children. steps: one per verified position (empty without
    detail). finish: why generation ended with this round, else None.
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
        """Drafted tokens that this round emitted."""
        return sum(token.kind == "accepted" for token in self.tokens)

    def verified(self) -> Iterable[tuple[Path, int | None, int]]:
        """The verified nodes with children: path, index of the accepted child, number of drafted children.

        These are the root and accepted nodes, without a node that ended the text. Traversal verification also
        tests nodes below rejected ones; these do not count, nor do copied nodes.
        """
        nodes: dict[Path, tuple[int | None, int]] = {}
        verified: set[Path] = {()}
        for node in self.nodes:
            parent, accepted = node.path[:-1], node.status == "accepted"
            if node.status != "unvisited" and not node.copied and parent in verified:
                taken, children = nodes.get(parent, (None, 0))
                nodes[parent] = (node.path[-1] if accepted else taken, children + 1)
            if accepted:
                verified.add(node.path)
        return ((parent, taken, children) for parent, (taken, children) in nodes.items())

    def to_json(self) -> str:
        """One line of JSON, without infinities."""
        return _adapter(type(self)).dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Round:
        """The record that `to_json` wrote; ValueError says what does not fit, and where."""
        round = _read(cls, text)
        _check_round(round, "")
        return round

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """A drawing of the tree with the status of each token, for notebooks."""
        from specdec.notebook.shown import round

        return round(self.to_json())


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How many drafted tokens the target accepted, counted as other engines count them (docs/api.md).

    mean_length: tokens per target call, the target's own included; 0 without a call. rate_by_position: for
    each position in the path, the share of rounds with drafts that accepted a token there. rate_by_index: for
    each child index, the share of verified nodes with such a child that accepted it. histogram: the number of
    rounds with drafts that accepted 0, 1, 2, ... tokens. num_drafted, num_accepted: tokens of all rounds.
    """

    mean_length: float
    rate_by_position: tuple[float, ...]
    rate_by_index: tuple[float, ...]
    histogram: tuple[int, ...]
    num_drafted: int
    num_accepted: int

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> Acceptance:
        """Counts the acceptance of these rounds."""
        drafting = [round for round in rounds if round.nodes]
        accepted = Counter(round.num_accepted for round in drafting)
        offered, of_index = Counter[int](), Counter[int]()
        for _, taken, children in chain.from_iterable(round.verified() for round in drafting):
            offered.update(range(children))
            of_index.update(() if taken is None else (taken,))
        depth = max((len(round.nodes[-1].path) for round in drafting), default=0)
        return cls(
            mean_length=sum(len(round.tokens) for round in rounds) / len(rounds) if rounds else 0.0,
            rate_by_position=tuple(
                sum(round.num_accepted >= position for round in drafting) / len(drafting)
                for position in range(1, depth + 1)
            ),
            rate_by_index=tuple(of_index[index] / offered[index] for index in sorted(offered)),
            histogram=tuple(accepted[count] for count in range(max(accepted, default=-1) + 1)),
            num_drafted=sum(len(round.nodes) for round in drafting),
            num_accepted=sum(round.num_accepted for round in drafting),
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """A table of the rates, for notebooks."""
        from specdec.notebook.shown import counts

        rates = zip_longest(self.rate_by_position, self.rate_by_index)
        rows = [
            (f"{number}", *("" if rate is None else f"{rate:.0%}" for rate in pair))
            for number, pair in enumerate(rates)
        ]
        caption = f"{self.num_accepted} of {self.num_drafted} drafted tokens accepted"
        caption += f"; {self.mean_length:.2f} tokens per target call"
        return counts(caption, ("", "rate by position", "rate by index"), rows, repr(self))


@dataclass(frozen=True, slots=True)
class Milliseconds:
    """Expected milliseconds of a round of all texts: drafting, the target's forward, and the rest."""

    draft: Duration
    target: Duration
    rest: Duration

    @property
    def total(self) -> float:
        """Milliseconds of the whole round."""
        return self.draft + self.target + self.rest


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tree among which "auto" chose: the best one of its number of drafted tokens.

    paths: the tree of each text. expected_tokens: of a round of one text. tokens_per_second: of all texts,
    their number rounded up to a power of two. ERSD texts that are decoded together change their trees later.
    """

    paths: tuple[Path, ...]
    expected_tokens: Number
    milliseconds: Milliseconds
    tokens_per_second: Number
    chosen: bool = False

    @property
    def topology(self) -> Topology:
        """The tree."""
        return Topology(self.paths)


@dataclass(frozen=True, slots=True)
class Timing:
    """One repeat in which a run and plain decoding were timed in turns.

    run: the decoding seconds of each round; plain: those of each token of plain decoding.
    """

    run: tuple[Duration, ...]
    plain: tuple[Duration, ...]


@dataclass(frozen=True, slots=True)
class Generation:
    """A whole run: its set-up, its rounds and what follows from them.

    prompt_ids: token ids of the prompt. paths: the topology that was used; empty where every
    round grew its own. seed: the seed that was
    used, also where none was given. prefill_seconds: time for the prompt without its last token.
    target, draft: the models' names. arithmetic: how their logits were computed, as in
    `ModelPair.arithmetic`; empty in old records. draft_temperature: None where it was the target's. drafter:
    its name in settings, or that of a user's drafter.
    baseline: plain decoding of the same prompt and seed; timings: repeats of both. Empty where not measured.
    chat: whether prompt is a question that the chat template formats; prompt_ids are of the formatted text.
    history: the conversation before it, questions and answers in turn.
    choice: what "auto" chose the tree among; None where the tree was given.
    """

    method: Method
    paths: tuple[Path, ...]
    prompt: str
    prompt_ids: tuple[Count, ...]
    seed: Seed
    temperature: Number
    top_k: Annotated[int, Field(ge=0)]
    top_p: Number
    max_new_tokens: Count
    target: str
    draft: str
    prefill_seconds: Duration
    rounds: tuple[Round, ...]
    arithmetic: str = ""
    draft_temperature: Number | None = None
    drafter: str = "model"
    baseline: tuple[Round, ...] = ()
    timings: tuple[Timing, ...] = ()
    chat: bool = False
    history: tuple[str, ...] = ()
    choice: tuple[Candidate, ...] | None = None

    @property
    def token_ids(self) -> list[int]:
        """New tokens only."""
        return [token.id for round in self.rounds for token in round.tokens]

    @property
    def text(self) -> str:
        """New text only."""
        return "".join(round.text for round in self.rounds)

    @property
    def num_target_calls(self) -> int:
        """Target calls, the prefill of the prompt aside: one per round."""
        return len(self.rounds)

    @property
    def block_efficiency(self) -> float:
        """Tokens per target call; 0 where there was none."""
        return len(self.token_ids) / len(self.rounds) if self.rounds else 0.0

    @property
    def acceptance(self) -> Acceptance:
        """How many drafted tokens the target accepted, by position in the path and by child index."""
        return Acceptance.of(self.rounds)

    @property
    def seconds(self) -> float:
        """Seconds of all rounds, prefill and waiting between rounds aside."""
        return sum(round.seconds.total for round in self.rounds)

    def to_json(self) -> str:
        """JSON, without infinities."""
        return _adapter(type(self)).dump_json(self).decode()

    def to_html(self) -> str:
        """A page that plays the run offline, in one file; the page's Save gives the same."""
        from specdec.notebook.player import page

        return page(self.to_json())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """A player of the run, for notebooks; its text where no scripts run."""
        from specdec.notebook.shown import generation

        return generation(self.to_json())

    @classmethod
    def from_json(cls, text: str) -> Generation:
        """The record that `to_json` wrote; ValueError says what does not fit, and where."""
        generation = _read(cls, text)
        _check_tree(generation.paths, "paths[{}]")
        for number, round in enumerate(generation.rounds):
            where = f"rounds[{number}]."
            _must(round.number == number, f"{where}number = {round.number}: rounds are counted from 0")
            _check_round(round, where)
        for number, round in enumerate(generation.baseline):
            _check_round(round, f"baseline[{number}].")
        return generation


def json_schema() -> dict[str, Any]:
    """The JSON schema of `Generation`; the types and the check of the page's scripts are written from it."""
    return _adapter(Generation).json_schema()


_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(record: type[Any]) -> TypeAdapter[Any]:
    if record not in _adapters:
        _adapters[record] = TypeAdapter(record)
    return _adapters[record]


_Record = TypeVar("_Record", Round, Generation)


def _read(record: type[_Record], text: str) -> _Record:
    if not isinstance(text, str | bytes):
        raise ValueError(f"a record is read from JSON text, not from {type(text).__name__}")
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"the text has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read")
    return _adapter(record).validate_json(text, strict=True)


def _check_round(round: Round, where: str) -> None:
    """ValueError where a round contradicts itself; assets/shared/trace.js checks the same."""
    _must(round.tokens, f"{where}tokens is empty: a round emits at least one token")
    pieces = "".join(token.text for token in round.tokens)
    _must(round.text == pieces, f"{where}text = {round.text!r:.60} is not that of its tokens, {pieces!r:.60}")
    _must(
        len(round.steps) in (0, len(round.tokens)),
        f"{where}steps has {len(round.steps)}: none, or one for each of the {len(round.tokens)} tokens",
    )
    children = _check_tree([node.path for node in round.nodes], where + "nodes[{}].path")
    for i, step in enumerate(round.steps):
        at = f"{where}steps[{i}]."
        _must(step.path in children, f"{at}path = {step.path} is no drafted node")
        for j, trial in enumerate(step.trials):
            below = trial.path in children and trial.path[: len(step.path)] == step.path != trial.path
            _must(below, f"{at}trials[{j}].path = {trial.path} is no drafted node below {step.path}")


def _check_tree(paths: Sequence[Path], where: str) -> dict[Path, int]:
    """How many children each path has, the root's `()` included."""
    children: dict[Path, int] = {(): 0}
    for i, path in enumerate(paths):
        at = f"{where.format(i)} = {path}"
        _must(path and path[:-1] in children, f"{at}: its parent must stand before it")
        _must(path not in children, f"{at} is there twice")
        children[path[:-1]] += 1
        children[path] = 0
    return children


def _must(holds: Any, message: str) -> None:
    if not holds:
        raise ValueError(message)
