"""Whatever a stranger sends to a panel's server function, the answer is a message or plain data, never an
exception."""

from __future__ import annotations

import math

import pytest

from components.be_draft import questions as be_draft
from components.codecs import panel as codecs
from components.page.questions import Question, answers
from components.payoff import panel as payoff
from components.race_lab import panel as race_lab
from components.tree_lab import panel as tree_lab
from components.watermark import panel as watermark

FUNCTIONS = [
    *(race_lab.exact, race_lab.simulated, tree_lab.grown, tree_lab.best_tree),
    *(codecs.sent, codecs.distributions, codecs.tunstall),
    *(*be_draft.questions(None), watermark.marked, payoff.answering(None)),
]


class Size(Question):
    k: int
    word: str = ""


@answers
def doubled(size: Size):
    """Twice k."""
    return {"k": 2 * size.k, "word": size.word, "inverse": 1 / size.k}


def test_what_fits_is_answered():
    assert doubled({"k": 2, "word": "é", "other": 1}) == {"k": 4, "word": "é", "inverse": 0.5}


@pytest.mark.parametrize(
    ("question", "error"),
    [
        ({}, "k: field required"),
        ({"k": "2"}, "k = '2': should be a valid integer"),
        ({"k": True}, "k = True: should be a valid integer"),
        ({"k": [0] * 500}, "k = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,: should be"),
        ({"k": 2, "word": "a\ud800"}, "'\\ud800' is half a character"),
        (None, "the question = None: should be a valid dictionary"),
        ({"k": None}, "k is empty: give a whole number"),
    ],
)
def test_what_does_not_fit_is_named_with_what_would_be_right(question, error):
    assert doubled(question)["error"].startswith(error)


def test_a_failure_of_ours_shows_no_internals(caplog):
    assert "division" not in doubled({"k": 0})["error"]
    assert "division by zero" in caplog.text


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_no_panel_fails_at_a_question_of_another_kind(function):
    for question in (None, True, 5, 10**400, float("nan"), "x", "\ud800", [], [[1]], {}):
        answer = function(question)
        assert list(answer) == ["error"]
        assert answer["error"].startswith(("the question = ", *(f"{name}: field" for name in NEEDED)))


