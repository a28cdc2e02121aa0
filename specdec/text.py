"""Token ids to text, piece by piece.

A token may be a part of a character, or mean another text at the start than in the middle (SentencePiece
drops a leading space), so the text of a token depends on those around it. `TextStream` gives the text that
each emitted token adds; `TokenTexts` names a token by itself, as drafted tokens and race bars need.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

Kind = Literal["silent", "byte", "plain"]
"""What decoding does with a token: leaves it out, joins it with the bytes beside it, or neither."""


class TextStream:
    """The text that each token adds after a prompt; what later tokens may change is held back.

    tokenizer: a Hugging Face tokenizer, or None for pairs without one, whose text is empty. The pieces of all
    tokens and of `flush` join to what `tokenizer.decode` gives for prompt and tokens together, special tokens
    left out, after what it gives for the prompt. Where the prompt's text is no beginning of the whole (it
    ended inside a character), the pieces begin where the two part. Nothing raises, whatever the ids.

    Held back are an unfinished character; a run of byte tokens (`<0xC3>`), all of which become replacement
    characters where one of them fits no character; and what the tokenizer's clean-up of spaces may join.
    Only a window of the last tokens is decoded, so that a token costs the same however long the text.
    """

    def __init__(self, tokenizer: Any | None, prompt_ids: Sequence[int] = ()):
        self._tokenizer = tokenizer
        if tokenizer is None:
            return
        # those written in Python do as they please (CTRL's "hel@@" waits for "lo")
        self._is_probed = getattr(tokenizer, "backend_tokenizer", None) is None
        self._kinds: dict[int, Kind] = {}
        self._limit = 2 * _CONTEXT
        self._window = self._last_of(prompt_ids)
        self._given = _Given(self._decode(self._window))
        self._cleaned = _Cleaned(tokenizer, prompt_ids) if _cleans(tokenizer) else None

    def push(self, token_id: int) -> str:
        """Text that this token completes."""
        kind = "silent" if self._tokenizer is None else self._kind(token_id)
        if kind == "silent":
            return ""
        self._window.append(token_id)
        if kind == "byte":  # nothing of its run is settled before another token ends it
            return ""
        settled, held = self._split(self._window)
        piece = self._piece(settled)
        if len(self._window) > self._limit:
            self._forget(settled, held)
        return piece

    def flush(self) -> str:
        """What is left at the end: of an unfinished character, its replacement characters."""
        return "" if self._tokenizer is None else self._piece(self._decode(self._window), last=True)

    def _piece(self, text: str, last: bool = False) -> str:
        """What is new in this text of the window."""
        dropped, piece = self._given.change(text)
        return piece if self._cleaned is None else self._cleaned.piece(dropped, piece, last)

    def _split(self, token_ids: list[int]) -> tuple[str, str]:
        """The text of these tokens: what no later token can change, and the rest."""
        text = self._decode(token_ids)
        settled = text
        if self._is_probed:
            settled = text[: _shared(text, self._decode([*token_ids, *token_ids[-1:]]))]
        settled = settled.removesuffix(_UNFINISHED)
        return settled, text[len(settled) :]

    def _forget(self, settled: str, held: str) -> None:
        """Shorten the window where what is left has a text that ends alike, and so goes on alike.

        Of a character that began before it, a window has up to three bytes, each a character of its text:
        from the fourth on, both texts are the same.
        """
        for count in _doubled(_CONTEXT, len(self._window)):
            recent = self._window[-count:]
            known, waiting = self._split(recent)
            end = known[-_TELLING:]
            goes_on = (waiting, self._given.text) == (held, settled)
            if goes_on and len(end) == _TELLING and settled.endswith(end):
                self._window, self._given, self._limit = recent, _Given(known), 2 * _CONTEXT
                return
        self._limit = 2 * len(self._window)

    def _last_of(self, prompt_ids: Sequence[int]) -> list[int]:
        """The prompt's last tokens, as many as tell how the text after them begins; silent ones left out."""
        for count in _doubled(_CONTEXT, len(prompt_ids)):
            recent = self._heard(prompt_ids[-count:])
            closed = list(recent)
            while closed and self._kind(closed[-1]) == "byte":
                closed.pop()
            if len(self._split(closed)[0]) >= _TELLING:
                return recent
        return self._heard(prompt_ids)

    def _heard(self, token_ids: Sequence[int]) -> list[int]:
        return [token_id for token_id in token_ids if self._kind(token_id) != "silent"]

    def _kind(self, token_id: int) -> Kind:
        kind = self._kinds.get(token_id)
        if kind is None:
            kind = self._kinds[token_id] = _kind_of(self._tokenizer, token_id)
        return kind

    def _decode(self, token_ids: Sequence[int]) -> str:
        return _decoded(self._tokenizer, token_ids, skip_special=True)


class _Given:
    """A text of which something was given already."""

    def __init__(self, text: str):
        self.text = text

    def change(self, text: str) -> tuple[int, str]:
        """How many characters at the end of what was given are no more, and what comes after the others.

        Nothing where the text is only a part of what was given: the rest of it may still come.
        """
        given = self.text
        if given.startswith(text):
            return 0, ""
        self.text = text
        shared = _shared(given, text)
        return len(given) - shared, text[shared:]


