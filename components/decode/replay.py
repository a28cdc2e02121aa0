"""Recorded runs that play without a model, files to open, and the buttons that save and share a run."""

from __future__ import annotations

from collections.abc import Sequence

from components.decode import traces
from components.page import assets, frame
from components.visitors import limits
from specdec import smollm2

_OTHER = f"For a chat model: {smollm2.INSTALL}, and start again."


def panel(settings: Sequence[str] = (), chats: bool = True) -> frame.Part:
    """The list of recorded runs. The first one plays as soon as the page is loaded.

    settings: the names of a run's settings in the address. If the address has one of them, no recorded run
    plays. chats: whether the page's models chat.
    """
    entries = traces.entries(chats)
    own = [("own", "Your own run"), ("file", "From a file")]
    names = [(entry["name"], entry["title"]) for entry in entries] + own
    return frame.panel(
        "replay",
        frame.template("decode/replay", runs=names),
        folder=assets.file_url(traces.FOLDER),
        entries=entries,
        mostBytes=limits.current().trace_bytes,
        player=assets.empty_player(),
        settings=list(settings),
        note="" if chats or smollm2.installed() else _OTHER,
    )
