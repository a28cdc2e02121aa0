"""All limits on what visitors may send or start.

Each limit has an option of `app.py`, `--new-tokens 200`, and a variable, `SPECDEC_NEW_TOKENS=200`. `at_most`
writes the error for a visitor who exceeds one.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, fields
from typing import Any


def _limit(default: int, what: str) -> Any:
    return field(default=default, metadata={"what": what})


@dataclass(frozen=True)
class Limits:
    """The limits, each a whole number of at least 1. ValueError names one that is not."""

    prompt_characters: int = _limit(20_000, "characters of a prompt")
    prompt_tokens: int = _limit(2_000, "tokens of a prompt")
    new_tokens: int = _limit(400, "tokens that one run generates")
    draft_tokens: int = _limit(64, "k, drafted tokens per round")
    seats: int = _limit(64, "runs that are decoded together, if the server has room for them")
    waiting: int = _limit(128, "runs that wait for a seat")
    runs_per_address: int = _limit(64, "runs of one address, waiting or running; a class may share one")
    checks: int = _limit(4, "losslessness checks at once; they and the runs take turns at the model")
    checks_waiting: int = _limit(64, "losslessness checks that wait")
    trace_bytes: int = _limit(5_000_000, "bytes of a trace that the page opens")
    request_bytes: int = _limit(
        250_000, "bytes of one request's body; a prompt may take 12 bytes per character"
    )
    request_seconds: int = _limit(15, "seconds until a request's body has arrived")
    units: int = _limit(24_000, "units of work that one address may start in a burst; a call costs 30")
    units_per_second: int = _limit(600, "units of work per second that one address may start in the long run")
    rooms: int = _limit(100, "rooms of classes that are open")
    rooms_per_address: int = _limit(
        24, "rooms that one address has open; the teachers of a school may share one"
    )
    students_per_room: int = _limit(400, "students in one room")

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{limit.name} = {value!r} is not a whole number of at least 1")


_current = Limits()


def current() -> Limits:
    """The limits that apply now."""
    return _current


def use(limits: Limits) -> None:
    """Set other limits; called when the server starts."""
    global _current
    _current = limits


def at_most(name: str, length: int, limit: int, unit: str) -> None:
    """Raise ValueError with a message for the visitor if the amount is above `limit`. unit: a word such as
    "tokens"."""
    if length > limit:
        raise ValueError(f"The {name} is too long: {length:,} {unit}; at most {limit:,} are allowed.")


def from_options(options: argparse.Namespace) -> Limits:
    """The limits from the command line and the environment. ValueError names one that is below 1."""
    return Limits(**{limit.name: getattr(options, limit.name) for limit in fields(Limits)})
