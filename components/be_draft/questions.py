"""What the page asks about a story: the target's answer to a guess, and the story without any.

No run is kept here. A question holds the story so far and what was typed after it, and under ERSD the answer
is decided by these, the seed and the temperature (`rounds`). The models are always the small ones for
stories: a story is what everybody can go on with, and a question costs the same on every server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import Field

import specdec
from components.be_draft.rounds import Written, in_their_place, played
from components.guard import limits
from components.page.questions import Answer, Question, answers
from components.server import lazy, topologies, zero_gpu
from specdec import ModelPair, Round
from specdec.drafters import NGram
from specdec.pair import Pair
from specdec.text import TextStream
from specdec.topology import Path

MOST_WRITTEN, MOST_OPENING, MOST_TYPED, MOST_GUESSED = 64, 200, 80, 12
"""Tokens of a story so far; characters of an opening and of what is typed, and tokens of the latter."""

_Token = Annotated[int, Field(ge=0)]


class Story(Question):
    """What decides a story: its opening, the seed and the target's temperature."""

    prompt: Annotated[str, Field(max_length=MOST_OPENING)]
    seed: Annotated[int, Field(ge=0, lt=2**53)]
    temperature: Annotated[float, Field(ge=0, le=2)]


class Guess(Story):
    """The tokens written after the opening, and what the visitor types after them."""

    written: Annotated[list[_Token], Field(max_length=MOST_WRITTEN)]
    typed: Annotated[str, Field(max_length=MOST_TYPED)]


class Whole(Story):
    """How many tokens of the story the target writes alone."""

    length: Annotated[int, Field(ge=1, le=MOST_WRITTEN + MOST_GUESSED + 1)]


def questions(pair: Pair) -> tuple[Callable[[Any], Answer], ...]:
    """The server functions `guessed` and `alone`. pair: the page's."""

    @answers
    def guessed(asked: Guess) -> Answer:
        """What the target says to what was typed.

        tokens: id, text and kind of what the call yields. guess: text, status and chance under the target of
        each typed token. others: by drafter, how many tokens it drafts and is accepted in the same place, and
        the seconds that takes. ended: whether the story is over.
        """
        small, prompt_ids = _begun(pair, asked)
        # an id that is none is named; nothing comes before it
        written = small.encode(asked.written) if asked.written else []
        ids, sampling = [*prompt_ids, *written], {"temperature": asked.temperature}
        readings = _readings(small, asked.typed, ids)
        round = played(small, ids, readings, asked.seed, **sampling)
        read = max(readings, key=lambda reading: _agreed(reading, round), default=[])
        tree, drafters = Written([read]).topology, {"draft": None, "ngram": NGram()}
        others = {
            name: in_their_place(small, ids, tree, asked.seed, drafter, **sampling)._asdict()
            for name, drafter in drafters.items()
        }
        ended = round.finish == "eos"
        texts = _texts(small, prompt_ids, [*written, *(token.id for token in round.tokens)], ended)
        return {
            "tokens": [
                {"id": token.id, "text": text, "kind": token.kind}
                for token, text in zip(round.tokens, texts[len(written) :], strict=True)
            ],
            "guess": _statuses(small, read, round),
            "others": others,
            "ended": ended,
        }

    @answers
    def alone(asked: Whole) -> Answer:
        """ids and text of the story by the target alone, one call a token."""
        small, prompt_ids = _begun(pair, asked)
        plain = specdec.generate(
            small,
            prompt_ids,
            method="ar",
            seed=asked.seed,
            temperature=asked.temperature,
            max_new_tokens=asked.length,
        )
        ended = plain.rounds[-1].finish == "eos"
        return {
            "ids": plain.token_ids,
            "text": "".join(_texts(small, prompt_ids, plain.token_ids, ended)),
        }

    return guessed, alone


def _begun(pair: Pair, story: Story) -> tuple[ModelPair, list[int]]:
    """The small models, and the opening's ids."""
    small = story_models(pair)
    lazy.use_threads(small)
    prompt_ids = small.encode(story.prompt)
    limits.at_most("opening", len(prompt_ids), MOST_OPENING, "tokens")
    return small, prompt_ids


def story_models(pair: Pair) -> ModelPair:
    """The page's pair where it is the embedded one on a CPU: there nobody waits for a turn of the model."""
    here = lazy.present(pair)
    embedded = isinstance(here, ModelPair) and topologies.is_embedded(here)
    small = here if embedded and here.target.device.type == "cpu" else zero_gpu.embedded()
    assert isinstance(small, ModelPair), "a pair in this process"
    return small


def _readings(pair: ModelPair, typed: str, ids: Sequence[int]) -> list[list[int]]:
    """Token ids of what was typed, with a space before it and without one where none was typed.

    Both are drafted, side by side: nobody should lose a word for a space.
    """
    words = typed.rstrip()
    if not words.strip():
        return []
    spaced = words.startswith((" ", "\n")) or pair.token_texts[ids[-1]].endswith((" ", "\n"))
    readings = [pair.encode(words)] if spaced else [pair.encode(f" {words}"), pair.encode(words)]
    for reading in readings:
        limits.at_most("guess", len(reading), MOST_GUESSED, "tokens")
    return readings


def _agreed(reading: Sequence[int], round: Round) -> int:
    """How many of these tokens the round wrote, from its first on."""
    kept = [token.id for token in round.tokens[: round.num_accepted]]
    return next((i for i, ids in enumerate(zip(reading, kept, strict=False)) if ids[0] != ids[1]), len(kept))


def _statuses(pair: ModelPair, read: Sequence[int], round: Round) -> list[Answer]:
    """What became of each typed token, as of the node of the tree that it is."""
    found: list[Answer] = []
    path: Path = ()
    for token_id in read:
        node = next(node for node in round.nodes if node.path[:-1] == path and node.token_id == token_id)
        found.append({"text": pair.token_texts[token_id], "status": node.status, "p": node.p})
        path = node.path
    return found


def _texts(pair: ModelPair, prompt_ids: Sequence[int], ids: Sequence[int], ended: bool) -> list[str]:
    """The text that each token adds; what a later token may change comes with that, or at the end."""
    stream = TextStream(pair.tokenizer, prompt_ids)
    texts = [stream.push(token_id) for token_id in ids]
    if ended:
        texts[-1] += stream.flush()
    return texts
