"""Serves single panels, with or without a real run that they show."""

from __future__ import annotations

import specdec
from components.page import frame, serving, setup
from components.page.settings import VisitorSettings
from components.runs import run


def serve(*panels: frame.Part) -> None:
    """Serve a page with these panels, one below the other."""
    content = frame.joined(*panels)
    serving.launch(serving.server(frame.box("top", setup.panel(content)) + content))


def alone(*panels: frame.Part) -> None:
    """Serve panels together with a short real run of the embedded pair."""
    pair = specdec.load_pair("stories")
    settings = VisitorSettings(prompt="Once upon a time", topology="specinfer", k=12, max_new_tokens=48)
    serve(*panels, frame.panel("shown", "", updates=list(run.updates(pair, settings))))
