"""The watermark of the exponential race: a score for each token of the shown run, and the p-value of the
text up to each token.

`specdec.exactness.watermark` computes the scores: with the run's seed, with another seed, and for the text
after edits. The panel needs no model. `assets/watermark/panel.js` draws the scores.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from components.page import frame
from components.page.questions import Answer, Question, answers
from specdec.exactness.watermark import p_values, score

MOST_TOKENS = 400
"""The largest number of tokens that are scored, from the start of the text."""
CERTAIN = 1e-6
"""A text counts as marked if its p-value is below this. By chance, one in a million unmarked texts is below
it, too."""

_Seed = Annotated[int, Field(ge=0, lt=2**53)]


class Text(Question):
    """A text to score: its tokens, the position of the first one, its seed, and another seed to compare
    with."""

    token_ids: Annotated[
        list[Annotated[int, Field(ge=0, lt=2**53)]], Field(min_length=1, max_length=MOST_TOKENS)
    ]
    first_position: Annotated[int, Field(ge=0, lt=2**31)]
    seed: _Seed
    other_seed: _Seed


@answers
def marked(question: Text) -> Answer:
    """Score several versions of the text.

    Each version has three lists. places: the original position of each token; scores: one per token;
    p_values: one for each prefix.

    There are four versions. key: the text with its own seed. wrong: the text with the other seed. tenth: a
    tenth of the tokens is replaced by other tokens of the text. less: the middle token is removed.
    """
    ids = question.token_ids
    all_places = [*range(len(ids))]
    middle = len(ids) // 2
    versions = {
        "key": (all_places, question.seed),
        "wrong": (all_places, question.other_seed),
        "tenth": (_tenth_replaced(ids, question.seed), question.seed),
        "less": (all_places[:middle] + all_places[middle + 1 :], question.seed),
    }
    return {name: _scored(ids, places, question, seed) for name, (places, seed) in versions.items()}


def _scored(ids: Sequence[int], places: Sequence[int], question: Text, seed: int) -> Answer:
    scores = score([ids[place] for place in places], seed, question.first_position)
    return {"places": places, "scores": scores.tokens, "p_values": p_values(scores.tokens)}


def _tenth_replaced(ids: Sequence[int], seed: int) -> list[int]:
    """For each position, the index in the text of the token that is put there. About a tenth of the
    positions, at least one, get another token of the text, if the text has different tokens."""
    chance, places = random.Random(seed), [*range(len(ids))]
    for place in chance.sample(places, max(1, round(len(ids) / 10))):
        candidates = [other for other, token_id in enumerate(ids) if token_id != ids[place]]
        places[place] = chance.choice(candidates or [place])
    return places


_VERSIONS = {
    "key": ("with its seed", "the key"),
    "wrong": ("with another seed", "a wrong key"),
    "tenth": ("a tenth replaced", "the key; a tenth of the tokens is replaced"),
    "less": ("one token left out", "the key; a token in the middle is missing"),
}

LINK = '<button type="button" class="below">Below: the seed is a watermark</button>'
"""The link at the top of the view that leads to this part. When it is pressed, `assets/watermark/panel.js`
scrolls to the part."""


def panel() -> frame.Part:
    """The panel with the watermark of the shown run."""
    template = frame.template("watermark/panel", versions=_VERSIONS)
    return frame.panel("watermark", template, functions=[marked], mostTokens=MOST_TOKENS, certain=CERTAIN)
