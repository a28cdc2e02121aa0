"""Rooms over HTTP on the real server: every request gets a clear answer, and none damages a room."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import ExitStack

import httpx
import pytest
import segno

from components.classroom import panel


@pytest.fixture
def visit(url):
    """Visitors with different addresses: `visit(source)` returns a function that sends a request with a
    token."""
    with ExitStack() as clients:

        def at(source):
            transport = httpx.HTTPTransport(local_address=source)
            http = clients.enter_context(httpx.Client(base_url=url, timeout=60, transport=transport))

            def ask(name, body=None, token="", params=None):
                headers = {"x-class-token": token, "content-type": "application/json"}
                if body is None:
                    return http.get(f"/class/{name}", headers=headers, params=params)
                # not by httpx's own JSON, which refuses values that are sent here on purpose
                return http.post(f"/class/{name}", content=json.dumps(body).encode(), headers=headers)

            return ask

        yield at


@pytest.fixture
def room(visit):
    """A room at the first question of a lesson: its code, the lecturer's key, and two students' tokens."""
    ask = visit("127.0.0.9")
    answer = ask("open", {}).json()
    code, key = answer["room"], answer["key"]
    one, other = (ask("join", {"room": code}).json()["token"] for _ in range(2))
    ask("step", {"room": code, "lesson": "trees", "step": 1}, key)
    yield {"room": code, "key": key, "one": one, "other": other}
    ask("close", {"room": code}, key)


ANSWER = {"lesson": "trees", "step": 1, "value": 0}


def detail_of(answer, status):
    assert answer.status_code == status, answer.text
    return answer.json().get("detail", "")


def now(ask, room, token, since=""):
    return ask("now", token=token, params={"room": room["room"], "since": since}).json()


def statuses(url, number, method, name, **request):
    """The statuses of the answers to so many equal requests at once."""

    async def asked():
        async with httpx.AsyncClient(base_url=f"{url}/class/", timeout=60) as http:
            return await asyncio.gather(*(http.request(method, name, **request) for _ in range(number)))

    return [answer.status_code for answer in asyncio.run(asked())]


def test_one_token_asks_for_an_old_version_only_a_few_times_a_second(url, room):
    params = {"room": room["room"], "since": "x"}
    many = statuses(url, 80, "GET", "now", params=params, headers={"x-class-token": room["one"]})
    assert set(many) == {200, 429}
    other = {"x-class-token": room["other"]}
    assert statuses(url, 1, "GET", "now", params=params, headers=other) == [200]


@pytest.mark.parametrize("name", ["step", "again", "clear", "draft", "check", "next", "close"])
def test_nobody_leads_but_the_lecturer(visit, room, name):
    body = {"room": room["room"], "lesson": "trees", "step": 2, "prompt": "Mine now"}
    ask = visit("127.0.0.5")
    assert "Only the lecturer" in detail_of(ask(name, body, room["one"]), 403)
    for stranger in ("", "x", room["key"][:-1], room["room"]):
        detail_of(ask(name, body, stranger), 404)
    assert now(ask, room, room["one"])["place"]["step"] == 1


def test_of_many_answers_of_one_student_at_once_one_counts(url, room):
    answer = {"json": {"room": room["room"]} | ANSWER, "headers": {"x-class-token": room["one"]}}
    assert sorted(statuses(url, 40, "POST", "answer", **answer)) == [200] + [409] * 39


ODD = [None, True, "0", [], {}, [[[[]]]], 1e400, -1, 3, 0.5, float("nan"), 10**400, "\ud800", "x" * 10**5]


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:20])
def test_values_of_odd_kinds_are_told_and_kept_by_nobody(visit, room, value):
    ask = visit("127.0.0.5")
    for name in ("value", "step", "lesson", "room"):
        answer = ask("answer", {"room": room["room"]} | ANSWER | {name: value}, room["one"])
        assert answer.status_code in (404, 409, 422), (name, answer.text)
        assert 0 < len(answer.json()["detail"]) < 300
    assert now(ask, room, room["key"])["answered"] == 0


def test_a_class_gets_in_from_an_address_that_guesses_codes(visit, room):
    ask = visit("127.0.0.10")
    statuses = [ask("join", {"room": f"AAAAAA{i:02}"}).status_code for i in range(40)]
    assert statuses == [404] * 40
    assert ask("join", {"room": room["room"]}).status_code == 200


def test_the_class_drafts_and_the_target_verifies(visit, room):
    ask, code = visit("127.0.0.5"), {"room": room["room"]}
    assert "empty" not in detail_of(ask("draft", code | {"prompt": "Once upon a time"}, room["key"]), 200)
    assert "nobody has sent a guess" in detail_of(ask("check", code, room["key"]), 409)
    detail_of(ask("propose", code | {"number": 2, "text": "there"}, room["one"]), 409)
    detail_of(ask("propose", code | {"number": 1, "text": " "}, room["one"]), 422)
    detail_of(ask("propose", code | {"number": 1, "text": ["there"]}, room["one"]), 422)
    detail_of(ask("propose", code | {"number": 1, "text": "<b>there</b>"}, room["one"]), 200)
    detail_of(ask("propose", code | {"number": 1, "text": "was"}, room["one"]), 409)
    detail_of(ask("propose", code | {"number": 1, "text": ","}, room["other"]), 200)
    checked = ask("check", code, room["key"]).json()
    assert {text: count for text, count, _ in checked["draft"]["proposals"]} == {"<b>there</b>": 1, ",": 1}
    assert (checked["draft"]["rounds"], checked["answered"]) == (1, 2)
    assert "already" in detail_of(ask("check", code, room["key"]), 409)
    assert now(ask, room, room["one"])["mine"] == "<b>there</b>"
    assert ask("next", code, room["key"]).json()["draft"]["number"] == 2
    ask("step", code | {"lesson": "trees", "step": 1}, room["key"])
    detail_of(ask("propose", code | {"number": 2, "text": "there"}, room["one"]), 409)


@pytest.mark.parametrize("link", ["", "javascript:alert(1)", "http://a b", "x" * 400, None, 5, ["http://a"]])
def test_only_a_link_becomes_a_qr_code(link):
    assert "link" in panel.qr({"link": link})["error"]


def test_a_qr_code_holds_its_link():
    link = "https://page.example.org/class?room=ABCDEFG"
    image = panel.qr({"link": link})
    dark = {(int(x), int(y)) for x, y in re.findall(r"M(\d+) (\d+)h1v1h-1z", image["path"])}
    size = image["size"]
    rows = [bytes((x, y) in dark for x in range(size)) for y in range(size)]
    assert [*map(bytes, segno.make(link, error="m", micro=False).matrix)] == rows
