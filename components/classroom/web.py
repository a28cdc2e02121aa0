"""Rooms over plain HTTP: small JSON answers, below the page's own address.

    GET   class                                   the student's page
    POST  class/open, step, again, clear, draft, check, next, close   actions of a lecturer
    POST  class/join, answer, propose                          actions of a student
    GET   class/now?room=&since=                               the view of the room

`class/now` answers when there is a version newer than `since`, or after a while. It is a plain request that
waits, because every proxy passes on its answer at once. The header `x-class-token` identifies the client.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs

from pydantic import Field, TypeAdapter

from components.be_draft.questions import story_models
from components.classroom import drafting, steps
from components.classroom.rooms import Place, Room, Rooms
from components.classroom.seen import seen
from components.classroom.waiting import Waiting
from components.guard import addresses, routes
from components.guard.bodies import Refused
from components.page.questions import Strict, check
from components.server import lazy
from specdec.pair import Pair

HOME = "/class"
WAIT = 20.0
"""Seconds that a student's request waits for news; proxies end requests that take a minute."""
LOOK = 3.0
"""The same for a lecturer, who also sees how many students are present."""
_SEED = 2026
_PRICES = {"open": 100, "join": 60, "draft": 50, "check": 200, "now": 1}
"""Prices in units of `guard.pace` that differ from 5. At this price codes can be tried ten times a second in
the long run.
"""

_Code = Annotated[str, Field(max_length=24)]


class _InRoom(Strict):
    room: _Code


class _Step(_InRoom):
    lesson: Annotated[str, Field(max_length=40)]
    step: int
    shown: bool = False


class _Answer(_InRoom):
    lesson: Annotated[str, Field(max_length=40)]
    step: int
    value: Annotated[float, Field(allow_inf_nan=False)]


class _Draft(_InRoom):
    prompt: Annotated[str, Field(min_length=1, max_length=400)]


class _Propose(_InRoom):
    number: int
    text: Annotated[str, Field(max_length=200)]


class _Empty(Strict):
    pass


_Said = dict[str, Any]
_T = TypeVar("_T")


