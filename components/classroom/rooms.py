"""Rooms of classes: who is in one, where its lecturer is, what was answered. In memory, for one event loop.

    lecturer    opens a room, has its key, leads: a step, its answer shown or not, the class as the draft
    student     joins with the code and gets a token; one answer to each question, while it is open

Nothing else is known of anybody, and all of it is gone when the room is closed, or after two quiet hours.
"""

from __future__ import annotations

import math
import secrets
import time
from array import array
from collections import Counter
from collections.abc import Callable
from typing import Literal, NamedTuple

from components.classroom.drafting import Drafting
from components.guard import limits
from components.guard.bodies import Refused
from components.guard.pace import Purses

ALPHABET = "ACDEFGHJKLMNPQRTUVWXY34679"
"""Of codes: none that is taken for another when it is read from the last row."""
LENGTH = 7
"""Characters of a code: eight thousand million codes."""
QUIET = 2 * 60 * 60.0
"""Seconds without a step, an answer or somebody new after which a room ends."""
PRESENT = 45.0
"""Seconds since a student's last request up to which they are counted as here."""
_CODES_PER_SECOND = 1 / 3
_NO_ROOM = "there is no room with this code; it may be closed"

Question = tuple[str, int]
"""A lesson and its step, from 1 on."""


Whom = Literal["all", "lecturer"]
"""Who has something new to see."""


class Place(NamedTuple):
    """Where the lecturer is: step 0 reads, 1 ... ask, the last one ends. shown: its answer is."""

    lesson: str
    step: int
    shown: bool = False


class Room:
    """One class. version: of what students see; heard: of what the lecturer sees besides; listener: is told
    of changes."""

    def __init__(self, code: str, address: str, clock: Callable[[], float]):
        self.code, self.address, self.key = code, address, secrets.token_urlsafe(16)
        self.place: Place | None = None
        self.drafting: Drafting | None = None
        self.version = self.heard = 0
        self.closed = False
        self.quiet_since = clock()
        self.listener: Listener | None = None
        self._clock = clock
        self._students: dict[str, int] = {}
        self._seen = array("d")
        self._answers: dict[Question, array[float]] = {}
        self._shown: set[Question] = set()

    def join(self) -> str:
        """A new student's token. `Refused` where the room is full."""
        most = limits.current().students_per_room
        if len(self._students) >= most:
            raise Refused(429, f"{most} students are in this room already, the limit here")
        token = secrets.token_urlsafe(16)
        self._students[token] = len(self._students)
        self._seen.append(self._clock())
        self._change("lecturer")
        return token

    def leads(self, token: str) -> bool:
        """Whether it is the lecturer's key."""
        return secrets.compare_digest(self.key.encode(), token.encode())

    def student(self, token: str) -> int:
        """The number of the student with this token, who is here now. `Refused` where it is nobody's."""
        number = self._students.get(token)
        if number is None:
            raise Refused(403, "this room does not know you: join it again")
        self._seen[number] = self._clock()
        return number

    @property
    def here(self) -> int:
        """Students who asked for something lately."""
        now = self._clock()
        return sum(now - seen < PRESENT for seen in self._seen)

    def lead(self, place: Place) -> None:
        """Go there. What was shown once stays so: then nobody can answer any more."""
        question = place[:2]
        if place.shown:
            self._shown.add(question)
        self.drafting = None
        self.place = place._replace(shown=question in self._shown)
        self._change()

    def draft(self, drafting: Drafting | None) -> None:
        """Let the class be the draft, or end that."""
        self.place, self.drafting = None, drafting
        self._change()

    def answer(self, token: str, question: Question, value: float) -> None:
        """A student's one answer. `Refused` where the question is not open, or this is the second one."""
        number = self.student(token)
        if self.place is None or self.place[:2] != question or self.place.shown:
            raise Refused(409, "this question is not open")
        values = self._answers.setdefault(question, array("d"))
        values.extend([math.nan] * (len(self._students) - len(values)))
        if not math.isnan(values[number]):
            raise Refused(409, "you have answered this question already")
        values[number] = value
        self._change("lecturer")

    def propose(self, token: str, number: int, text: str) -> None:
        """A student's one guess of what comes next, in the round of that number."""
        student = self.student(token)
        if self.drafting is None:
            raise Refused(409, "the class is not the draft now")
        self.drafting.propose(student, number, text)
        self._change("lecturer")

    def answer_of(self, number: int, question: Question) -> float | None:
        """What that student answered."""
        values = self._answers.get(question, array("d"))
        return None if number >= len(values) or math.isnan(values[number]) else values[number]

    def counts(self, question: Question) -> list[tuple[float, int]]:
        """How often each value was answered, in order."""
        values = self._answers.get(question, array("d"))
        return sorted(Counter(value for value in values if not math.isnan(value)).items())

    def close(self) -> None:
        """End it for everybody in it."""
        self.closed = True
        self._change()

    def changed(self) -> None:
        """What students see is another thing now."""
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
        self._tries = Purses(clock, lambda: (limits.current().wrong_codes, _CODES_PER_SECOND))

    def open(self, address: str) -> Room:
        """A new room. `Refused` where there are enough, of all addresses or of this one."""
        self._sweep()
        most = limits.current()
        if len(self._rooms) >= most.rooms:
            raise Refused(429, f"{most.rooms} rooms are open, the limit here; try again later")
        if sum(room.address == address for room in self._rooms.values()) >= most.rooms_per_address:
            raise Refused(429, f"{most.rooms_per_address} rooms of your address are open: close one")
        room = Room(self._new_code(), address, self._clock)
        self._rooms[room.code] = room
        return room

    def find(self, code: str, address: str) -> Room:
        """The room with this code. `Refused` where there is none, which only so many tries may find out."""
        self._sweep()
        if self._tries.pay(address, 0) > 0:
            raise Refused(429, "too many wrong codes from your address; wait a minute")
        room = self._rooms.get(code)
        if room is None:
            self._tries.pay(address, 1)
            raise Refused(404, _NO_ROOM)
        return room

    def known(self, code: str, token: str) -> Room:
        """The room of somebody who is in it, however many wrong codes their address tried. `Refused`
        tells no stranger whether there is such a room."""
        self._sweep()
        room = self._rooms.get(code)
        if room is None or not (room.leads(token) or token in room._students):
            raise Refused(404, _NO_ROOM)
        return room

    def close(self, room: Room) -> None:
        """End a room."""
        self._rooms.pop(room.code, None)
        room.close()

    def __len__(self) -> int:
        return len(self._rooms)

    def _sweep(self) -> None:
        now = self._clock()
        for room in [room for room in self._rooms.values() if now - room.quiet_since >= QUIET]:
            self.close(room)

    def _new_code(self) -> str:
        while True:
            code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
            if code not in self._rooms:
                return code
