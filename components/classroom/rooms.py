"""The rooms of classes, which exist only in memory: their members, the lecturer's place in a lesson, and
the answers.

All calls must come from one event loop.

    lecturer    opens a room, gets its key, chooses the step, shows answers, lets the class draft
    student     joins with the code, gets a token, answers each question once while it is open

The server stores nothing else about anyone, and deletes all of it when the room is closed or after two quiet
hours.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from fastapi import HTTPException

from components.classroom.drafting import Drafting
from components.visitors import limits

ALPHABET = "ACDEFGHJKLMNPQRTUVWXY34679"
"""The characters of room codes. Characters that look alike from a distance are left out."""
LENGTH = 8
"""The number of characters of a code. There are 26**8, about 2 x 10**11 codes, too many to guess. So the
server need not block an address that sends wrong codes; a whole class may share that address.
"""
QUIET = 2 * 60 * 60.0
"""A room ends after this many seconds without an action of the lecturer, an answer, a guess or a new student.
"""
PRESENT = 45.0
"""A student counts as present for this many seconds after their last request."""
LEFT = 10 * 60.0
"""If all rooms are taken, a room may be closed after this many seconds without a request."""
_NO_ROOM = "There is no room with this code. It may be closed."
_NOT_IN_ROOM = (
    "You are not in this room any more. It was closed or cleared, or the server was started again, "
    "which ends all rooms. A lecturer opens a new room; students join with its code."
)

Question = tuple[str, int]
"""A question: the lesson's id and the number of the step, counted from 1."""


class Place(NamedTuple):
    """The lecturer's place in a lesson. Step 0 is the introduction, the next steps are questions, and the
    last step is the summary. shown: whether the answer is visible."""

    lesson: str
    step: int
    shown: bool = False


