"""Serves single panels, with or without a real run that they show."""

from __future__ import annotations

from collections.abc import Callable

import specdec
from components.page import frame, serving
from components.page.settings import VisitorSettings
from components.runs import run


def serve(*panels: frame.Part) -> None:
    """Serve a page with these panels, one below the other."""
    serving.launch(serving.server(frame.joined(*panels)))


def alone(panel: Callable[[], frame.Part], **changes: object) -> None:
    """Serve one panel together with a short real run of the embedded pair."""
    pair = specdec.load_pair("stories")
    settings = VisitorSettings(prompt="Once upon a time", max_new_tokens=48, **changes)  # type: ignore[arg-type]
    serve(panel(), frame.panel("shown", "", updates=list(run.updates(pair, settings))))
