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

ALPHABET = "ACDEFGHJKLMNPQRTUVWXY34679"
"""Of codes: none that is taken for another when it is read from the last row."""
LENGTH = 8
"""Characters of a code: two hundred thousand million codes, so that a right one need never be refused because
of wrong ones from the same address, which a whole class may share."""
QUIET = 2 * 60 * 60.0
"""Seconds without a step, an answer or somebody new after which a room ends."""
PRESENT = 45.0
"""Seconds since a student's last request up to which they are counted as here."""
LEFT = 10 * 60.0
"""Seconds since the last request of anybody in a room after which it makes way, where all rooms are taken."""
_NO_ROOM = "There is no room with this code. It may be closed."
_NOT_IN_ROOM = "You are not in this room: it was closed or cleared. Join again with the code of your class."

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
        self.opened = self.quiet_since = self._led = clock()
        self.listener: Listener | None = None
        self._clock = clock
        self._students: dict[str, int] = {}
        self._seen = array("d")
        self._answers: dict[Question, array[float]] = {}
        self._shown: set[Question] = set()

    def join(self) -> str:
        """Admit a new student and return their token.

        In a full room the new student takes the place of one who has been away for `PRESENT` seconds, first
        of those without an answer, then of the others, whose answers go with them. `Refused` where every
        student is here.
        """
        most, number = limits.current().students_per_room, len(self._seen)
        if number < most:
            self._seen.append(self._clock())
        elif (away := self._longest_away()) is None:
            raise Refused(429, f"The room is full: {most} students are here, the limit. Tell your lecturer.")
        else:
            number = self._students[away]
            self._remove(away)
        token = secrets.token_urlsafe(16)
        self._students[token] = number
        self._seen[number] = self._clock()
        self._change("lecturer")
        return token

    def clear(self) -> None:
        """Send all students away and forget their answers; whoever has the code can join again."""
        self._students.clear()
        self._answers.clear()
        self._seen = array("d")
        if self.drafting:
            self.drafting.proposed.clear()
        self._change()

    def _longest_away(self) -> str | None:
        """The token of the student who is next to lose their place; None where all are here."""
        now = self._clock()
        away = [
            (self._has_answered(number), self._seen[number], token)
            for token, number in self._students.items()
            if now - self._seen[number] >= PRESENT
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
        """Whether it is the lecturer's key."""
        return secrets.compare_digest(self.key.encode(), token.encode())

    def lecturer(self) -> None:
        """The lecturer asks for what there is to see, and so is here now."""
        self._led = self._clock()

    def student(self, token: str) -> int:
        """The number of the student with this token, who is here now. `Refused` where it is nobody's."""
        number = self._students.get(token)
        if number is None:
            raise Refused(403, _NOT_IN_ROOM)
        self._seen[number] = self._clock()
        return number

    @property
    def last_asked(self) -> float:
        """When anybody in it asked for something last."""
        return max(self.quiet_since, self._led, *self._seen)

    @property
    def is_led(self) -> bool:
        """Whether the lecturer has asked for something lately, since the room was opened."""
        return self._led > self.opened and self._clock() - self._led < PRESENT

    @property
    def here(self) -> int:
        """Students who asked for something lately."""
        now = self._clock()
        return sum(now - seen < PRESENT for seen in self._seen)

    def lead(self, place: Place) -> None:
        """Go there. What was shown once stays so, and nobody can answer any more, until it is asked again."""
        question = place[:2]
        if place.shown:
            self._shown.add(question)
        self.drafting = None
        self.place = place._replace(shown=question in self._shown)
        self._change()

    def ask_again(self) -> None:
        """Ask the question whose answers are shown once more; they are forgotten. `Refused` where none is."""
        if self.place is None or not self.place.shown:
            raise Refused(409, "no answers are shown that could be asked for again")
        question = self.place[:2]
        self._shown.discard(question)
        self._answers.pop(question, None)
        self.place = self.place._replace(shown=False)
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
        values.extend([math.nan] * (len(self._seen) - len(values)))
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

    def open(self, address: str) -> Room:
        """A new room.

        Where this address has its number of rooms already, its emptiest one is closed: a school shares one
        address, and whoever opens many rooms there must not keep a teacher from opening one. Where all rooms
        are taken, a room that everybody has left is closed, else the emptiest of the address with the most
        rooms; `Refused` where no address has two more than this one.
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
        """The room with this code. `Refused` where there is none."""
        self._sweep()
        if (room := self._rooms.get(code)) is None:
            raise Refused(404, _NO_ROOM)
        return room

    def known(self, code: str, token: str) -> Room:
        """The room of somebody who is in it. `Refused` tells no stranger whether there is such a room."""
        self._sweep()
        room = self._rooms.get(code)
        if room is None or not (room.leads(token) or token in room._students):
            raise Refused(404, _NOT_IN_ROOM)
        return room

    def is_in_one(self, token: str) -> bool:
        """Whether somebody in any room has this token."""
        return any(token in room._students or room.leads(token) for room in self._rooms.values())

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

    def _make_way(self, own: int) -> None:
        """Close one room for an address that has `own` rooms; `Refused` where none may be closed."""
        rooms = self._rooms.values()
        left = min(rooms, key=lambda room: room.last_asked)
        address, count = Counter(room.address for room in rooms).most_common(1)[0]
        if self._clock() - left.last_asked >= LEFT:
            self.close(left)
        elif count >= own + 2:
            self.close(min((room for room in rooms if room.address == address), key=_emptiest))
        else:
            raise Refused(429, f"All {len(rooms)} rooms of this server are taken. Try again later.")

    def _new_code(self) -> str:
        while True:
            code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
            if code not in self._rooms:
                return code


def _emptiest(room: Room) -> tuple[int, bool, float]:
    """Orders rooms by what would be lost with them: students, then a lecturer who is here, then youth."""
    return room.here, room.is_led, room.opened