class _Cleaned:
    """The clean-up of spaces that a tokenizer does after decoding (` .` to `.`), of a text that grows."""

    def __init__(self, tokenizer: Any, prompt_ids: Sequence[int]):
        self._clean = tokenizer.clean_up_tokenization
        self._text = _decoded(tokenizer, prompt_ids, skip_special=True)
        self._given = _Given(self._clean(self._text))

    def piece(self, dropped: int, piece: str, last: bool) -> str:
        """What is new in the cleaned text, where the text loses characters at its end and gets others."""
        self._text = self._text[: len(self._text) - dropped] + piece
        whole = self._text if last else self._text.rstrip(_JOINABLE)
        _, new = self._given.change(cleaned := self._clean(whole))
        if self._given.text == cleaned:  # and not still a part of the prompt's
            self._text, self._given = self._text[len(whole) :], _Given("")
        return new


def prompt_text(tokenizer: Any | None, token_ids: Sequence[int]) -> str:
    """The text of a prompt that was given as ids, special tokens included; empty without a tokenizer."""
    return "" if tokenizer is None else _decoded(tokenizer, token_ids)


def _decoded(tokenizer: Any, token_ids: Sequence[int], *, skip_special: bool = False) -> str:
    """What `tokenizer.decode` gives before it cleans up spaces, ids left out that it can't decode."""
    try:
        return tokenizer.decode(
            list(token_ids), skip_special_tokens=skip_special, clean_up_tokenization_spaces=False
        )
    except BaseException as error:  # one written in Python may raise anything for an id without a token
        check_own(error)
        known = [token_id for token_id in token_ids if _token(tokenizer, token_id) is not None]
        if len(known) == len(token_ids):
            return ""
        return _decoded(tokenizer, known, skip_special=skip_special)


def _token(tokenizer: Any, token_id: int) -> str | None:
    """A token as the tokenizer writes it; None where it has none with this id."""
    try:
        tokenizer.decode([token_id], clean_up_tokenization_spaces=False)
        return tokenizer.convert_ids_to_tokens(token_id)
    except BaseException as error:  # as above
        check_own(error)
        return None


def check_own(error: BaseException) -> None:
    """Raise on what ends a program; a panic in Rust is no `Exception` either, and is the tokenizer's own."""
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error


def _kind_of(tokenizer: Any, token_id: int) -> Kind:
    token = _token(tokenizer, token_id)
    if token is None:
        return "silent"
    heard = _decoded(tokenizer, [token_id], skip_special=True)
    if _BYTE_TOKEN.fullmatch(token) and heard != token:
        return "byte"
    return "plain" if heard or not _decoded(tokenizer, [token_id]) else "silent"


def _cleans(tokenizer: Any) -> bool:
    """Whether `tokenizer.decode` cleans spaces up: not where the model is BPE, even if it is asked for."""
    if not getattr(tokenizer, "clean_up_tokenization_spaces", False):
        return False
    model = type(getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)).__name__
    anyway = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"
    return model != "BPE" or getattr(tokenizer, anyway, False)


def _shared(first: str, second: str) -> int:
    """How many characters both begin with."""
    if second.startswith(first):
        return len(first)
    return next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), len(second))


def _doubled(first: int, end: int) -> Iterator[int]:
    """first, 2 first, 4 first, ... below `end`."""
    while first < end:
        yield first
        first *= 2


def chat_text(tokenizer: Any, message: str) -> str:
    """What a chat model reads where a user says `message`, up to where its answer begins.

    ValueError where the tokenizer has no chat template, or one that can't be filled in or writes no text: it
    is a program, which came with the model.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError("this pair's tokenizer has no chat template; use the prompt as it is")
    try:
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": message}], tokenize=False, add_generation_prompt=True
        )
        text.encode()  # half a character raises here
    except Exception as error:
        cause = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise ValueError(f"the chat template of this pair's tokenizer fails: {cause[:200]}") from error
    return text


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
        token = _token(self._tokenizer, token_id)
        if token is None:
            return f"<{token_id}>"  # padding of the logits, no token of the tokenizer
        text = _decoded(self._tokenizer, [token_id])
        if token.startswith("\N{LOWER ONE EIGHTH BLOCK}") and not text.startswith(" "):
            text = " " + text  # SentencePiece's mark of a space, dropped at the start of a text
        if _UNFINISHED in text and (code := _bytes_of(token)):
            return f"<{code.hex(' ').upper()}>"
        return text


def _bytes_of(token: str) -> bytes:
    """The bytes that a token stands for, as byte-fallback or byte-level tokenizers write them; else none."""
    if _BYTE_TOKEN.fullmatch(token):
        return bytes.fromhex(token[3:5])
    return bytes(_BYTES[char] for char in token) if all(char in _BYTES for char in token) else b""


def _byte_alphabet() -> dict[str, int]:
    """Character to byte, as byte-level tokenizers write bytes: printable ones as themselves."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


_BYTES = _byte_alphabet()

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
_BYTE_TOKEN = re.compile("<0x[0-9A-Fa-f]{2}>")
_JOINABLE = " 'nvr"
"""All characters of what a clean-up of spaces replaces (` .`, ` ' `, ` n't`, ` 've` and their like) but the
last ones: nothing is replaced across another character, nor in what stands before it by what comes after."""

_CONTEXT = 8
"""Tokens that are usually enough to decode what follows them."""
_TELLING = 4
"""Characters of text that are enough to tell how the text goes on: no character has more bytes."""
