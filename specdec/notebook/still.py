"""Text and tables as plain HTML, for notebooks that run no scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_ELEMENTS = {"accepted": "span", "bonus": "b", "correction": "u", "residual": "u"}
"""The HTML elements that show the kind of a token even without styles. Other kinds get no element."""


def text(prompt: str, tokens: Iterable[tuple[str, str]]) -> str:
    """A paragraph with a prompt and the text after it. tokens: (text, kind) of each token."""
    pieces = "".join(_token(*token) for token in tokens)
    return f'<p class="text"><span class="prompt">{escape(prompt)}</span>{pieces}</p>'


def _token(text: str, kind: str) -> str:
    element = _ELEMENTS.get(kind)
    if element is None or not text:
        return escape(text)
    word = text.lstrip(" ") or text
    space = text[: len(text) - len(word)]
    return f'{space}<{element} class="{kind}" title="{kind}">{escape(word)}</{element}>'


def legend(kinds: Iterable[str]) -> str:
    """The names of the kinds of tokens, each in its own style."""
    present = set(kinds)
    names = [kind for kind in _ELEMENTS if kind in present]
    return f'<p class="small">{" · ".join(_token(kind, kind) for kind in names)}</p>' if names else ""


def small(words: str) -> str:
    """A line in small type."""
    return f'<p class="small">{escape(words)}</p>'


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts with a caption; the first column is aligned to the left."""
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    head_and_body = f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
    return f"<table><caption>{escape(caption)}</caption>{head_and_body}</table>"
