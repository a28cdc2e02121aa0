"""Rooms of classes, in memory: their members, the lecturer's place and the answers. For one event loop.

    lecturer    opens a room, gets its key, chooses the step, shows answers, lets the class draft
    student     joins with the code, gets a token, answers each question once while it is open

The server stores nothing else about anyone, and deletes all of it when the room is closed or after two quiet
hours.
"""

from __future__ import annotations

import math
import secrets
import time
from array import array
from collections import Counter
from collections.abc import Callable
from typing import Literal, NamedTuple

from fastapi import HTTPException

from components.classroom.drafting import Drafting
from components.guard import limits

ALPHABET = "ACDEFGHJKLMNPQRTUVWXY34679"
"""The characters of room codes. Characters that look alike from a distance are left out."""
LENGTH = 8
"""Characters of a code. There are two hundred thousand million codes, so guessing is hopeless. The server
therefore never has to refuse a correct code because of wrong ones from the same address, which a whole class
may share.
"""
QUIET = 2 * 60 * 60.0
"""A room ends after this many seconds without a step, an answer or a new student."""
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
"""A lesson and the number of a step, from 1."""


Whom = Literal["all", "lecturer"]
"""The people in a room for whom there is something new."""


class Place(NamedTuple):
    """The lecturer's place in a lesson. Step 0 is the introduction, the next steps are questions, and the
    last step is the summary. shown: whether the answer is visible."""

    lesson: str
    step: int
    shown: bool = False


