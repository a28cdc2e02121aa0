"""The game "You draft": whatever people write, the target's text is what it would have written alone."""

import random

import pytest

import specdec
from components.be_draft import questions as asking
from components.be_draft.rounds import DrafterRound, Written, drafter_round, played
from components.runs import zero_gpu
from components.runs.lazy import LazyPair
from specdec.drafters import NGram
from specdec.topology import Topology, sequence
from tests.helpers.distributions import markov_pair

STORY = {"prompt": "Tom had a red ball. One day", "seed": 3, "temperature": 0.5}


@pytest.fixture(scope="module")
def pair():
    return specdec.load_pair("stories", device="cpu")


@pytest.fixture(scope="module")
def ask(pair):
    return {function.__name__: function for function in asking.questions(pair)}


def words(pair, *texts):
    return [pair.encode(text) for text in texts]


@pytest.mark.parametrize(
    ("continuations", "paths", "lines"),
    [
        ([], [], []),
        ([[], [5]], [(0,)], [[5]]),
        ([[1], [2], [1, 3]], [(0,), (1,), (0, 0)], [[1, 3], [2]]),
        (
            [[2], [1, 1], [2, 9], [1, 2], [1, 1]],
            [(0,), (1,), (0, 0), (1, 0), (1, 1)],
            [[2, 9], [1, 1], [1, 2]],
        ),
    ],
)
def test_continuations_become_a_tree_in_which_equal_beginnings_are_one(continuations, paths, lines):
    people = Written(continuations)
    assert people.topology.paths == tuple(paths)
    assert people.propose([], people.topology) == lines


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_rounds_that_anybody_drafted_join_to_the_text_of_the_target_alone(temperature):
    """Each round is played independently, from text and seed. The guesses are those of a class that knows
    nothing."""
    pair, generator, text = markov_pair(6, seed=4), random.Random(1), [0, 1]
    alone = specdec.generate(pair, text, method="ar", seed=9, temperature=temperature, max_new_tokens=60)
    kinds = set()
    while len(text) < 62:
        guesses = [
            [generator.randrange(6) for _ in range(generator.randrange(4))]
            for _ in range(generator.randrange(5))
        ]
        round = played(pair, text, guesses, 9, temperature=temperature)
        text += [token.id for token in round.tokens]
        kinds |= {token.kind for token in round.tokens}
    assert text[2:62] == alone.token_ids
    assert kinds == {"accepted", "bonus", "correction", "sampled"}


def test_the_longest_right_answer_of_a_class_is_accepted(pair):
    ids = pair.encode(STORY["prompt"])
    right = specdec.generate(pair, ids, method="ar", seed=3, temperature=0.5, max_new_tokens=4).token_ids
    round = played(pair, ids, [[5], [*right[:2], 5], right[:3], right[:1]], 3, temperature=0.5)
    assert [(token.id, token.kind) for token in round.tokens] == [
        *((token_id, "accepted") for token_id in right[:3]),
        (right[3], "bonus"),
    ]
    assert round.finish is None  # the text has room for more


def test_others_draft_in_the_same_place_as_in_a_run_of_their_own(pair):
    ids = pair.encode("The dog saw the dog. The dog")
    for drafter in (None, NGram()):
        run = specdec.stream(
            pair, ids, topology=sequence(3), drafter=drafter, seed=5, max_new_tokens=9, temperature=0.5
        )
        first = next(run)
        result = drafter_round(pair, ids, sequence(3), 5, drafter, temperature=0.5)
        assert result[:2] == (3, first.num_accepted)
        assert result.seconds > 0
        run.close()
    assert drafter_round(pair, ids, Topology([]), 5) == DrafterRound(0, 0, 0.0)


def test_a_whole_story_by_questions_is_the_one_without_them(ask):
    written, text, answers = [], "", []
    typed = ["he had", "a dog", "", " ball. It", "xyzzy", "\n\nTom", "é☃", "the", "was a"]
    while len(written) < 40:
        answer = ask["guessed"]({**STORY, "written": written, "typed": typed[len(answers) % len(typed)]})
        answers.append(answer)
        written += [token["id"] for token in answer["tokens"]]
        text += "".join(token["text"] for token in answer["tokens"])
    alone = ask["alone"]({**STORY, "length": len(written)})
    assert alone == {"ids": written, "text": text}
    for answer in answers:
        texts = [token["text"] for token in answer["guess"] if token["status"] == "accepted"]
        assert texts == [token["text"] for token in answer["tokens"] if token["kind"] == "accepted"]
        most = len(answer["guess"])
        assert answer["others"]["draft"]["drafted"] == most
        assert answer["others"]["ngram"]["drafted"] <= most


def test_a_word_counts_with_its_space_or_without(ask):
    """After the comma the target writes " he went". With and without the space, the guess is the same."""
    first = ask["alone"]({**STORY, "length": 1})["ids"]
    answers = [
        ask["guessed"]({**STORY, "written": first, "typed": typed})
        for typed in ("he went", " he went", "he went ")
    ]
    assert [token["status"] for token in answers[0]["guess"]] == ["accepted", "accepted"]
    for answer in answers[1:]:
        assert [token["text"] for token in answer["guess"]] == [" he", " went"]
        assert answer["tokens"] == answers[0]["tokens"]
    comma = ask["guessed"]({**STORY, "written": [], "typed": ","})
    assert [token["status"] for token in comma["guess"]] == ["accepted"]


def test_a_rejected_guess_has_its_chance_and_what_was_behind_it_was_not_looked_at(ask):
    answer = ask["guessed"]({**STORY, "written": [], "typed": "zebras sing"})
    statuses = [token["status"] for token in answer["guess"]]
    assert statuses[0] == "rejected"
    assert set(statuses[1:]) == {"unvisited"}
    assert 0 < answer["guess"][0]["p"] < 0.01
    assert [token["kind"] for token in answer["tokens"]] == ["correction"]


def test_a_story_ends_where_the_target_ends_it(pair, ask):
    """Seed 18's story has 35 tokens. Played to its end and beyond, the page gets a message."""
    story = {"prompt": "The hungry dog looked for", "seed": 18, "temperature": 0.5}
    alone = ask["alone"]({**story, "length": 42})
    assert alone["ids"][-1] in pair.eos_ids
    answer = ask["guessed"]({**story, "written": alone["ids"][:-1], "typed": ""})
    assert answer["ended"]
    assert answer["tokens"][0]["id"] == alone["ids"][-1]


def test_the_longest_story_leaves_room_for_the_longest_guess(ask):
    ids = ask["alone"]({**STORY, "length": asking.MOST_WRITTEN})["ids"]
    longest = {"prompt": "🎉" * 49, "written": (ids * 4)[: asking.MOST_WRITTEN]}
    answer = ask["guessed"]({**STORY, **longest, "typed": "a " * asking.MOST_GUESSED})
    assert len(answer["guess"]) == asking.MOST_GUESSED


def test_stories_are_the_small_models_and_wait_for_no_others(monkeypatch, pair):
    """Another pair may be large, on a shared GPU, or not loaded yet: none is used."""
    monkeypatch.setattr(zero_gpu, "embedded", lambda: pair)
    loads = []
    guessed, alone = asking.questions(LazyPair(lambda: loads.append(1) or markov_pair(5)))
    assert alone({**STORY, "length": 2})["ids"]
    assert guessed({**STORY, "written": [], "typed": "he"})["tokens"]
    assert loads == []
