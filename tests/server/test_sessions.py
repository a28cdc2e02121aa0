"""A session belongs to the address that used it first: no other reads its messages or ends its runs."""

import json
from contextlib import ExitStack

import httpx
import pytest

from components.guard import sessions
from components.guard.bodies import Refused
from components.guard.sessions import Sessions
from tests.stress.visitors import Site, serving

OWNER, STRANGER = "127.0.0.21", "127.0.0.22"
JSON = {"content-type": "application/json"}


def test_the_first_address_has_a_session_and_only_the_latest_are_known(monkeypatch):
    monkeypatch.setattr(sessions, "_MOST", 2)
    known = Sessions()
    for session in ("a", "b", "a", "c"):
        known.check(session, OWNER)
    with pytest.raises(Refused):
        known.check("a", STRANGER)
    known.check("b", STRANGER)  # forgotten, for it was used the longest ago


def test_a_stranger_who_knows_a_session_neither_reads_nor_cancels_its_run():
    with serving() as (address, _), ExitStack() as open_clients:
        site, at = Site(address), {}
        for who in (OWNER, STRANGER):
            transport = httpx.HTTPTransport(local_address=who)
            at[who] = open_clients.enter_context(
                httpx.Client(base_url=f"{address}/gradio_api", headers=JSON, transport=transport, timeout=60)
            )
        data = list((site.defaults | {"max_new_tokens": 24, "baseline": False}).values())
        body = {"session_hash": "known", "fn_index": site.decode, "data": data}
        event = at[OWNER].post("/queue/join", content=json.dumps(body)).json()["event_id"]
        cancel = json.dumps({"session_hash": "known", "fn_index": site.decode, "event_id": event})
        reset = json.dumps({"event_id": event})
        refused = [
            at[STRANGER].post("/cancel", content=cancel),
            at[STRANGER].get("/queue/data?session_hash=known"),
            at[STRANGER].get("/heartbeat/known"),
            at[STRANGER].post("/queue/join", content=json.dumps(body)),
            at[STRANGER].post("/cancel", content=cancel.replace("known", "mine")),
            at[STRANGER].post("/reset", content=reset),
        ]
        assert [answer.status_code for answer in refused] == [403] * 6
        assert "another address" in refused[0].json()["detail"]
        with at[OWNER].stream("GET", "/queue/data?session_hash=known") as told:
            messages = [json.loads(line[5:]) for line in told.iter_lines() if line.startswith("data:")]
        assert messages[-1]["msg"] in ("process_completed", "close_stream")
        updates = [str(message["output"]["data"]) for message in messages if "output" in message]
        assert any("done" in update for update in updates)
        called = json.dumps({"data": ["Once upon a time"]})
        event = at[OWNER].post("/call/generate", content=called).json()["event_id"]
        for path in (f"/call/generate/{event}", f"/call/v2/generate/{event}"):
            refused = at[STRANGER].get(path)
            assert (refused.status_code, "another address" in refused.json()["detail"]) == (403, True)
        assert "event: complete" in at[OWNER].get(f"/call/generate/{event}").text