class Room:
    """The room of one class. version: the number of changes that students see. lecturer_version: the number
    of all changes, which the lecturer sees."""

    def __init__(self, code: str, address: str, clock: Callable[[], float]):
        self.code, self.address, self.key = code, address, secrets.token_urlsafe(16)
        self.place: Place | None = None
        self.drafting: Drafting | None = None
        self.version = self.lecturer_version = 0
        self.closed = False
        self.opened = self.quiet_since = self._last_step = clock()
        self._clock = clock
        self._students: dict[str, float] = {}  # token -> time of the last request
        self._answers: dict[Question, dict[str, float]] = {}
        self._shown_questions: set[Question] = set()
        self._to_lecturer, self._to_students = asyncio.Event(), asyncio.Event()

    def join(self) -> str:
        """Admit a new student and return their token.

        In a full room the new student takes the place of one who has been away for `PRESENT` seconds.
        Students without an answer lose their place first. If a student with answers loses the place, the
        answers are deleted too. `HTTPException` if all students are present.
        """
        most = limits.current().students_per_room
        if len(self._students) >= most:
            if (away := self._longest_away()) is None:
                raise HTTPException(
                    429, f"The room is full: {most} students are here, the limit. Tell your lecturer."
                )
            for values in (self._students, *self._answered()):
                values.pop(away, None)
        token = secrets.token_urlsafe(16)
        self._students[token] = self._clock()
        self.changed(for_students=False)
        return token

    def clear(self) -> None:
        """Send all students away and forget their answers. Anyone with the code can join again."""
        for values in (self._students, *self._answered()):
            values.clear()
        self.changed()

    def _longest_away(self) -> str | None:
        """The token of the student who loses their place when a new one enters the full room.

        None if all are present.
        """
        answered = {token for values in self._answered() for token in values}
        latest = self._clock() - PRESENT
        away = [(token in answered, last, token) for token, last in self._students.items() if last <= latest]
        return min(away)[2] if away else None

    def _answered(self) -> list[dict[str, Any]]:
        """The answers to each question, and the current round's proposals: dictionaries whose keys are the
        students' tokens."""
        return [*self._answers.values(), *([self.drafting.proposed] if self.drafting else [])]

    def leads(self, token: str) -> bool:
        """Whether this is the lecturer's key."""
        return secrets.compare_digest(self.key.encode(), token.encode())

    def lecturer(self) -> None:
        """Record the time of the lecturer's request. The lecturer now counts as present."""
        self._last_step = self._clock()

    def student(self, token: str) -> None:
        """Count the student with this token as present from now on.

        `HTTPException` if the token is unknown.
        """
        if token not in self._students:
            raise HTTPException(403, _NOT_IN_ROOM)
        self._students[token] = self._clock()

    @property
    def last_request(self) -> float:
        """The time at which a page of this room, the lecturer's or a student's, last sent a request."""
        return max(self.quiet_since, self._last_step, *self._students.values())

    @property
    def is_led(self) -> bool:
        """Whether the lecturer's page has sent a request within `PRESENT` seconds."""
        return self._last_step > self.opened and self._clock() - self._last_step < PRESENT

    @property
    def here(self) -> int:
        """The number of students whose pages have sent a request within `PRESENT` seconds."""
        now = self._clock()
        return sum(now - last < PRESENT for last in self._students.values())

    def lead(self, place: Place) -> None:
        """Move the class to this place. A question whose answer was shown stays closed until the lecturer
        asks it again."""
        question = place[:2]
        if place.shown:
            self._shown_questions.add(question)
        self.drafting = None
        self.place = place._replace(shown=question in self._shown_questions)
        self.changed()

    def ask_again(self) -> None:
        """Ask the shown question again and forget its answers. `HTTPException` if no question is shown."""
        if self.place is None or not self.place.shown:
            raise HTTPException(409, "no answer is shown, so there is no question to ask again")
        question = self.place[:2]
        self._shown_questions.discard(question)
        self._answers.pop(question, None)
        self.place = self.place._replace(shown=False)
        self.changed()

    def draft(self, drafting: Drafting | None) -> None:
        """Let the class draft this text. None ends the drafting."""
        self.place, self.drafting = None, drafting
        self.changed()

    def answer(self, token: str, question: Question, value: float) -> None:
        """Record a student's answer. `HTTPException` if the question is closed or already answered."""
        self.student(token)
        if self.place is None or self.place[:2] != question or self.place.shown:
            raise HTTPException(409, "This question is not open.")
        if self.answer_of(token, question) is not None:
            raise HTTPException(409, "You have answered this question already.")
        self._answers.setdefault(question, {})[token] = value
        self.changed(for_students=False)

    def propose(self, token: str, number: int, text: str) -> None:
        """Record a student's guess of the next words, for the round with that number."""
        self.student(token)
        if self.drafting is None:
            raise HTTPException(409, "the class does not draft at the moment")
        self.drafting.propose(token, number, text)
        self.changed(for_students=False)

    def answer_of(self, token: str, question: Question) -> float | None:
        """This student's answer to a question."""
        return self._answers.get(question, {}).get(token)

    def counts(self, question: Question) -> list[tuple[float, int]]:
        """The number of answers with each value, in order of the values."""
        return sorted(Counter(self._answers.get(question, {}).values()).items())

    def close(self) -> None:
        """Close the room for everyone in it."""
        self.closed = True
        self.changed()

    def changed(self, for_students: bool = True) -> None:
        """Count a change of the room, and wake all requests that wait for one. for_students: whether students
        see the change too."""
        self.quiet_since = self._clock()
        self.lecturer_version += 1
        self._to_lecturer.set()
        self._to_lecturer = asyncio.Event()
        if for_students:
            self.version += 1
            self._to_students.set()
            self._to_students = asyncio.Event()

    async def news(self, leads: bool, seconds: float) -> None:
        """Wait for a change of the room, but at most this many seconds. leads: whether the lecturer waits,
        who sees more changes than students do."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await (self._to_lecturer if leads else self._to_students).wait()


class Rooms:
    """All rooms of a server, by their codes. clock: a function that returns the time in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._rooms: dict[str, Room] = {}

    def open(self, address: str) -> Room:
        """Open a new room.

        If this address already has its maximum number of rooms, its emptiest room is closed: a school shares
        one address, and one person who opens many rooms must not keep a teacher from opening one. If the
        server's rooms are all taken, a room without requests for `LEFT` seconds is closed. If there is no
        such room, the address with the most rooms loses its emptiest one, provided that it has at least two
        more than this address. `HTTPException` if no room may be closed.
        """
        self._sweep()
        most = limits.current()
        own = [room for room in self._rooms.values() if room.address == address]
        if len(own) >= most.rooms_per_address:
            self.close(min(own, key=_emptiest))
        elif len(self._rooms) >= most.rooms:
            self._make_way(len(own))
        room = Room(self._new_code(), address, self._clock)
        self._rooms[room.code] = room
        return room

    def find(self, code: str) -> Room:
        """The room with this code. `HTTPException` if there is none."""
        self._sweep()
        if (room := self._rooms.get(code)) is None:
            raise HTTPException(404, _NO_ROOM)
        return room

    def known(self, code: str, token: str) -> Room:
        """The room with this code, if the token is its lecturer's or a student's. Otherwise `HTTPException`,
        which does not reveal whether the room exists."""
        self._sweep()
        room = self._rooms.get(code)
        if room is None or not (room.leads(token) or token in room._students):
            raise HTTPException(404, _NOT_IN_ROOM)
        return room

    def close(self, room: Room) -> None:
        """Close a room."""
        self._rooms.pop(room.code, None)
        room.close()

    def __len__(self) -> int:
        return len(self._rooms)

    def _sweep(self) -> None:
        now = self._clock()
        for room in [room for room in self._rooms.values() if now - room.quiet_since >= QUIET]:
            self.close(room)

    def _make_way(self, own: int) -> None:
        """Close one room, so that an address that has `own` rooms already can open another.

        `HTTPException` if none may be closed.
        """
        rooms = self._rooms.values()
        quietest = min(rooms, key=lambda room: room.last_request)
        address, count = Counter(room.address for room in rooms).most_common(1)[0]
        if self._clock() - quietest.last_request >= LEFT:
            self.close(quietest)
        elif count >= own + 2:
            self.close(min((room for room in rooms if room.address == address), key=_emptiest))
        else:
            raise HTTPException(429, f"All {len(rooms)} rooms of this server are taken. Try again later.")

    def _new_code(self) -> str:
        while True:
            code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
            if code not in self._rooms:
                return code


def _emptiest(room: Room) -> tuple[int, bool, float]:
    """The sort key by which a room is chosen to be closed. The room with the fewest present students comes
    first; among equal rooms, one whose lecturer is absent; among these, the oldest.
    """
    return room.here, room.is_led, room.opened
