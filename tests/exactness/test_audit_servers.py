"""The audit of servers with the completions protocol: valid answers, and the message for invalid ones."""

import json

import pytest

import specdec
from specdec.exactness.audit import audit
from specdec.exactness.audit.openai import completions
from tests.exactness.test_audit import of_bytes
from tests.helpers import servers
from tests.helpers.distributions import markov_pair

PAIR = markov_pair(6, seed=2)


@pytest.fixture(scope="module")
def server():
    """A small server of the completions protocol. `answers` decides its answers."""
    state = {"status": 200}

    def answer(request):
        choice = state["answer"](request)
        body = choice if isinstance(choice, bytes) else json.dumps({"choices": [choice]}).encode()
        return state["status"], body

    with servers.answering(answer) as url:
        yield f"{url}/v1", state


def answering(pair, form, change=lambda request: request):
    """Our decoder behind the protocol. It returns token ids of this name, or only the text."""

    def answer(request):
        request = change(request)
        settings = {name: request[name] for name in ("seed", "temperature", "top_k", "top_p")}
        settings |= {"max_new_tokens": request["max_tokens"], "method": "ar"}
        g = specdec.generate(pair, request["prompt"], **settings)
        return {"text": g.text} | ({form: g.token_ids} if form else {})

    return answer


@pytest.mark.slow
@pytest.mark.parametrize("form", ["token_ids", ""])
def test_a_server_of_the_completions_protocol(server, form):
    """A model of bytes behind HTTP. A false alarm has probability 1e-6. A server that samples otherwise
    is detected."""
    (url, state), pair = server, of_bytes()
    options = {"decodes": 150, "max_new_tokens": 2, "top_k": 5, "temperature": 0.3}
    engine = completions(url, None if form else "The cat", model="bytes")
    state["answer"] = answering(pair, form)
    report = audit(engine, pair, "The cat", **options)
    report.check()
    assert len(report.trials[0].evidence) == (6 if form else 3)
    state["answer"] = answering(pair, form, lambda request: request | {"temperature": 3, "top_k": 0})
    assert audit(engine, pair, "The cat", **options).verdict == "wrong"


ASKED = ([0], 1, 3, 1.0, 0, 1.0)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"token_ids": [1, 2], "text": "b c"}, [1, 2]),
        ({"tokens": [1, 2], "text": "b c"}, [1, 2]),
        ({"token_ids": [], "text": ""}, []),  # the text has ended
        ({"token_ids": [], "tokens": [3], "text": ""}, []),
        ({"tokens": [], "text": "b c"}, "b c"),  # llama.cpp that was not asked to return tokens
        ({"token_ids": None, "text": ""}, ""),
        (b'{"content": "b c", "tokens": [1, 2]}', [1, 2]),  # llama.cpp's own protocol
    ],
)
def test_what_a_server_says(server, answer, expected):
    url, state = server
    state["answer"] = lambda _: answer
    assert completions(url)(*ASKED) == expected


def test_forwards_are_counted_where_a_server_says_how_many_drafts_were_accepted(server):
    url, state = server
    state["answer"] = lambda _: b'{"tokens": [1, 2, 3], "timings": {"predicted_n": 3, "draft_n_accepted": 2}}'
    engine = completions(url)
    engine(*ASKED)
    engine(*ASKED)
    assert engine.calls == 2


@pytest.mark.parametrize("stops", [0, 25])
def test_a_server_whose_texts_are_empty_at_once(server, stops):
    """No text of this target ends, so one empty list among many is an error. A false alarm has probability
    1e-6 without it."""
    (url, state), right = server, answering(PAIR, "token_ids")

    def answer(request):
        stopped = stops and request["seed"] % stops == 0
        return {"token_ids": [], "text": ""} if stopped else right(request)

    state["answer"] = answer
    report = audit(completions(url), PAIR, [0], decodes=100, max_new_tokens=2, top_k=0)
    assert report.trials[0].impossible == (100 // stops if stops else 0)
    assert report.verdict == ("wrong" if stops else "no difference found")


@pytest.mark.parametrize(
    ("status", "body", "names"),
    [
        (400, b'{"error": "no model of this name"}', "refused, 400: .*no model of this name"),
        (200, b"<html>", "answered b'<html>', which is not a completion"),
        (200, b'{"choices": [{"text": null}]}', ".*which is not a completion"),
    ],
)
def test_a_server_that_says_no_completion_is_quoted(server, monkeypatch, status, body, names):
    url, state = server
    monkeypatch.setitem(state, "status", status)
    monkeypatch.setitem(state, "answer", lambda _: body)
    with pytest.raises(ConnectionError, match=f"{url}/completions {names}"):
        completions(url)(*ASKED)
    with pytest.raises(ConnectionError, match=r"http://127.0.0.1:9/v1/completions did not answer: .*refused"):
        completions("http://127.0.0.1:9/v1")(*ASKED)
