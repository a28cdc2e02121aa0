"""The record of a whole run: its settings, its rounds, and how its tree was chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from specdec.topology import Topology
from specdec.trace.acceptance import Acceptance
from specdec.trace.reading import adapter, check_tree, must, read
from specdec.trace.rounds import Round, check_round
from specdec.trace.values import Count, Duration, Method, Number, Path, Seed


@dataclass(frozen=True, slots=True)
class Milliseconds:
    """Expected milliseconds of one round of all texts: drafting, the target's forward pass, and the rest."""

    draft: Duration
    target: Duration
    rest: Duration

    @property
    def total(self) -> float:
        """Expected milliseconds of the whole round."""
        return self.draft + self.target + self.rest


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the trees among which "auto" chose: the fastest tree with its number of drafted tokens.

    paths: the tree, which is the same for each text. expected_tokens: expected tokens of a round of one text.
    tokens_per_second: the rate of all texts together. chosen: whether "auto" chose this tree.
    """

    paths: tuple[Path, ...]
    expected_tokens: Number
    milliseconds: Milliseconds
    tokens_per_second: Number
    chosen: bool = False

    @property
    def topology(self) -> Topology:
        """The draft tree with these paths, as a `Topology`."""
        return Topology(self.paths)


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one repeat, in which a run and plain decoding took turns.

    run: the seconds of each round of the run. plain: the seconds of each token of plain decoding.
    """

    run: tuple[Duration, ...]
    plain: tuple[Duration, ...]


@dataclass(frozen=True, slots=True)
class Planted:
    """A tree that consecutive rounds of a run used. round: the number of the first of these rounds. depth:
    the depth at which the draft model stopped; None if it did not stop."""

    round: Count
    paths: tuple[Path, ...]
    depth: Count | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """The record of a whole run: its settings, its rounds and what follows from them.

    paths: the topology; empty if `trees` has it, or if each round grew its own tree.
    prompt_ids: token ids of the prompt, which is the formatted text if `chat`.
    seed: the seed in use, also if it was drawn.
    target, draft: the models' names.
    prefill_seconds: time for the prompt without its last token.
    arithmetic: how the models' logits were computed, as in `ModelPair.arithmetic`; empty in old records.
    draft_temperature: the draft's own temperature; None if it was the target's.
    drafter: its name in the settings, or the name of a user's drafter.
    baseline, timings: plain decoding of the same prompt with the same seed, and the times of repeats of both;
    empty if not measured.
    chat: whether the prompt is a question that the chat template formats.
    history: the conversation before this question: questions and answers in turn.
    choice: the trees among which "auto" chose; None if the tree was given.
    trees: all trees if they changed between rounds or if the draft model stopped; otherwise empty.
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
    trees: tuple[Planted, ...] = ()

    @property
    def token_ids(self) -> list[int]:
        """Ids of the new tokens, without the prompt."""
        return [token.id for round in self.rounds for token in round.tokens]

    @property
    def text(self) -> str:
        """The new text, without the prompt."""
        return "".join(round.text for round in self.rounds)

    @property
    def num_target_calls(self) -> int:
        """The number of target calls, one per round. The prefill of the prompt does not count."""
        return len(self.rounds)

    @property
    def block_efficiency(self) -> float:
        """Tokens per target call; 0 if there was no call."""
        return len(self.token_ids) / len(self.rounds) if self.rounds else 0.0

    @property
    def acceptance(self) -> Acceptance:
        """How many drafted tokens the target accepted, by position in the path and by child index."""
        return Acceptance.of(self.rounds)

    @property
    def seconds(self) -> float:
        """Seconds of all rounds together, without prefill and without waiting between rounds."""
        return sum(round.seconds.total for round in self.rounds)

    def to_json(self) -> str:
        """The record as JSON, without infinities."""
        return adapter(type(self)).dump_json(self).decode()

    def to_html(self) -> str:
        """A page in one file that plays the run offline, as the page's Save button writes it."""
        from specdec.notebook.player import page

        return page(self.to_json())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """A player of the run for notebooks, or the run's text where no scripts run."""
        from specdec.notebook.shown import generation

        return generation(self.to_json())

    @classmethod
    def from_json(cls, text: str) -> Generation:
        """Read a record that `to_json` wrote. ValueError says what is invalid, and where."""
        generation = read(cls, text)
        check_tree(generation.paths, "paths[{}]")
        for i, candidate in enumerate(generation.choice or ()):
            check_tree(candidate.paths, f"choice[{i}].paths[{{}}]")
        for i, planted in enumerate(generation.trees):
            number, previous = planted.round, generation.trees[i - 1].round if i else -1
            must(
                previous < number and (i or not number),
                f"trees[{i}].round = {number} is not in order from round 0",
            )
            check_tree(planted.paths, f"trees[{i}].paths[{{}}]")
        for number, round in enumerate(generation.rounds):
            where = f"rounds[{number}]."
            must(round.number == number, f"{where}number = {round.number}: rounds are counted from 0")
            check_round(round, where)
        for number, round in enumerate(generation.baseline):
            check_round(round, f"baseline[{number}].")
        return generation


def json_schema() -> dict[str, Any]:
    """The JSON schema of `Generation`. The types and the check of the page's scripts are made from it."""
    return adapter(Generation).json_schema()
