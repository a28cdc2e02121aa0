"""Records survive writing to JSON and reading, and a ValueError names a value that does not fit."""

import copy
import json
from functools import reduce
from operator import getitem

import pytest

import specdec
from specdec.methods import METHODS
from specdec.topology import batch, specinfer
from specdec.trace import Generation, Round
from tests.helpers.distributions import markov_pair
from tests.helpers.spoiled import WRONG, spoiled


def generated(**settings):
    settings = {"max_new_tokens": 12, "seed": 1, "detail": True} | settings
    return specdec.generate(markov_pair(5), [0], **settings)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("detail", [False, True])
def test_generations_and_rounds_round_trip(method, detail):
    g = generated(method=method, topology=specinfer(8), max_new_tokens=40, detail=detail)
    assert Generation.from_json(g.to_json()) == g
    for round in g.rounds:
        assert Round.from_json(round.to_json()) == round
        assert "Infinity" not in round.to_json()
        assert "NaN" not in round.to_json()


def test_infinite_arrival_times_become_none():
    g = generated(topology=batch(2), max_new_tokens=9, top_k=2, seed=0)
    arrivals = [arrival for round in g.rounds for step in round.steps for arrival in step.leading]
    assert any(arrival.p == 0 for arrival in arrivals)
    assert all((arrival.arrival_p is None) == (arrival.p == 0) for arrival in arrivals)
    assert Generation.from_json(g.to_json()) == g


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"number": "first"}, "number"),
        ({"tokens": [{"id": 1, "text": "a", "kind": "guessed"}]}, "kind"),
        ({"seconds": None}, "seconds"),
        ({"nodes": [{"path": [0], "token_id": 1}]}, "nodes"),
    ],
)
def test_a_record_that_does_not_fit_is_named(change, message):
    round = generated(detail=False).rounds[0]
    with pytest.raises(ValueError, match=message):
        Round.from_json(json.dumps(json.loads(round.to_json()) | change))


NO_RECORDS = ["", "{", "[]", "null", "\x00", "[" * 10_000, '"\ud800"']
NO_RECORDS = [(text, "validation error") for text in NO_RECORDS]
NO_RECORDS += [(value, "a record is read from JSON text") for value in (None, 5, ["{}"], {})]
NO_RECORDS += [(" " * 50_000_001, "50,000,001 characters; at most 50,000,000")]


@pytest.mark.parametrize(("text", "message"), NO_RECORDS, ids=range(len(NO_RECORDS)))
def test_what_is_no_record_is_an_error(text, message):
    with pytest.raises(ValueError, match=message):
        Generation.from_json(text)


def recorded():
    """A run as plain data, with trials and a tree of two levels."""
    return json.loads(generated(method="gsd", topology=specinfer(8)).to_json())


CANDIDATE = {"paths": [[9, 9]], "expected_tokens": 1.0, "tokens_per_second": 1.0} | {
    "milliseconds": {"draft": 1.0, "target": 1.0, "rest": 1.0}
}
SPOILED = [
    (lambda run, first: run["rounds"][1].update(number=5), r"rounds\[1\]\.number = 5: rounds are counted"),
    (lambda run, first: first.update(tokens=[]), r"rounds\[0\]\.tokens is empty"),
    (lambda run, first: first.update(text="another"), r"rounds\[0\]\.text = 'another' is not the text of"),
    (lambda run, first: first["nodes"].pop(0), r"nodes\[\d\]\.path = .*: its parent must come before it"),
    (lambda run, first: first["nodes"].append(first["nodes"][-1]), r"nodes\[\d\].* listed twice"),
    (lambda run, first: first["steps"].append(first["steps"][0]), r"rounds\[0\]\.steps has \d+ entries; it"),
    (lambda run, first: first["steps"][0].update(path=[7]), r"steps\[0\]\.path = \(7,\) is not a drafted"),
    (
        lambda run, first: first["steps"][0]["trials"][0].update(path=[7]),
        r"steps\[0\]\.trials\[0\]\.path = \(7,\) is not a drafted node below \(\)",
    ),
    (lambda run, first: run["paths"].append(run["paths"][0]), r"^paths\[\d\] = \(0,\) is listed twice"),
    (lambda run, first: run["paths"].append([9, 9]), r"^paths\[\d\] = \(9, 9\): its parent"),
    (lambda run, first: run.update(choice=[CANDIDATE]), r"^choice\[0\]\.paths\[0\] = \(9, 9\): its parent"),
]


@pytest.mark.parametrize(("spoil", "message"), SPOILED)
def test_records_that_contradict_themselves_are_told_where(spoil, message):
    run = recorded()
    spoil(run, run["rounds"][0])
    with pytest.raises(ValueError, match=message):
        Generation.from_json(json.dumps(run))


def test_whatever_is_wrong_is_a_value_error():
    refused, wrong = 0, [*WRONG, "x", float("nan"), float("inf")]
    for text in spoiled(json.dumps(recorded()), 400, wrong):
        try:
            Generation.from_json(text)
        except ValueError:
            refused += 1
    assert refused > 300  # some changes are right by chance, because another text is a valid text


FIRST, STEP = ("rounds", 0), ("rounds", 0, "steps", 0)
PROBABILITIES = [(*FIRST, "nodes", 0), (*STEP, "leading", 0), (*STEP, "trials", 0)]
WHOLE = [("max_new_tokens",), ("prompt_ids", 0), ("seed",), (*FIRST, "position"), (*FIRST, "tokens", 0, "id")]
WHOLE += [(*FIRST, "nodes", 0, "token_id"), (*STEP, "position"), (*STEP, "winner_p")]
WHOLE += [(*STEP, "leading", 0, "token_id")]
TIMES = [(*FIRST, "seconds", part) for part in ("draft", "evaluate", "verify", "rest")]
TIMES += [("prefill_seconds",)]
BEYOND = [
    *(((*place, name), 1.5) for place in PROBABILITIES for name in "pq"),
    *((place, value) for place in WHOLE for value in (10**30, 2**64)),
    *((place, value) for place in TIMES for value in (1e308, 1e12)),
]


def test_numbers_that_no_run_has_are_refused():
    run = recorded()
    for (*way, last), value in BEYOND:
        changed = copy.deepcopy(run)
        reduce(getitem, way, changed)[last] = value
        with pytest.raises(ValueError, match=f"{last}\n.*less than"):
            Generation.from_json(json.dumps(changed))


def test_the_largest_request_that_is_taken_can_be_read_again():
    pair = markov_pair(5)
    run = specdec.stream(pair, [0], max_new_tokens=2**53 - 1, seed=2**64 - 1, top_k=10**30)
    next(run)
    assert Generation.from_json(run.generation.to_json()) == run.generation
    with pytest.raises(ValueError, match="max_new_tokens = "):
        specdec.stream(pair, [0], max_new_tokens=2**53)