class Hall:
    """The rooms of a server and their routes. pair: the pair that the page uses. The small story models
    verify the drafts of classes, so that a draft costs the same on every server."""

    def __init__(self, pair: Pair, rooms: Rooms | None = None):
        self.pair = pair
        self.rooms = Rooms() if rooms is None else rooms
        self._threads = ThreadPoolExecutor(1)  # drafts of classes are verified one after the other
        self._waiting = Waiting()

    def open_routes(self, page: Callable[[], bytes]) -> None:
        """Answer below `HOME` from now on. page: the student's page as HTML."""

        async def home(_: Any, __: Any, send: Any) -> None:
            await _send(send, 200, page(), b"text/html; charset=utf-8")

        def within(scope: Any) -> bool:
            return self.rooms.is_in_one(_token(scope))

        routes.add(HOME, "", home)
        routes.add(f"{HOME}/now", "", self._answering(self._now), _PRICES["now"], within)
        posts: dict[str, tuple[type[Any], Callable[..., Awaitable[_Said] | _Said]]] = {
            "open": (_Empty, self._open),
            "join": (_InRoom, self._join),
            "answer": (_Answer, self._answer),
            "propose": (_Propose, self._propose),
            "step": (_Step, self._step),
            "again": (_InRoom, self._again),
            "clear": (_InRoom, self._clear),
            "draft": (_Draft, self._draft),
            "check": (_InRoom, self._check),
            "next": (_InRoom, self._next),
            "close": (_InRoom, self._close),
        }
        for name, (kind, act) in posts.items():
            answer = self._answering(act, kind)
            routes.add(f"{HOME}/{name}", "json", answer, _PRICES.get(name, 0), within)

    def _answering(self, act: Callable[..., Any], kind: type[Any] | None = None) -> Any:
        adapter = None if kind is None else TypeAdapter(kind)

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            status, said = 200, {}
            try:
                asked = () if adapter is None else (check(adapter, _read((await receive())["body"])),)
                said = act(scope, *asked)
                said = await said if asyncio.iscoroutine(said) else said
            except Refused as refused:
                status, said = refused.status, {"detail": refused.text}
            except ValueError as error:
                status, said = 422, {"detail": str(error)}
            except Exception:
                logging.getLogger(__name__).exception("a room's request failed")
                status, said = 500, {"detail": "This did not work; the server's log says why."}
            await _send(send, status, json.dumps(said).encode(), b"application/json")

        return answer

    # ------------------------------------------------------------ a lecturer

    def _open(self, scope: Any, _: _Empty) -> _Said:
        room = self.rooms.open(addresses.address(scope))
        room.listener = self._waiting.tell
        return {"room": room.code, "key": room.key}

    def _led(self, scope: Any, code: str) -> Room:
        token = _token(scope)
        room = self.rooms.known(_code(code), token)
        if not room.leads(token):
            raise Refused(403, "only the lecturer of this room can do that")
        return room

    def _step(self, scope: Any, asked: _Step) -> _Said:
        room = self._led(scope, asked.room)
        room.lead(steps.checked(Place(asked.lesson, asked.step, asked.shown)))
        return seen(room, _token(scope))

    def _again(self, scope: Any, asked: _InRoom) -> _Said:
        room = self._led(scope, asked.room)
        room.ask_again()
        return seen(room, _token(scope))

    def _clear(self, scope: Any, asked: _InRoom) -> _Said:
        room = self._led(scope, asked.room)
        room.clear()
        return seen(room, _token(scope))

    async def _draft(self, scope: Any, asked: _Draft) -> _Said:
        room = self._led(scope, asked.room)
        room.draft(await self._in_thread(self._begun, asked.prompt))
        return seen(room, _token(scope))

    async def _check(self, scope: Any, asked: _InRoom) -> _Said:
        room = self._led(scope, asked.room)
        text = _drafting(room)
        if not text.proposed:
            raise Refused(409, "nobody has proposed anything yet")
        if text.result is not None or text.checking:
            raise Refused(409, "this round was checked already")
        text.checking = True
        room.changed()
        try:
            words = list(text.proposed.values())
            text.take(await self._in_thread(self._verified, text, words))
        finally:
            text.checking = False
            room.changed()
        return seen(room, _token(scope))

    def _next(self, scope: Any, asked: _InRoom) -> _Said:
        room = self._led(scope, asked.room)
        _drafting(room).go_on()
        room.changed()
        return seen(room, _token(scope))

    def _close(self, scope: Any, asked: _InRoom) -> _Said:
        self.rooms.close(self._led(scope, asked.room))
        return {}

    async def _in_thread(self, act: Callable[..., _T], *given: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, act, *given)

    def _begun(self, prompt: str) -> drafting.Drafting:
        return drafting.Drafting(prompt, story_models(self.pair).encode(prompt), _SEED)

    def _verified(self, text: drafting.Drafting, words: list[str]) -> drafting.Checked:
        pair = story_models(self.pair)
        lazy.use_threads(pair)
        return drafting.checked(pair, text.text_ids, words, text.seed)

    # ------------------------------------------------------------ a student

    def _join(self, _: Any, asked: _InRoom) -> _Said:
        room = self.rooms.find(_code(asked.room))
        return {"room": room.code, "token": room.join()}

    def _answer(self, scope: Any, asked: _Answer) -> _Said:
        token = _token(scope)
        room = self.rooms.known(_code(asked.room), token)
        value = steps.check_answer(Place(asked.lesson, asked.step), asked.value)
        room.answer(token, (asked.lesson, asked.step), value)
        return {}

    def _propose(self, scope: Any, asked: _Propose) -> _Said:
        token = _token(scope)
        self.rooms.known(_code(asked.room), token).propose(token, asked.number, asked.text)
        return {}

    # ------------------------------------------------------------ what there is to see

    async def _now(self, scope: Any) -> _Said:
        query = parse_qs(scope["query_string"].decode("latin-1"))
        token, since = _token(scope), query.get("since", [""])[0]
        room = self.rooms.known(_code(query.get("room", [""])[0]), token)
        leads = room.leads(token)
        if not leads:
            room.student(token)
        if since == str(room.heard if leads else room.version):
            await self._waiting.news(room, token, LOOK if leads else WAIT)
        return seen(room, _token(scope))


def _drafting(room: Room) -> drafting.Drafting:
    if room.drafting is None:
        raise Refused(409, "the class is not the draft now")
    return room.drafting


def _token(scope: Any) -> str:
    return dict(scope["headers"]).get(b"x-class-token", b"").decode("latin-1")


def _code(text: str) -> str:
    """A code in the form that rooms use. People type it in groups and in lower case."""
    return "".join(c for c in text.upper() if c.isalnum())


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the request's body is not JSON") from None


async def _send(send: Any, status: int, body: bytes, kind: bytes) -> None:
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
