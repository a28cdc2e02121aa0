"""Short lessons: a few sentences, then questions to predict before the page itself shows the answer.

The texts are in `assets/lessons.json`, and their numbers come from `facts`. A step of a lesson opens a set-up
of the page (`assets/page/setup.js`): a laboratory with given distributions, or a recorded run at a given
decision. The lessons need no model. `/?lesson=trees` opens a lesson.
"""

from __future__ import annotations

import json
from typing import Any

from components.lessons import facts as lesson_facts
from components.page import assets, frame

TEXTS = assets.ASSETS / "lessons.json"


def bar() -> frame.Part:
    """The strip with the current lesson's text and buttons.

    It stands before the views in the page's HTML, so that it stays visible in every view.
    """
    file = assets.made("lessons.json", json.dumps(lessons()))  # fetched when the lessons' tab is opened
    return frame.panel("lesson", frame.template("lessons/bar"), lessons=file)


def panel() -> frame.Part:
    """The list of lessons with this visitor's answers so far."""
    return frame.panel("lessons", frame.template("lessons/panel"))


def lessons() -> list[dict[str, Any]]:
    """All lessons with their numbers in place, as `assets/lessons/panel.js` shows them."""
    return [
        _lesson(lesson, lesson_facts.LESSONS[lesson["id"]]()) for lesson in json.loads(TEXTS.read_bytes())
    ]


def _lesson(lesson: dict[str, Any], facts: lesson_facts.Facts) -> dict[str, Any]:
    """A lesson with its numbers in place. The answer of a question is a number: the index of the right
    choice, or a value in the unit of the question's range."""
    filled = _filled(lesson, facts)
    for question in filled["questions"]:
        question["answer"] = (100 if question.get("percent") else 1) * facts[question["answer"]]
    return filled


def _filled(value: Any, facts: lesson_facts.Facts) -> Any:
    """A copy of a part of `lessons.json` in which the facts replace the placeholders of all texts."""
    if isinstance(value, str):
        return value.format(**facts)
    if isinstance(value, dict):
        return {name: _filled(part, facts) for name, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, facts) for part in value]
    return value
