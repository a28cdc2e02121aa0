"""The server functions of "You draft": one verifies a guess, the other writes the whole story with the target
alone.

The server stores no run. Each guess carries the story so far, the typed words, the seed and the temperature,
and under ERSD these decide the answer (`rounds`). The models are always the embedded story models: anyone can
continue a story, and a question costs the same on every server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import Field

import specdec
from components.be_draft.rounds import Written, drafter_round, played
from components.page.questions import Answer, Question, answers
from components.runs import lazy, topologies, zero_gpu
from components.visitors import limits
from specdec import ModelPair, Round
from specdec.drafters import NGram
from specdec.pair import Pair
from specdec.text import TextStream
from specdec.topology import Path

MOST_WRITTEN, MOST_OPENING, MOST_TYPED, MOST_GUESSED = 64, 200, 80, 12
"""Limits of a question: tokens of the story so far, characters of the opening, characters of the typed words,
and tokens of the typed words."""

_Token = Annotated[int, Field(ge=0)]


class Story(Question):
    """The fields of a question that identify its story: the opening, the seed and the temperature."""

    prompt: Annotated[str, Field(max_length=MOST_OPENING)]
    seed: Annotated[int, Field(ge=0, lt=2**53)]
    temperature: Annotated[float, Field(ge=0, le=2)]


class Guess(Story):
    """A question about a guess. written: the story's tokens after the opening; typed: the words that the
    visitor typed next."""

    written: Annotated[list[_Token], Field(max_length=MOST_WRITTEN)]
    typed: Annotated[str, Field(max_length=MOST_TYPED)]


class Whole(Story):
    """A request that the target writes a story alone, with this number of tokens."""

    length: Annotated[int, Field(ge=1, le=MOST_WRITTEN + MOST_GUESSED + 1)]


def questions(pair: Pair) -> tuple[Callable[[Any], Answer], ...]:
    """The server functions `guessed` and `alone`. pair: the pair that the page uses."""

    @answers
    def guessed(question: Guess) -> Answer:
        return _guessed(pair, question)

    @answers
    def alone(question: Whole) -> Answer:
        return _alone(pair, question)

    return guessed, alone


def _guessed(pair: Pair, question: Guess) -> Answer:
    """Verify the words that the visitor typed.

    The answer has these fields. tokens: id, text and kind of each token that the target call yields. guess:
    text, status and target probability of each typed token. others: for each other drafter, the number of
    tokens that it drafted at the same place, the number of accepted ones, and the seconds of drafting. ended:
    whether the story is over.
    """
    small, prompt_ids = _models_and_opening(pair, question)
    # `encode` raises ValueError for an id that is no token, and also for an empty list of ids.
    text_ids = small.encode(question.written) if question.written else []
    ids, sampling = [*prompt_ids, *text_ids], {"temperature": question.temperature}
    readings = _readings(small, question.typed, ids)
    round = played(small, ids, readings, question.seed, **sampling)
    best = max(readings, key=lambda reading: _num_accepted(reading, round), default=[])
    tree, drafters = Written([best]).topology, {"draft": None, "ngram": NGram()}
    proposals = {
        name: drafter_round(small, ids, tree, question.seed, drafter, **sampling)._asdict()
        for name, drafter in drafters.items()
    }
    has_ended = round.finish == "eos"
    texts = _texts(small, prompt_ids, [*text_ids, *(token.id for token in round.tokens)], has_ended)
    return {
        "tokens": [
            {"id": token.id, "text": text, "kind": token.kind}
            for token, text in zip(round.tokens, texts[len(text_ids) :], strict=True)
        ],
        "guess": _statuses(small, best, round),
        "others": proposals,
        "ended": has_ended,
    }


def _alone(pair: Pair, question: Whole) -> Answer:
    """Let the target write the story alone, one call per token. The answer has the token ids and the text."""
    small, prompt_ids = _models_and_opening(pair, question)
    plain = specdec.generate(
        small,
        prompt_ids,
        method="ar",
        seed=question.seed,
        temperature=question.temperature,
        max_new_tokens=question.length,
    )
    texts = _texts(small, prompt_ids, plain.token_ids, plain.rounds[-1].finish == "eos")
    return {"ids": plain.token_ids, "text": "".join(texts)}


def _models_and_opening(pair: Pair, story: Story) -> tuple[ModelPair, list[int]]:
    """The story models, and the token ids of the story's opening."""
    small = story_models(pair)
    lazy.use_threads(small)
    prompt_ids = small.encode(story.prompt)
    limits.at_most("opening", len(prompt_ids), MOST_OPENING, "tokens")
    return small, prompt_ids


def story_models(pair: Pair) -> ModelPair:
    """The story models of this package on the CPU. If they are not the page's pair, a copy is loaded.

    The function never waits for a download, which would block the questions of all other visitors."""
    loaded_pair = lazy.present(pair) if lazy.is_loaded(pair) else zero_gpu.embedded()
    embedded = isinstance(loaded_pair, ModelPair) and topologies.is_embedded(loaded_pair)
    small = loaded_pair if embedded and loaded_pair.target.device.type == "cpu" else zero_gpu.embedded()
    assert isinstance(small, ModelPair), "the pair is in this process"
    return small


def _readings(pair: ModelPair, typed: str, ids: Sequence[int]) -> list[list[int]]:
    """The typed words as tokens, in two versions: as typed, and with a space in front if there is none.

    Both versions are drafted side by side, so that a missing space does not spoil a good guess.
    """
    words = typed.rstrip()
    if not words.strip():
        return []
    spaced = words.startswith((" ", "\n")) or pair.token_texts[ids[-1]].endswith((" ", "\n"))
    readings = [pair.encode(words)] if spaced else [pair.encode(f" {words}"), pair.encode(words)]
    for reading in readings:
        limits.at_most("guess", len(reading), MOST_GUESSED, "tokens")
    return readings


def _num_accepted(reading: Sequence[int], round: Round) -> int:
    """The number of accepted tokens at the start of `reading`, which is one version of the guess."""
    accepted = [token.id for token in round.tokens[: round.num_accepted]]
    return next(
        (i for i, ids in enumerate(zip(reading, accepted, strict=False)) if ids[0] != ids[1]), len(accepted)
    )


def _statuses(pair: ModelPair, reading: Sequence[int], round: Round) -> list[Answer]:
    """Text, status and target probability of each token in `reading`, from its node in the draft tree."""
    statuses: list[Answer] = []
    path: Path = ()
    for token_id in reading:
        node = next(node for node in round.nodes if node.path[:-1] == path and node.token_id == token_id)
        statuses.append({"text": pair.token_texts[token_id], "status": node.status, "p": node.p})
        path = node.path
    return statuses


def _texts(pair: ModelPair, prompt_ids: Sequence[int], ids: Sequence[int], has_ended: bool) -> list[str]:
    """The text that each token adds. If later tokens can still change a text, it belongs to the token that
    makes it final, or to the story's last token."""
    stream = TextStream(pair.tokenizer, prompt_ids)
    texts = [stream.push(token_id) for token_id in ids]
    if has_ended:
        texts[-1] += stream.flush()
    return texts