class Room:
    """One class. version: counts changes that students see; heard: counts changes that only the lecturer
    sees; listener: called after every change."""

    def __init__(self, code: str, address: str, clock: Callable[[], float]):
        self.code, self.address, self.key = code, address, secrets.token_urlsafe(16)
        self.place: Place | None = None
        self.drafting: Drafting | None = None
        self.version = self.heard = 0
        self.closed = False
        self.opened = self.quiet_since = self._led = clock()
        self.listener: Listener | None = None
        self._clock = clock
        self._students: dict[str, int] = {}
        self._last_looks = array("d")
        self._answers: dict[Question, array[float]] = {}
        self._shown: set[Question] = set()

    def join(self) -> str:
        """Admit a new student and return their token.

        In a full room the new student takes the place of one who has been away for `PRESENT` seconds, first
        of those without an answer, then of the others, whose answers go with them. `HTTPException` where
        every student is here.
        """
        most, number = limits.current().students_per_room, len(self._last_looks)
        if number < most:
            self._last_looks.append(self._clock())
        elif (away := self._longest_away()) is None:
            raise HTTPException(
                429, f"The room is full: {most} students are here, the limit. Tell your lecturer."
            )
        else:
            number = self._students[away]
            self._remove(away)
        token = secrets.token_urlsafe(16)
        self._students[token] = number
        self._last_looks[number] = self._clock()
        self._change("lecturer")
        return token

    def clear(self) -> None:
        """Send all students away and forget their answers. Anyone with the code can join again."""
        self._students.clear()
        self._answers.clear()
        self._last_looks = array("d")
        if self.drafting:
            self.drafting.proposed.clear()
        self._change()

    def _longest_away(self) -> str | None:
        """The token of the student who would lose their place next, or None if all students are here."""
        now = self._clock()
        away = [
            (self._has_answered(number), self._last_looks[number], token)
            for token, number in self._students.items()
            if now - self._last_looks[number] >= PRESENT
        ]
        return min(away)[2] if away else None

    def _remove(self, token: str) -> None:
        number = self._students.pop(token)
        for values in self._answers.values():
            if number < len(values):
                values[number] = math.nan
        if self.drafting:
            self.drafting.proposed.pop(number, None)

    def _has_answered(self, number: int) -> bool:
        proposed = self.drafting.proposed if self.drafting else {}
        return number in proposed or any(self.answer_of(number, q) is not None for q in self._answers)

    def leads(self, token: str) -> bool:
        """Whether this is the lecturer's key."""
        return secrets.compare_digest(self.key.encode(), token.encode())

    def lecturer(self) -> None:
        """Record the time of the lecturer's request. The lecturer now counts as present."""
        self._led = self._clock()

    def student(self, token: str) -> int:
        """The number of the student with this token. The student counts as present from now on.

        `HTTPException` if the token is unknown.
        """
        number = self._students.get(token)
        if number is None:
            raise HTTPException(403, _NOT_IN_ROOM)
        self._last_looks[number] = self._clock()
        return number

    @property
    def last_asked(self) -> float:
        """When anyone in the room last asked for something."""
        return max(self.quiet_since, self._led, *self._last_looks)

    @property
    def is_led(self) -> bool:
        """Whether the lecturer has asked for something lately."""
        return self._led > self.opened and self._clock() - self._led < PRESENT

    @property
    def here(self) -> int:
        """The number of students who asked for something lately."""
        now = self._clock()
        return sum(now - last_request < PRESENT for last_request in self._last_looks)

    def lead(self, place: Place) -> None:
        """Move the class to this place. A question whose answer was shown stays closed until the lecturer
        asks it again."""
        question = place[:2]
        if place.shown:
            self._shown.add(question)
        self.drafting = None
        self.place = place._replace(shown=question in self._shown)
        self._change()

    def ask_again(self) -> None:
        """Ask the shown question again and forget its answers. `HTTPException` if no question is shown."""
        if self.place is None or not self.place.shown:
            raise HTTPException(409, "no answers are shown that could be asked for again")
        question = self.place[:2]
        self._shown.discard(question)
        self._answers.pop(question, None)
        self.place = self.place._replace(shown=False)
        self._change()

    def draft(self, drafting: Drafting | None) -> None:
        """Start or end the mode in which the class is the draft."""
        self.place, self.drafting = None, drafting
        self._change()

    def answer(self, token: str, question: Question, value: float) -> None:
        """Record a student's answer. `HTTPException` if the question is closed or already answered."""
        number = self.student(token)
        if self.place is None or self.place[:2] != question or self.place.shown:
            raise HTTPException(409, "This question is not open.")
        values = self._answers.setdefault(question, array("d"))
        values.extend([math.nan] * (len(self._last_looks) - len(values)))
        if not math.isnan(values[number]):
            raise HTTPException(409, "You have answered this question already.")
        values[number] = value
        self._change("lecturer")

    def propose(self, token: str, number: int, text: str) -> None:
        """Record a student's guess of the next words, for the round with that number."""
        student = self.student(token)
        if self.drafting is None:
            raise HTTPException(409, "the class does not draft at the moment")
        self.drafting.propose(student, number, text)
        self._change("lecturer")

    def answer_of(self, number: int, question: Question) -> float | None:
        """This student's answer to the open question."""
        values = self._answers.get(question, array("d"))
        return None if number >= len(values) or math.isnan(values[number]) else values[number]

    def counts(self, question: Question) -> list[tuple[float, int]]:
        """The number of answers with each value, in order of the values."""
        values = self._answers.get(question, array("d"))
        return sorted(Counter(value for value in values if not math.isnan(value)).items())

    def close(self) -> None:
        """Close the room for everyone in it."""
        self.closed = True
        self._change()

    def changed(self) -> None:
        """Count a change that students see."""
        self._change()

    def _change(self, to: Whom = "all") -> None:
        self.quiet_since = self._clock()
        self.heard += 1
        self.version += to == "all"
        if self.listener:
            self.listener(self, to)


Listener = Callable[[Room, Whom], None]


class Rooms:
    """All rooms by their codes. clock: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._rooms: dict[str, Room] = {}

    def open(self, address: str) -> Room:
        """Open a new room.

        If this address already has its maximum number of rooms, its emptiest room is closed: a school shares
        one address, and one person who opens many rooms must not keep a teacher from opening one. If all
        rooms are taken, an abandoned room is closed, otherwise the emptiest room of the address with the most
        rooms. `HTTPException` if no address has at least two more rooms than this one.
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
        """The room of someone who is in it. `HTTPException` does not reveal to a stranger whether the room
        exists."""
        self._sweep()
        room = self._rooms.get(code)
        if room is None or not (room.leads(token) or token in room._students):
            raise HTTPException(404, _NOT_IN_ROOM)
        return room

    def is_in_one(self, token: str) -> bool:
        """Whether someone in any room has this token."""
        return any(token in room._students or room.leads(token) for room in self._rooms.values())

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
        """Close one room for an address that has `own` rooms. `HTTPException` if none may be closed."""
        rooms = self._rooms.values()
        quietest = min(rooms, key=lambda room: room.last_asked)
        address, count = Counter(room.address for room in rooms).most_common(1)[0]
        if self._clock() - quietest.last_asked >= LEFT:
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
    """The sort key of rooms by how little is lost with them: few students, then an absent lecturer, then a
    new room."""
    return room.here, room.is_led, room.opened
