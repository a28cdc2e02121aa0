"""The race as a watermark: exact p-values without the key, strong evidence with it, and edited texts."""

import math
import random

import pytest

import specdec
from specdec.exactness.losslessness import chi_square
from specdec.exactness.watermark import score
from specdec.race import log_exponentials
from tests.helpers.distributions import FALSE_ALARM, markov_pair

PAIR = markov_pair(64, seed=1)
PROMPT = [0, 1, 2]


def text(method="ersd", seed=1, tokens=80):
    return specdec.generate(PAIR, PROMPT, method=method, seed=seed, max_new_tokens=tokens).token_ids


def test_scores_are_those_of_the_race():
    race = log_exponentials(7, range(5, 9), 64).exp()
    scores = score([3, 0, 63, 9], 7, first_position=5)
    for i, token in enumerate([3, 0, 63, 9]):
        assert scores.tokens[i] == pytest.approx(-math.log(-math.expm1(-float(race[i, token]))))
    assert scores.total == pytest.approx(sum(scores.tokens))


@pytest.mark.parametrize(("count", "total"), [(1, 0.5), (30, 30.0), (200, 260.0), (80, 300.0)])
def test_the_p_value_is_that_of_a_gamma(count, total, monkeypatch):
    from scipy.stats import gamma

    monkeypatch.setattr("specdec.exactness.watermark.uniform", lambda *_: math.exp(-total / count))
    assert score([1] * count, 3).p_value == pytest.approx(gamma.sf(total, count), rel=1e-9)


@pytest.mark.parametrize("who", ["another text", "another seed"])
def test_without_the_key_p_values_are_uniform(who):
    """A χ² test with 10 bins, 1,000 texts of 20 tokens. A false alarm has probability 1e-6. The control is
    the text with its key."""
    generator, right = random.Random(3), 0
    counts = dict.fromkeys(((i,) for i in range(10)), 0)
    winners = text(tokens=20)
    for seed in range(2, 1002):
        other = [generator.randrange(64) for _ in range(20)]
        counts[int(score(winners if who == "another seed" else other, seed, 3).p_value * 10),] += 1
    distribution = dict.fromkeys(counts, 0.1)
    assert chi_square(counts, distribution).p_value > FALSE_ALARM
    for seed in range(20):
        right += score(text(seed=seed, tokens=20), seed, 3).p_value < 0.1
    assert right >= 18


@pytest.mark.parametrize("method", ["ar", "ersd"])
def test_with_the_key_a_text_is_known_by_its_score(method):
    """80 tokens of about 5 bits: on average at least 2 per token, and a p-value below 1e-12."""
    for seed in range(5):
        scores = score(text(method, seed), seed, len(PROMPT))
        assert scores.total / 80 > 2
        assert score(text(method, seed)[:20], seed, len(PROMPT)).p_value > scores.p_value
        assert scores.p_value < 1e-12
        assert score(text(method, seed), seed + 1, len(PROMPT)).p_value > FALSE_ALARM


def test_replacing_a_tenth_weakens_the_mark_and_a_token_more_ends_it_there():
    tokens, generator = text(), random.Random(1)
    edited = list(tokens)
    for i in generator.sample(range(80), 8):
        edited[i] = generator.randrange(64)
    full, tenth = score(tokens, 1, 3), score(edited, 1, 3)
    assert full.p_value < tenth.p_value < 1e-9
    behind = score([5, *tokens], 1, 3)
    assert behind.p_value > FALSE_ALARM
    half = score([*tokens[:40], 5, *tokens[40:]], 1, 3)
    assert sum(half.tokens[:40]) == pytest.approx(sum(full.tokens[:40]))
    assert sum(half.tokens[40:]) < 1.6 * 41  # the p-value is as by chance, except once in 4,000


def test_nothing_proves_nothing():
    assert score([], 1) == ((), 0.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (([1], -1), "seed = -1"),
        (([1, -2], 1), r"token_ids\[1\] = -2"),
        (([1.5], 1), r"token_ids\[0\] = 1.5"),
        (([1], 1, -1), "first_position = -1"),
    ],
)
def test_mistakes_are_named(arguments, names):
    with pytest.raises(ValueError, match=names):
        score(*arguments)
