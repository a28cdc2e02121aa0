"""The class as the draft: students propose the next words, and the most frequent proposals form the tree.

    words of the class --> tokens --> a tree of the most frequent --> one target call, by ERSD
                                                                 '--> the small model in the class's place

Under ERSD the seed and the position alone decide the text (`be_draft.rounds`). For comparison, the small
model drafts at the same place, with a tree of the same shape.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from fastapi import HTTPException

import specdec
from components.be_draft.rounds import Written, drafter_round, played
from specdec.pair import ModelPair
from specdec.trace import Token

MOST_CHARACTERS = 24
"""A proposal may have at most this many characters."""
MOST_PROPOSALS = 8
"""At most this many proposals form the tree: those that most students made."""
LONGEST = 96
"""The text ends after the round that brings it to at least this many tokens."""
_MOST_TOKENS = 6
"""The most tokens of one proposal, and the most tokens with which the target completes a word."""
_MARKS = 2
"""The most combining marks (such as accents) that a letter may have. No language that people type on a phone
needs more."""
_SAMPLING: dict[str, Any] = {"temperature": 0.7}

Piece = tuple[str, str]
"""A piece of the text: a token's text and its kind."""
Outcome = Literal["accepted", "begun", "rejected"]
"""Whether the target accepted all tokens of a proposal, only the first of them, or none."""


@dataclass
class Checked:
    """The result of a round.

    proposals: each proposal in the tree, with its number of students and its `Outcome`; others: number of
    students whose proposal is not in the tree. pieces, token_ids: what the round added to the text; no ids if
    the text has ended. accepted: number of tokens that the target accepted from the class; by_model: number
    that it accepted from the small model in the place of the class.
    """

    proposals: list[tuple[str, int, Outcome]]
    others: int
    pieces: list[Piece]
    token_ids: list[int]
    accepted: int
    by_model: int


@dataclass
class Drafting:
    """A text that a class drafts, round by round. number: the number of the current round, from 1. result:
    the current round's result, or None before it is verified. checking: whether the target is verifying it
    now. rounds, accepted, by_model: totals of all rounds. proposed: the current proposals, by student."""

    prompt: str
    text_ids: list[int]
    seed: int
    number: int = 1
    pieces: list[Piece] = field(default_factory=list)
    result: Checked | None = None
    checking: bool = False
    rounds: int = 0
    accepted: int = 0
    by_model: int = 0
    ended: bool = False
    proposed: dict[str, str] = field(default_factory=dict)

    def propose(self, student: str, number: int, text: str) -> None:
        """Record a student's proposal for the round with this number. `HTTPException` if that round is over,
        for a second proposal, and for an empty one."""
        if number != self.number or self.result or self.checking or self.ended:
            raise HTTPException(409, "This round is over.")
        if student in self.proposed:
            raise HTTPException(409, "You have sent a guess already.")
        text_before = "".join([self.prompt, *(piece for piece, _ in self.pieces)])
        if not (word := _capitalised(text_before, written(text))):
            raise HTTPException(422, "Write a word or a punctuation mark.")
        self.proposed[student] = word

    def take(self, result: Checked) -> None:
        """Store the result of this round."""
        self.result, self.checking = result, False
        self.pieces += result.pieces
        self.text_ids += result.token_ids
        self.rounds += 1
        self.accepted += result.accepted
        self.by_model += result.by_model
        self.ended = len(self.pieces) >= LONGEST or not result.token_ids

    def go_on(self) -> None:
        """Start the next round, unless the text has ended."""
        if not self.ended:
            self.number, self.result, self.proposed = self.number + 1, None, {}


def written(text: str) -> str:
    """A proposal in the form that the class may see.

    Surrounding spaces and unprintable characters are removed, and so are combining marks beyond `_MARKS` on a
    letter: a stack of them would cover the lines above on the projector.
    """
    marks, characters = 0, []
    for character in unicodedata.normalize("NFC", "".join(filter(str.isprintable, text))):
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        if marks <= _MARKS:
            characters.append(character)
    return " ".join("".join(characters).split())[:MOST_CHARACTERS]


def _capitalised(text: str, word: str) -> str:
    """The word, capitalised if it begins a sentence. Students type it in lower case, because their page
    switches off the automatic capitals of phones."""
    begins = text.rstrip(' "').endswith((".", "!", "?"))
    return word[:1].upper() + word[1:] if begins else word


def checked(pair: ModelPair, text_ids: Sequence[int], proposed: Iterable[str], seed: int) -> Checked:
    """Verify one round with the proposals of a class as the draft. The target then writes the rest of the
    current word alone."""
    counts = Counter(proposed)
    drafts = {text: _ids(pair, text) for text, _ in counts.most_common(MOST_PROPOSALS)}
    by_class = played(pair, text_ids, drafts.values(), seed, detail=False, **_SAMPLING)
    tree = Written(drafts.values()).topology
    accepted = [token.id for token in by_class.tokens if token.kind == "accepted"]
    has_ended = by_class.finish == "eos"
    tokens = list(by_class.tokens)
    if not has_ended:
        tokens += _rest_of_word(pair, [*text_ids, *(token.id for token in tokens)], seed)
    return Checked(
        [(text, counts[text], _outcome(ids, accepted)) for text, ids in drafts.items()],
        counts.total() - sum(counts[text] for text in drafts),
        [(token.text, token.kind) for token in tokens],
        [] if has_ended else [token.id for token in tokens],
        by_class.num_accepted,
        drafter_round(pair, text_ids, tree, seed, **_SAMPLING).accepted,
    )


def _outcome(ids: list[int], accepted: list[int]) -> Outcome:
    if accepted[: len(ids)] == ids:
        return "accepted"
    return "begun" if accepted[:1] == ids[:1] else "rejected"


def _ids(pair: ModelPair, text: str) -> list[int]:
    """The tokens of a proposal. A space is put before a word, but not before a punctuation mark."""
    return pair.encode(f" {text}" if text[0].isalnum() else text)[:_MOST_TOKENS]


def _rest_of_word(pair: ModelPair, text_ids: Sequence[int], seed: int) -> list[Token]:
    """The tokens that the target writes until the current word ends."""
    plain: dict[str, Any] = {"method": "ar", "max_new_tokens": _MOST_TOKENS, "detail": False, **_SAMPLING}
    run = specdec.stream(pair, text_ids, seed=seed, **plain)
    tokens: list[Token] = []
    with closing(run):
        for round in islice(run, _MOST_TOKENS):
            [token] = round.tokens
            if round.finish == "eos" or not token.text[:1].isalnum():
                break
            tokens.append(token)
    return tokens