NEEDED = ("p", "acceptance", "sentence", "method", "weights", "prompt", "token ids", "preset")
GUESSED = {"prompt": "Tom had a red ball.", "seed": 3, "temperature": 0.5, "written": [], "typed": "he"}
MARKED = {"token_ids": [3], "first_position": 0, "seed": 0, "other_seed": 1}
SPLIT = {"method": "greedy_rejection", "p": [1, 1], "q": [1, 1]}
PAID = {"preset": "gpu"}
guessed, _ = be_draft.questions(None)
paid = payoff.answering(None)
MISTAKES = [
    (codecs.sent, {"sentence": 99}, "sentence = 99"),
    (codecs.sent, {"sentence": 0, "seed": -1}, "seed = -1"),
    (codecs.distributions, SPLIT | {"method": "gsd"}, "method = 'gsd': should"),
    (codecs.distributions, SPLIT | {"p": [1]}, "p = [1]: list should have at least 2 items"),
    (codecs.distributions, SPLIT | {"q": [1, -2]}, "q, entry 2 = -2"),
    (codecs.distributions, SPLIT | {"q": [1, math.nan]}, "q, entry 2 = nan"),
    (codecs.distributions, SPLIT | {"q": [0, 0]}, "all weights of Q are 0"),
    (codecs.distributions, SPLIT | {"q": [1, 1, 1]}, "P has 2 tokens and Q has 3"),
    (codecs.distributions, SPLIT | {"method": "poisson_functional", "q": [1, 0]}, "q[1] is 0 where p is 0.5"),
    (codecs.tunstall, {"weights": [1, 1], "k": 3, "word": "abc"}, "the word has 'c'"),
    (codecs.tunstall, {"weights": [1, 1], "k": 3, "word": ""}, "word is empty"),
    (codecs.tunstall, {"weights": [1, 1], "k": 65, "word": "a"}, "k = 65: should be"),
    (codecs.tunstall, {"weights": [1] * 9, "k": 1, "word": "a"}, "list should have at most 8 items, not 9"),
    (guessed, GUESSED | {"written": [2048]}, "token id 2048 is not in the vocabulary, 0 to 2,047"),
    (guessed, GUESSED | {"written": [-1]}, "written, entry 1 = -1"),
    (guessed, GUESSED | {"written": [1] * 65}, "should have at most 64 items"),
    (guessed, GUESSED | {"typed": "x" * 81}, "should have at most 80 characters"),
    (guessed, GUESSED | {"typed": "🎉" * 20}, "The guess is too long: 81 tokens; at most 12 are allowed"),
    (guessed, GUESSED | {"typed": "\ud800"}, "'\\ud800'"),
    (
        guessed,
        GUESSED | {"prompt": "🎉" * 200},
        "The opening is too long: 800 tokens; at most 200 are allowed",
    ),
    (guessed, GUESSED | {"seed": -1}, "seed = -1"),
    (guessed, GUESSED | {"temperature": math.nan}, "temperature = nan"),
    (guessed, GUESSED | {"temperature": 1e9}, "temperature = 1000000000.0"),
    (watermark.marked, MARKED | {"token_ids": []}, "token ids = []: list should have at least 1 item"),
    (watermark.marked, MARKED | {"token_ids": [0] * 401}, "should have at most 400 items"),
    (watermark.marked, MARKED | {"token_ids": [-1]}, "token ids, entry 1 = -1"),
    (watermark.marked, MARKED | {"token_ids": ["3"]}, "token ids, entry 1 = '3'"),
    (watermark.marked, MARKED | {"seed": 2**64}, "seed = 18446744073709551616"),
    (watermark.marked, MARKED | {"other_seed": None}, "other seed is empty"),
    (watermark.marked, MARKED | {"first_position": -1}, "first position = -1"),
    (paid, {"preset": "mars"}, "preset = 'mars' is not one of here, smollm2"),
    (paid, PAID | {"texts": 0}, "texts = 0: should be greater than or equal to 1"),
    (paid, PAID | {"texts": 1.5}, "texts = 1.5: should be a valid integer"),
    (paid, PAID | {"acceptance": math.nan}, "acceptance = nan"),
    (paid, PAID | {"rows": [1, 1, 0.5, 1, 1, 1]}, "rows, entry 3 = 0.5"),
    (paid, PAID | {"rows": [1]}, "rows = [1]"),
    (paid, PAID | {"draft_step": -1}, "draft step = -1"),
    (paid, PAID | {"shape": "ring"}, "shape = 'ring'"),
]
for answer in (race_lab.exact, race_lab.simulated):
    MISTAKES += [
        (answer, {"p": [0.5, 0.6], "q": [0.5, 0.5]}, "p is not a distribution: it sums to [1.1]"),
        (answer, {"p": [0.5, 0.5], "q": [1.0]}, "q = [1.0]: list should have at least 2 items, not 1"),
        (answer, {"p": [0.1] * 10, "q": [0.1] * 10}, "at most 8 items, not 10"),
    ]
for answer in (tree_lab.grown, tree_lab.best_tree):
    MISTAKES += [
        (answer, {"k": 3, "acceptance": [0.9, 0.9]}, "sum to at most 1"),
        (answer, {"k": 3, "acceptance": [0.0]}, "acceptance = [0.0]: no child is ever accepted"),
        (answer, {"k": 3, "acceptance": [-0.1, 0.5]}, "must be in [0, 1]"),
        (answer, {"k": 3, "acceptance": []}, "acceptance = []: list should have at least 1 item"),
        (answer, {"k": 3, "acceptance": "half"}, "acceptance = 'half': should be a valid list"),
        (answer, {"k": 3, "acceptance": [0.001] * 65}, "at most 64 items, not 65"),
    ]


@pytest.mark.parametrize(("function", "question", "message"), MISTAKES)
def test_a_value_that_does_not_fit_is_named(function, question, message):
    answer = function(question)
    assert list(answer) == ["error"]
    assert message in answer["error"]
