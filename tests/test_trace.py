"""Records round-trip through JSON, and what does not fit is named."""

import json

import pytest
from laws import markov_pair

import specdec
from specdec.topology import batch, specinfer
from specdec.trace import Generation, Round


@pytest.mark.parametrize("method", ["ar", "gsd", "ersd"])
@pytest.mark.parametrize("detail", [False, True])
def test_generations_and_rounds_round_trip(method, detail):
    pair = markov_pair(5)
    g = specdec.generate(
        pair, [0], method=method, topology=specinfer(8), max_new_tokens=40, seed=1, detail=detail
    )
    assert Generation.from_json(g.to_json()) == g
    for round in g.rounds:
        assert Round.from_json(round.to_json()) == round
        assert "Infinity" not in round.to_json()
        assert "NaN" not in round.to_json()


def test_infinite_arrival_times_become_none():
    pair = markov_pair(5)
    g = specdec.generate(pair, [0], topology=batch(2), max_new_tokens=9, top_k=2, seed=0, detail=True)
    arrivals = [arrival for round in g.rounds for step in round.steps for arrival in step.leading]
    assert any(arrival.p == 0 for arrival in arrivals)
    assert all((arrival.arrival_p is None) == (arrival.p == 0) for arrival in arrivals)
    assert Generation.from_json(g.to_json()) == g


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"number": "first"}, "number"),
        ({"tokens": [{"id": 1, "text": "a", "kind": "guessed"}]}, "kind"),
        ({"seconds": None}, "seconds"),
        ({"nodes": [{"path": [0], "token_id": 1}]}, "nodes"),
    ],
)
def test_a_record_that_does_not_fit_is_named(change, named):
    pair = markov_pair(5)
    round = specdec.generate(pair, [0], max_new_tokens=4, seed=1).rounds[0]
    with pytest.raises(ValueError, match=named):
        Round.from_json(json.dumps(json.loads(round.to_json()) | change))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00"])
def test_text_that_is_no_record_is_an_error(text):
    with pytest.raises(ValueError, match="validation error"):
        Generation.from_json(text)
