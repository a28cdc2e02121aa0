"""The data that a room sends to its lecturer and to its students."""

from __future__ import annotations

from typing import Any

from fastapi import HTTPException

from components.classroom import drafting, steps
from components.classroom.rooms import Room

View = dict[str, Any]


def view_of(room: Room, token: str) -> View:
    """The view of the person with this token, and its version. `HTTPException` if the room is closed or does
    not know the token."""
    if room.closed:
        raise HTTPException(
            410,
            "This room is closed. The lecturer closed it, nobody used it for two hours, or another class "
            "needed its place.",
        )
    leads = room.leads(token)
    view = {"version": room.lecturer_version if leads else room.version} | _view_of_place(room, leads)
    if leads:
        room.lecturer()
        return view | {"here": room.here}
    room.student(token)
    if room.place:
        return view | {"mine": room.answer_of(token, room.place[:2])}
    return view | ({"mine": room.drafting.proposed.get(token)} if room.drafting else {})


def _view_of_place(room: Room, leads: bool) -> View:
    """The data that everyone sees, and for the lecturer also the number of answers so far."""
    if room.place:
        counts = room.counts(room.place[:2])
        view = {"place": room.place._asdict()} | steps.content(room.place)
        if room.place.shown:
            view["counts"] = counts
        return view | ({"answered": sum(count for _, count in counts)} if leads else {})
    if room.drafting:
        return {"draft": _text(room.drafting)} | ({"answered": len(room.drafting.proposed)} if leads else {})
    return {}


def _text(text: drafting.Drafting) -> View:
    names = ("prompt", "pieces", "number", "checking", "rounds", "accepted", "by_model", "ended")
    view = {name: getattr(text, name) for name in names}
    if text.result is None:
        return view
    result = text.result
    return view | {"proposals": result.proposals, "others": result.others, "gained": len(result.pieces)}
