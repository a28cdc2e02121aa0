"""Prints the text of a run, with colours or marks that show how each token was chosen."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TextIO

from specdec.commands import columns
from specdec.trace import Candidate, Generation, Token

_COLOURS = {
    "accepted": "\033[38;5;214m",
    "bonus": "\033[38;5;75m",
    "correction": "\033[4;38;5;75m",
    "residual": "\033[4;38;5;75m",
    "sampled": "",
}
"""The terminal's colours. Amber: the draft proposed the token. Blue: the target chose it. Underlined: it
replaced a rejected proposal."""
_MARKS = {
    "accepted": ("", ""),
    "bonus": ("«", "»"),
    "correction": ("‹", "›"),
    "residual": ("‹", "›"),
    "sampled": ("", ""),
}
_END = "\033[0m"


def in_colours(out: TextIO) -> bool:
    """Whether the output is a terminal whose user has not declined colours (no-color.org)."""
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(token: Token, colours: bool) -> str:
    """The text of a token, coloured or marked by its kind."""
    text = harmless(token.text)
    if not text:
        return ""
    if colours:
        colour = _COLOURS[token.kind]
        return f"{colour}{text}{_END}" if colour else text
    start, end = _MARKS[token.kind]
    words = text.strip()
    return text.replace(words, f"{start}{words}{end}", 1) if words else text


def legend(tokens: Iterable[Token], colours: bool) -> str:
    """The explanation of the colours or marks of these tokens; empty if all of them were sampled without a
    draft."""
    kinds = {token.kind for token in tokens} - {"sampled"}
    return ", ".join(painted(Token(0, kind, kind), colours) for kind in _COLOURS if kind in kinds)


def explained(record: Generation) -> str:
    """A text about a run with "auto": how many tokens were drafted in each round, and a table of the trees of
    the last choice, in which the chosen tree is marked."""
    drafted = ", ".join(str(len(round.nodes)) for round in record.rounds)
    return f"drafted tokens of each round: {drafted}\n{_table(record.choice or ())}"


def _table(candidates: Iterable[Candidate]) -> str:
    head = ["drafted", "depth", "expected tokens", "draft ms", "target ms", "rest ms", "tokens/s", ""]
    rows = []
    for each in candidates:
        round = each.milliseconds
        times = [f"{value:.2f}" for value in (each.expected_tokens, round.draft, round.target, round.rest)]
        depth = max(map(len, each.paths), default=0)
        mark = "chosen" if each.chosen else ""
        rows.append([str(len(each.paths)), str(depth), *times, f"{each.tokens_per_second:.0f}", mark])
    return columns([head, *rows])


def harmless(text: str) -> str:
    """Replaces characters that could command the terminal or change the direction of the text around them.

    They are control characters, and overrides and isolates of the writing direction. Joiners and direction
    marks stay, because words in many languages contain them. A carriage return stays only before a line feed.
    At the end of a token it is removed, because the next token may begin with a line feed.
    """
    return _DANGEROUS.sub("\N{REPLACEMENT CHARACTER}", text.removesuffix("\r"))


_DANGEROUS = re.compile(
    r"(?!\r\n)[\x00-\x08\x0b-\x1f\x7f-\x9f\N{LEFT-TO-RIGHT EMBEDDING}-\N{RIGHT-TO-LEFT OVERRIDE}"
    r"\N{LEFT-TO-RIGHT ISOLATE}-\N{POP DIRECTIONAL ISOLATE}]"
)
