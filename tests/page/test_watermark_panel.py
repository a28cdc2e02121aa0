"""The watermark's panel shows what the core computes, for the text and for the text after edits."""

import json

import pytest

import specdec
from components.page.assets import ASSETS
from components.watermark.panel import CERTAIN, MOST_TOKENS, marked
from specdec.exactness.watermark import p_values, score

RUN = specdec.Generation.from_json((ASSETS / "traces" / "story.json").read_text())
TEXT = {
    "token_ids": RUN.token_ids,
    "first_position": len(RUN.prompt_ids),
    "seed": RUN.seed,
    "other_seed": RUN.seed + 1,
}


def test_beginnings_end_with_the_p_value_of_the_whole():
    scores = score(RUN.token_ids, RUN.seed, len(RUN.prompt_ids))
    values = p_values(scores.tokens)
    assert values[-1] == pytest.approx(scores.p_value, rel=1e-9)
    assert values[9] == pytest.approx(
        score(RUN.token_ids[:10], RUN.seed, len(RUN.prompt_ids)).p_value, rel=1e-9
    )
    assert p_values([]) == ()


def test_the_opening_run_is_marked_with_its_seed_alone_and_still_after_an_edit():
    """A wrong key gives a false alarm with probability 1e-6. The seeds are fixed."""
    versions = marked(TEXT)
    last = {name: version["p_values"][-1] for name, version in versions.items()}
    assert last["key"] == pytest.approx(score(RUN.token_ids, RUN.seed, len(RUN.prompt_ids)).p_value, rel=1e-9)
    assert last["key"] < last["tenth"] < CERTAIN < last["wrong"]
    assert last["less"] > last["tenth"]
    assert versions["wrong"]["scores"] == score(RUN.token_ids, RUN.seed + 1, len(RUN.prompt_ids)).tokens


def test_edits_are_what_they_are_called():
    versions, n = marked(TEXT), len(RUN.token_ids)
    changed = [place for place, other in enumerate(versions["tenth"]["places"]) if place != other]
    assert len(changed) == round(n / 10)
    assert all(RUN.token_ids[place] != RUN.token_ids[versions["tenth"]["places"][place]] for place in changed)
    assert versions["less"]["places"] == [place for place in range(n) if place != n // 2]
    half = n // 2
    assert versions["less"]["scores"][:half] == versions["key"]["scores"][:half]
    assert marked(TEXT) == versions  # the result is the same if it is requested again


@pytest.mark.parametrize("token_ids", [[3], [3, 3, 3], [0] * MOST_TOKENS])
def test_short_and_monotonous_texts_are_scored_too(token_ids):
    parts = marked({"token_ids": token_ids, "first_position": 0, "seed": 0, "other_seed": 2**53 - 1})
    assert {len(version["scores"]) for name, version in parts.items() if name != "less"} == {len(token_ids)}
    assert len(parts["less"]["p_values"]) == len(token_ids) - 1
    json.dumps(parts, allow_nan=False)
