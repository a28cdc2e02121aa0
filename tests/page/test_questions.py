"""Whatever a stranger sends to a panel's server function, the answer is a message or plain data, never an
exception."""

from __future__ import annotations

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
    ],
)
def test_what_does_not_fit_is_named_with_what_would_be_right(question, error):
    assert doubled(question)["error"].startswith(error)


def test_a_failure_of_ours_shows_no_internals(caplog):
    assert "division" not in doubled({"k": 0})["error"]
    assert "division by zero" in caplog.text


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("question", [None, True, 5, 10**400, float("nan"), "x", "\ud800", [], [[1]], {}])
def test_no_panel_fails_at_a_question_of_another_kind(function, question):
    answer = function(question)
    assert list(answer) == ["error"]
    assert answer["error"].startswith(("the question = ", *(f"{name}: field" for name in NEEDED)))


NEEDED = ("p", "acceptance", "sentence", "method", "weights", "prompt", "token_ids", "preset")
