"""Records from JSON: what is read, and what a record must hold beyond the types of its fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter

from specdec.trace.values import Path

MOST_CHARACTERS = 50_000_000
"""Longest JSON that is read: ten thousand rounds with all their detail."""

_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def adapter(record: type[Any]) -> TypeAdapter[Any]:
    """Reads and writes one kind of record; built at its first use."""
    if record not in _adapters:
        _adapters[record] = TypeAdapter(record)
    return _adapters[record]


_Record = TypeVar("_Record")


def read(record: type[_Record], text: str) -> _Record:
    """The record in this JSON, its fields checked by their types; ValueError names what does not fit."""
    if not isinstance(text, str | bytes):
        raise ValueError(f"a record is read from JSON text, not from {type(text).__name__}")
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"the text has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read")
    return adapter(record).validate_json(text, strict=True)


def check_tree(paths: Sequence[Path], where: str) -> dict[Path, int]:
    """How many children each path has, the root's `()` included."""
    children: dict[Path, int] = {(): 0}
    for i, path in enumerate(paths):
        at = f"{where.format(i)} = {path}"
        must(path and path[:-1] in children, f"{at}: its parent must stand before it")
        must(path not in children, f"{at} is there twice")
        children[path[:-1]] += 1
        children[path] = 0
    return children


def must(holds: Any, message: str) -> None:
    """ValueError with this message where a record breaks a rule."""
    if not holds:
        raise ValueError(message)
