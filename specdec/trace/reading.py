"""Reads records from JSON, and checks the rules that the types of their fields do not express."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter

from specdec.trace.values import Path

MOST_CHARACTERS = 50_000_000
"""The most characters of JSON that are read. Ten thousand rounds with all their detail fit into this."""

_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def adapter(record: type[Any]) -> TypeAdapter[Any]:
    """The object that reads and writes records of this class as JSON. It is built once, at its first use."""
    if record not in _adapters:
        _adapters[record] = TypeAdapter(record)
    return _adapters[record]


_Record = TypeVar("_Record")


def read(record: type[_Record], text: str) -> _Record:
    """Reads the record of this class from a JSON text. ValueError says which field has a wrong type."""
    if not isinstance(text, str | bytes):
        raise ValueError(f"a record is read from JSON text, not from {type(text).__name__}")
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"the text has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read")
    return adapter(record).validate_json(text, strict=True)


def check_tree(paths: Sequence[Path], where: str) -> dict[Path, int]:
    """The number of children of each path, including the root's `()`. ValueError if a path is invalid."""
    children: dict[Path, int] = {(): 0}
    for i, path in enumerate(paths):
        place = f"{where.format(i)} = {path}"
        must(path and path[:-1] in children, f"{place}: its parent must come before it")
        must(path not in children, f"{place} is listed twice")
        children[path[:-1]] += 1
        children[path] = 0
    return children


def must(holds: Any, message: str) -> None:
    """Raise ValueError with this message unless the rule holds."""
    if not holds:
        raise ValueError(message)
