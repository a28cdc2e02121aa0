"""Records with one wrong value, for tests of their readers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

WRONG = (None, -1, 1.5, [], {}, [[[]]], 10**30, True, "\x00")


def spoiled(text: str, count: int, wrong: Sequence[Any]) -> Iterator[str]:
    """`count` copies of the JSON text. In each one a random value is replaced by one of `wrong`."""
    draw = random.Random(0)
    for _ in range(count):
        record = json.loads(text)
        container, key = draw.choice(_places(record, []))
        container[key] = draw.choice(wrong)
        yield json.dumps(record)


def _places(value: Any, places: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every place in nested data, as (container, key)."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        places.append((value, key))
        if isinstance(item, dict | list):
            _places(item, places)
    return places
