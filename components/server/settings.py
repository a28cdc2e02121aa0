"""One run as a visitor asked for it, and how values of visitors are checked."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.guard import limits
from components.server import topologies
from specdec.checks import among
from specdec.methods import METHODS


@dataclass(frozen=True)
class VisitorSettings:
    """One run as the visitor asked for it.

    seed: None draws one; baseline: measure plain decoding too; chat: let the chat template format the prompt
    if the models have one; history: the conversation before the prompt, questions and answers in turn (the
    page sends a JSON list); tree: a tree in the notation of `topologies.written`, used instead of a measured
    one. The fields hold unchecked values of the browser until `checked` returns a checked copy.
    """

    prompt: str
    method: str = "ersd"
    topology: str = "sequence"
    k: int = 4
    max_new_tokens: int = 64
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    baseline: bool = False
    chat: bool = False
    history: Sequence[str] | str = ()
    tree: str = ""

    def checked(self) -> VisitorSettings:
        """A checked copy with whole numbers as `int`. ValueError names what is missing, not whole or too
        large.

        Limits that depend on the models are checked in `specdec`.
        """
        most = limits.current()
        changes: dict[str, Any] = {
            "prompt": _text("prompt", self.prompt),
            "method": among("method", self.method, METHODS),
            "topology": among("topology", self.topology, topologies.NAMES),
            "baseline": bool(self.baseline),
            "chat": bool(self.chat),
            "history": _conversation(self.history) if self.chat else (),
            "tree": words("tree", self.tree, 4 * most.draft_tokens),
            "k": 1 if self._without_k else whole("k", self.k, 1, most.draft_tokens),
            "max_new_tokens": whole("length", self.max_new_tokens, 1, most.new_tokens),
            "temperature": number("temperature", self.temperature, 0, _HOTTEST),
            "top_k": whole("top-k", self.top_k),
            "top_p": number("top-p", self.top_p, 0, 1),
            "seed": random.randrange(2**31) if self.seed is None else whole("seed", self.seed),
        }
        return VisitorSettings(**changes)

    @property
    def _without_k(self) -> bool:
        return self.topology in topologies.WITHOUT_K or self.method == "ar"


def _text(name: str, value: Any) -> str:
    """The value, which must be a text for the model. ValueError if it is empty or too long."""
    if not words(name, value, limits.current().prompt_characters).strip():
        raise ValueError(f"The {name} is empty. Write something first.")
    return str(value)


def _conversation(value: Any) -> tuple[str, ...]:
    """The earlier conversation, as texts or as the JSON list of the page. ValueError if it is neither."""
    try:
        messages = json.loads(value or "[]") if isinstance(value, str) else list(value)
    except (TypeError, ValueError, RecursionError):  # the last for brackets within brackets
        messages = None
    if not isinstance(messages, list) or len(messages) % 2 or not all(isinstance(m, str) for m in messages):
        raise ValueError(f"history = {value!r:.60} is not a list of questions and answers in turn")
    limits.at_most("conversation", sum(map(len, messages)), limits.current().prompt_characters, "characters")
    return tuple(messages)


def words(name: str, value: Any, most: int = 40) -> str:
    """`value` as a text of at most `most` characters. ValueError names the actual type or length."""
    if not isinstance(value, str):
        raise ValueError(f"{name} = {value!r:.60} is not a text")
    limits.at_most(name, len(value), most, "characters")
    return value


_HOTTEST = 100
"""The largest temperature of `specdec.probs.Sampling`."""
_LARGEST = 2**64 - 1
"""The largest whole number of any field: the largest seed."""


def number(name: str, value: Any, least: int = 0, most: int = _LARGEST, kind: str = "number") -> float:
    """`value` as a float. ValueError if it is missing or no number from `least` to `most`."""
    if value is None or value == "":
        raise ValueError(f"{name} is empty; give a {kind}")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        is_low = isinstance(value, (int, float)) and value < least
        end = f"to {most:,}" if most != _LARGEST else "up" if is_low else "to 2⁶⁴ − 1"
        raise ValueError(f"{name} = {value!r:.60} is not a {kind} from {least:,} {end}")
    return float(value)


def whole(name: str, value: Any, least: int = 0, most: int = _LARGEST) -> int:
    """`value` as an int. ValueError if it is missing or no whole number from `least` to `most`."""
    if not number(name, value, least, most, "whole number").is_integer():
        raise ValueError(f"{name} = {value!r} is not a whole number")
    return int(value)
