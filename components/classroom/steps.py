"""The content of a lesson's steps for the pages of a class, and the check of a student's answer."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from components.classroom.rooms import Place
from components.lessons import panel as lessons

_QUESTION = ("choices", "range", "percent")
_ANSWER = ("answer", "close", "why")


@cache
def _lessons() -> dict[str, dict[str, Any]]:
    return {lesson["id"]: lesson for lesson in lessons.lessons()}


def checked(place: Place) -> Place:
    """Check that the lessons have this place, and return it. ValueError names the value that does not fit."""
    if place.lesson not in _lessons():
        raise ValueError(f"lesson = {place.lesson!r:.60} is not one of {', '.join(_lessons())}")
    last = len(_lessons()[place.lesson]["questions"]) + 1
    if not 0 <= place.step <= last:
        raise ValueError(f"step = {place.step!r:.60} is not a number from 0 to {last}")
    if place.shown and _question(place) is None:
        raise ValueError(f"step {place.step} has no question, so there is no answer to show")
    return place


def check_answer(place: Place, value: float) -> float:
    """Check an answer to the question at this place. ValueError says what a valid answer is."""
    question = _question(checked(place))
    if question is None:
        raise ValueError(f"step {place.step} has no question")
    if "choices" in question:
        if value not in range(len(question["choices"])):
            raise ValueError(
                f"value = {value:g} is not the number of a choice, from 0 to {len(question['choices']) - 1}"
            )
        return value
    least, most, step = question["range"]
    steps = (value - least) / step
    if not least <= value <= most or not math.isclose(steps, round(steps), abs_tol=1e-6):
        raise ValueError(f"value = {value:g} is not a number from {least:g} to {most:g} in steps of {step:g}")
    return round(least + round(steps) * step, 9)


def content(place: Place) -> dict[str, Any]:
    """What a class sees of a step: its title, its text and its question.

    The answer is included only if the lecturer shows it.
    """
    lesson = _lessons()[place.lesson]
    question = _question(place)
    words = (
        lesson["read"]
        if place.step == 0
        else f"In short: {lesson['gist']}"
        if question is None
        else question["ask"]
    )
    view = {"title": lesson["title"], "of": len(lesson["questions"]) + 2, "words": words}
    if question is None:
        return view
    names = _QUESTION + _ANSWER * place.shown
    return view | {"question": {name: question[name] for name in names if name in question}}


def _question(place: Place) -> dict[str, Any] | None:
    questions = _lessons()[place.lesson]["questions"]
    return questions[place.step - 1] if 1 <= place.step <= len(questions) else None
