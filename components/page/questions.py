"""Checks the questions that panels send to their server functions.

    class Pair(Question):
        p: Weights
        q: Weights

    @answers
    def exact(asked: Pair) -> Answer: ...

A server function has one argument, which may be any JSON from a stranger. An invalid value gets an answer,
`{"error": ...}`, that names the value and says what would be right. It reveals no internal failure.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, get_type_hints

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

Answer = dict[str, Any]
"""The answer to a question: plain data for JSON, or {"error": message}."""
_FAILED = "This could not be computed; the server's log says why. Other values may work."
_Path = tuple[int | str, ...]


class Question(BaseModel):
    """The single argument of a server function, or the body of a request: its fields and their types.

    Values from strangers are not converted: "3" is no number, and 1 is no truth value.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


async def refuse(_: Any, error: RequestValidationError) -> JSONResponse:
    """Answer 422 with the reason to a request that does not fit.

    FastAPI's own answer repeats the whole request, and fails if the request cannot be written as JSON.
    """
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"])) or "the whole request"
    return JSONResponse({"detail": _encodable(f"{name}{_wrong(first)}")}, 422)


async def refuse_arguments(request: Request, error: TypeError) -> JSONResponse:
    """Answer 422 with the reason to a call by name whose arguments are not those of the endpoint.

    Gradio raises a TypeError for an argument that is unknown or missing. Any other TypeError is raised again.
    """
    if "/call/v2/" not in request.url.path:
        raise error
    return JSONResponse({"detail": _encodable(str(error).partition(" Please ")[0])}, 422)


def _wrong(error: Mapping[str, Any]) -> str:
    """A message about one error that pydantic found: the wrong value, unless it is missing, and what a right
    value is. An empty field of a form arrives as None or as an empty text."""
    if error["loc"] and error["input"] in (None, "") and error["type"] != "missing":
        kinds = {"integer": "whole number", "number": "number"}
        kind = next((kind for word, kind in kinds.items() if word in error["msg"]), "value")
        return f" is empty: give a {kind}"
    value = "" if error["type"] == "missing" else f" = {error['input']!r:.60}"
    right = re.sub("^Input | after validation| or instance of .*", "", error["msg"])
    return f"{value}: {right[:1].lower()}{right[1:]}"


def answers(function: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
    """Makes a server function from `function`.

    The server function first checks the question against the type of `function`'s parameter. A ValueError of
    `function` becomes an answer with its message; any other error is written to the server's log.
    """
    [kind] = [kind for name, kind in get_type_hints(function).items() if name != "return"]
    adapter = TypeAdapter(kind)

    @wraps(function)
    def answer(question: Any = None) -> Answer:
        try:
            return _sendable(function(adapter.validate_python(question)))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            return {"error": _encodable(f"{_in_words(first['loc'])}{_wrong(first)}")}
        except ValueError as error:
            return {"error": _encodable(str(error))}
        except Exception:
            logging.getLogger(__name__).exception("%s failed", function.__name__)
            return {"error": _FAILED}

    return answer


def _encodable(error: str) -> str:
    """An error's message for the visitor. Half a surrogate pair can't be sent, so its number is shown."""
    return error.encode(errors="backslashreplace").decode()


def _in_words(path: _Path) -> str:
    """The name of a part of the question, for a message to a visitor. Rows of a table are counted from 1."""
    words = [part.replace("_", " ") if isinstance(part, str) else f"entry {part + 1}" for part in path]
    return ", ".join(words) or "the question"


def _sendable(answer: Answer) -> Answer:
    """Check that an answer can be sent, and return it.

    ValueError if it contains half a surrogate pair from the question.
    """
    try:
        json.dumps(answer, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"{half!r} is half a character, which a text can't contain; leave it out") from None
    return answer
