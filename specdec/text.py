"""Token ids to text, piece by piece.

A token may be a part of a character, or mean another text at the start than in the middle (SentencePiece
drops a leading space), so the text of a token depends on those before it. `TextStream` gives the text that
each emitted token adds; `TokenTexts` names a token by itself, as drafted tokens and race bars need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError
from tokenizers.decoders import DecodeStream

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


class TextStream:
    """The text that each token adds after a prompt; empty while a character is incomplete.

    tokenizer: a Hugging Face tokenizer, or None for pairs without one, whose text is empty. Special tokens
    add no text.
    """

    def __init__(self, tokenizer: Any | None, prompt_ids: Sequence[int] = ()):
        self._tokenizer = tokenizer
        self._backend = getattr(tokenizer, "backend_tokenizer", None)
        self._waiting: list[int] = []
        if tokenizer is None:
            return
        self._ids = list(prompt_ids[-_CONTEXT:])
        self._done = self._decode(self._ids)
        if self._done.endswith(_UNFINISHED):  # ids may end inside a character; text begins after it
            self._ids, self._done = [], ""
        if self._backend is not None:
            self._stream = DecodeStream(ids=self._ids, skip_special_tokens=True)

    def push(self, token_id: int) -> str:
        """Text that this token completes."""
        if self._tokenizer is None:
            return ""
        piece = self._step(token_id)
        self._waiting = [] if piece else [*self._waiting, token_id]
        return piece

    def flush(self) -> str:
        """What is left at the end: an unfinished character, as replacement characters."""
        waiting, self._waiting = self._waiting, []
        return self._decode(waiting) if waiting else ""

    def _step(self, token_id: int) -> str:
        if self._backend is not None:
            return self._stream.step(self._backend, token_id) or ""
        self._ids.append(token_id)
        text = self._decode(self._ids)
        if text.endswith(_UNFINISHED):
            return ""
        piece, self._done = text[len(self._done) :], text
        return piece

    def _decode(self, token_ids: list[int]) -> str:
        return self._tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def chat_text(tokenizer: Any, message: str) -> str:
    """What a chat model reads where a user says `message`, up to where its answer begins.

    ValueError where the tokenizer has no chat template, or one that can't be filled in.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError("this pair's tokenizer has no chat template; use the prompt as it is")
    try:
        return tokenizer.apply_chat_template(
            [{"role": "user", "content": message}], tokenize=False, add_generation_prompt=True
        )
    except TemplateError as error:
        raise ValueError(f"the chat template of this pair's tokenizer fails: {error}") from error


class TokenTexts(dict[int, str]):
    """How a token is called by itself: its text, or its bytes as `<E2 80>` where it is no whole text.

    Each is worked out when it is first asked for.
    """

    def __init__(self, tokenizer: Any | None):
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, token_id: int) -> str:
        text = self[token_id] = self._text(token_id)
        return text

    def _text(self, token_id: int) -> str:
        if self._tokenizer is None:
            return str(token_id)
        token = self._tokenizer.convert_ids_to_tokens(token_id)
        if token is None:
            return f"<{token_id}>"  # padding of the logits, no token of the tokenizer
        text = self._tokenizer.decode([token_id], clean_up_tokenization_spaces=False)
        if token.startswith("\N{LOWER ONE EIGHTH BLOCK}") and not text.startswith(" "):
            text = " " + text  # SentencePiece's mark of a space, dropped at the start of a text
        if _UNFINISHED in text and all(char in _BYTES for char in token):
            return "<" + " ".join(f"{_BYTES[char]:02X}" for char in token) + ">"
        return text


def _byte_alphabet() -> dict[str, int]:
    """Character to byte, as byte-level tokenizers write bytes: printable ones as themselves."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


_BYTES = _byte_alphabet()

_CONTEXT = 16
"""Tokens of the prompt that are enough to decode what follows them."""
