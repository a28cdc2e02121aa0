"""Rooms over plain HTTP: small JSON answers, below the page's own address.

    GET   class                                   the student's page
    POST  class/open, step, again, clear, draft, check, next, close   actions of a lecturer
    POST  class/join, answer, propose                          actions of a student
    GET   class/now?room=&since=                               the view of the room

`class/now` answers as soon as the room's version differs from `since`, or after some seconds. It is a plain
request that waits, because every proxy passes its answer on immediately. The header `x-class-token`
identifies the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Header, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import Field

from components.be_draft.questions import story_models
from components.classroom import drafting, steps
from components.classroom.rooms import Place, Room, Rooms
from components.classroom.views import view_of
from components.guard import routes
from components.guard.buckets import Buckets
from components.page import questions
from components.runs import lazy
from components.visitors import addresses
from specdec.pair import Pair

HOME = "/class"
WAIT = 20.0
"""Seconds that a student's request waits for news; proxies end requests that take a minute."""
LOOK = 3.0
"""Seconds that a lecturer's request waits: fewer than a student's, so that the number of present students is
current."""
_SEED = 2026
_PRICE = 5
_PRICES = {"open": 100, "join": 60, "draft": 50, "check": 200}
"""The cost of a request of a class, in the units of `limits.units`. `_PRICE` is the usual cost, and `_PRICES`
lists the requests that cost more. A "join" costs so much that one address can try only ten codes a second in
the long run."""

_LOOKS = 20.0, 4.0
"""How often one client may request the state of a room: this many times at once, and this many per second in
the long run. A request that names an old version does not wait, so only this limit slows its client down."""

_Token = Annotated[str, Header(alias="x-class-token")]
_Code = Annotated[str, Field(max_length=24)]


class _InRoom(questions.Question):
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
    prompt: Annotated[str, Field(min_length=1, max_length=400)] | None = None  # None ends the drafting


class _Propose(_InRoom):
    number: int
    text: Annotated[str, Field(max_length=200)]


_Said = dict[str, Any]
_T = TypeVar("_T")


class Hall:
    """The rooms of a server and their routes. pair: the pair that the page uses. The small story models
    verify the drafts of classes, so that a draft costs the same on every server."""

    def __init__(self, pair: Pair, rooms: Rooms | None = None):
        self.pair = pair
        self.rooms = Rooms() if rooms is None else rooms
        self._threads = ThreadPoolExecutor(1)  # drafts of classes are verified one after another
        self._looks = Buckets(*_LOOKS)

    def open_routes(self, page: Callable[[], bytes]) -> None:
        """Answer below `HOME` from now on. page: the student's page as HTML."""
        app = FastAPI(
            openapi_url=None,
            exception_handlers={ValueError: _mistaken, RequestValidationError: questions.refuse},
        )

        async def home() -> HTMLResponse:
            return HTMLResponse(page())

        app.get(HOME)(home)
        routes.add(HOME, app)
        app.get(f"{HOME}/now")(self._now)
        routes.add(f"{HOME}/now", app)
        lecturers = (self._open, self._step, self._again, self._clear, self._draft, self._check, self._next)
        for act in (*lecturers, self._close, self._join, self._answer, self._propose):
            name = act.__name__.removeprefix("_")
            app.post(f"{HOME}/{name}")(act)
            routes.add(f"{HOME}/{name}", app, _PRICES.get(name, _PRICE))

    # ------------------------------------------------------------ a lecturer

    async def _open(self, request: Request) -> _Said:
        room = self.rooms.open(addresses.address(request.scope))
        return {"room": room.code, "key": room.key}

    def _room_led_by(self, token: str, code: str) -> Room:
        room = self.rooms.known(_code(code), token)
        if not room.leads(token):
            raise HTTPException(403, "Only the lecturer of this room can do that.")
        return room

    async def _step(self, body: _Step, token: _Token = "") -> _Said:
        room = self._room_led_by(token, body.room)
        room.lead(steps.checked(Place(body.lesson, body.step, body.shown)))
        return view_of(room, token)

    async def _again(self, body: _InRoom, token: _Token = "") -> _Said:
        room = self._room_led_by(token, body.room)
        room.ask_again()
        return view_of(room, token)

    async def _clear(self, body: _InRoom, token: _Token = "") -> _Said:
        room = self._room_led_by(token, body.room)
        room.clear()
        return view_of(room, token)

    async def _draft(self, body: _Draft, token: _Token = "") -> _Said:
        room = self._room_led_by(token, body.room)
        room.draft(await self._in_thread(self._new_draft, body.prompt) if body.prompt else None)
        return view_of(room, token)

    async def _check(self, body: _InRoom, token: _Token = "") -> _Said:
        room = self._room_led_by(token, body.room)
        text = _drafting(room)
        if not text.proposed:
            raise HTTPException(409, "nobody has sent a guess yet")
        if text.result is not None or text.checking:
            raise HTTPException(409, "this round has already been checked")
        text.checking = True
        room.changed()
        try:
            words = list(text.proposed.values())
            text.take(await self._in_thread(self._verified, text, words))
        finally:
            text.checking = False
            room.changed()
        return view_of(room, token)

    async def _next(self, body: _InRoom, token: _Token = "") -> _Said:
        room = self._room_led_by(token, body.room)
        _drafting(room).go_on()
        room.changed()
        return view_of(room, token)

    async def _close(self, body: _InRoom, token: _Token = "") -> _Said:
        self.rooms.close(self._room_led_by(token, body.room))
        return {}

    async def _in_thread(self, act: Callable[..., _T], *arguments: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, act, *arguments)

    def _new_draft(self, prompt: str) -> drafting.Drafting:
        return drafting.Drafting(prompt, story_models(self.pair).encode(prompt), _SEED)

    def _verified(self, text: drafting.Drafting, words: list[str]) -> drafting.Checked:
        pair = story_models(self.pair)
        lazy.use_threads(pair)
        return drafting.checked(pair, text.text_ids, words, text.seed)

    # ------------------------------------------------------------ a student

    async def _join(self, body: _InRoom) -> _Said:
        room = self.rooms.find(_code(body.room))
        return {"room": room.code, "token": room.join()}

    async def _answer(self, body: _Answer, token: _Token = "") -> _Said:
        room = self.rooms.known(_code(body.room), token)
        value = steps.check_answer(Place(body.lesson, body.step), body.value)
        room.answer(token, (body.lesson, body.step), value)
        return {}

    async def _propose(self, body: _Propose, token: _Token = "") -> _Said:
        self.rooms.known(_code(body.room), token).propose(token, body.number, body.text)
        return {}

    # ------------------------------------------------------------ the state of a room

    async def _now(
        self, room: Annotated[str, Query(max_length=24)], since: str = "", token: _Token = ""
    ) -> _Said:
        classroom = self.rooms.known(_code(room), token)
        leads = classroom.leads(token)
        if not leads:
            classroom.student(token)
        await self._looks.wait(token, 1)
        if since == str(classroom.lecturer_version if leads else classroom.version):
            await classroom.news(leads, LOOK if leads else WAIT)
        return view_of(classroom, token)


def _drafting(room: Room) -> drafting.Drafting:
    if room.drafting is None:
        raise HTTPException(409, "the class is not drafting now")
    return room.drafting


def _code(text: str) -> str:
    """Converts a code as people type it, in lower case and with spaces or hyphens, to the form that rooms
    use."""
    return "".join(c for c in text.upper() if c.isalnum())


async def _mistaken(_: Any, error: Any) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 422)
