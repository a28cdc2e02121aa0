"""The class as the draft: its guesses change how fast the text grows, but never the text."""

from __future__ import annotations

import pytest
from fastapi import HTTPException

import specdec
from components.be_draft.rounds import Written
from components.classroom import drafting

PROMPT = "Once upon a time, there was a little"
SEED = 5


@pytest.fixture
def text(pair):
    return drafting.Drafting(PROMPT, pair.encode(PROMPT), SEED)


def drafted(pair, text, *rounds):
    """The text after these rounds of proposals."""
    for words in rounds:
        text.take(drafting.checked(pair, text.text_ids, words, SEED))
        text.go_on()
    return text


@pytest.fixture(scope="module")
def alone(pair):
    """The text that the target writes without any draft."""
    settings = {"method": "ar", "seed": SEED, "temperature": 0.7, "max_new_tokens": 60, "detail": False}
    return specdec.generate(pair, PROMPT, **settings)


WORDS = [["girl", "girl", "boy"], [".", ","], ["She"], ["loved", "was", "saw a bird"], ["three"]]


@pytest.mark.parametrize(
    "rounds", [WORDS, [["xyzzy"]] * 6, [["elephant tree"], ["a", "a b", "a b c", "b"]] * 3]
)
def test_whatever_a_class_guesses_the_text_is_the_targets_own(pair, text, alone, rounds):
    drafted(pair, text, *rounds)
    ids = text.text_ids[len(pair.encode(PROMPT)) :]
    assert ids == alone.token_ids[: len(ids)]
    assert len(ids) >= len(rounds)
    assert "".join(part for part, _ in text.pieces) == alone.text[: len("".join(p for p, _ in text.pieces))]


def test_a_right_guess_is_accepted_and_counted(pair, text, alone):
    word = alone.text.split()[0].strip(".,!?")
    begun = f"{word} xyzzy"
    checked = drafting.checked(pair, text.text_ids, [word, word, begun, "xyzzy"], SEED)
    assert checked.proposals == [(word, 2, "accepted"), (begun, 1, "begun"), ("xyzzy", 1, "rejected")]
    assert checked.accepted >= 1
    assert checked.pieces[0][1] == "accepted"
    text.take(checked)
    assert (text.rounds, text.accepted) == (1, checked.accepted)


def test_the_small_model_is_asked_at_the_same_place_with_the_same_tree(pair, text):
    checked = drafting.checked(pair, text.text_ids, ["xyzzy", "qqq"], SEED)
    tree = Written(drafting._ids(pair, word) for word in ("xyzzy", "qqq")).topology
    settings = {"method": "ersd", "temperature": 0.7, "seed": SEED, "topology": tree}
    first = next(specdec.stream(pair, text.text_ids, **settings))
    assert (checked.accepted, checked.by_model) == (0, first.num_accepted)


def test_a_text_ends_at_a_word_so_that_the_next_guess_is_a_word(pair, text):
    for _ in range(12):
        drafted(pair, text, ["xyzzy"])
        following = next(
            iter(specdec.stream(pair, text.text_ids, method="ar", temperature=0.7, seed=SEED))
        ).tokens[0]
        assert not following.text[:1].isalnum(), (text.pieces, following)


def test_the_most_frequent_guesses_are_the_tree(pair, text):
    words = [f"word{i}" for i in range(20)] + ["girl"] * 3 + ["boy"] * 2
    checked = drafting.checked(pair, text.text_ids, words, SEED)
    assert [name for name, *_ in checked.proposals[:2]] == ["girl", "boy"]
    assert len(checked.proposals) == drafting.MOST_PROPOSALS
    assert checked.others == 20 - (drafting.MOST_PROPOSALS - 2)


def test_one_guess_a_round_and_none_when_it_is_over(text):
    text.propose("one", 1, "  a\u200b  little\ud800 ")
    assert text.proposed == {"one": "a little"}
    for student, number, guess in (("one", 1, "more"), ("two", 2, "early"), ("two", 1, " \n ")):
        with pytest.raises(HTTPException):
            text.propose(student, number, guess)
    text.checking = True
    with pytest.raises(HTTPException, match="over"):
        text.propose("two", 1, "late")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x\u0301\u0302\u0303\u0304\u0305word", "x\u0301\u0302word"),
        ("a\u0489\u0488\u20dd\u20dd", "a\u0489\u0488"),
        ("e\u0301te\u0301", "été"),
        ("Vie\u0323\u0302t", "Việt"),
        ("ผู้หญิง", "ผู้หญิง"),
        ("a\u202e\u0300 b ", "à b"),
    ],
)
def test_marks_do_not_climb_over_the_projectors_sentence(text, expected):
    assert drafting.written(text) == expected


@pytest.mark.parametrize(
    ("prompt", "proposed"),
    [("There was a", "she"), ("He slept. ", "She"), ('"Stop!" ', "She"), ("Why", "she")],
)
def test_a_guess_has_a_capital_letter_where_a_sentence_begins(pair, prompt, proposed):
    text = drafting.Drafting(prompt, pair.encode(prompt), SEED)
    text.propose("one", 1, "she")
    assert text.proposed == {"one": proposed}
