"""Turns token ids into text, piece by piece.

The text of a token depends on the tokens around it. A token may be a part of a character, and SentencePiece
drops a space at the start of a text. `TextStream` gives the text that each emitted token adds. `TokenTexts`
gives each token a name of its own, for drafted tokens and for the bars of races.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
"""The character with which SentencePiece writes a space."""

Kind = Literal["silent", "byte", "plain"]
"""How decoding treats a token: it leaves the token out, joins it with neighbouring byte tokens, or shows the
token's own text."""


class TextStream:
    """The text that each token adds after a prompt. It holds text back as long as later tokens may change it.

    tokenizer: a Hugging Face tokenizer; None for a pair without one, whose text is empty.

    All pieces, of tokens and of `flush`, are together the text of `tokenizer.decode` for prompt and tokens,
    without special tokens and the prompt's text. If the prompt ends inside a character, its text is no prefix
    of the whole text, and the pieces start at the first difference. No id raises an error.

    Three things are held back: an unfinished character; a run of byte tokens (`<0xC3>`), because one invalid
    byte turns the whole run into replacement characters; and characters that the tokenizer's clean-up of
    spaces may join. Only a window of the last tokens is decoded, so that the time for a token does not depend
    on the length of the text.
    """

    def __init__(self, tokenizer: Any | None, prompt_ids: Sequence[int] = ()):
        self._tokenizer = tokenizer
        if tokenizer is None:
            return
        # a tokenizer written in Python may change earlier text: CTRL's writes "hel@@" until "lo" follows
        self._is_probed = getattr(tokenizer, "backend_tokenizer", None) is None
        self._kinds: dict[int, Kind] = {}
        self._limit = 2 * _CONTEXT
        self._window = self._last_of(prompt_ids)
        self._output = _Output(self._decode(self._window))
        self._cleaned = _Cleaned(tokenizer, prompt_ids) if cleans_up(tokenizer) else None

    def push(self, token_id: int) -> str:
        """Adds a token and returns the text that it completes."""
        kind = "silent" if self._tokenizer is None else self._kind(token_id)
        if kind == "silent":
            return ""
        self._window.append(token_id)
        if kind == "byte":  # the text of a run of byte tokens is final only when another token ends it
            return ""
        final, pending = self._split(self._window)
        piece = self._piece(final)
        if len(self._window) > self._limit:
            self._forget(final, pending)
        return piece

    def flush(self) -> str:
        """The text that is still held back. An unfinished character becomes replacement characters."""
        return "" if self._tokenizer is None else self._piece(self._decode(self._window), last=True)

    def _piece(self, text: str, last: bool = False) -> str:
        """The part of the text that was not returned yet.

        text: the text of the latest tokens (the window) that no later token can change. last: whether no
        token follows.
        """
        dropped, piece = self._output.change(text)
        return piece if self._cleaned is None else self._cleaned.piece(dropped, piece, last)

    def _split(self, token_ids: list[int]) -> tuple[str, str]:
        """The text of these tokens in two parts: the part that no later token can change, and the rest."""
        text = self._decode(token_ids)
        final = text
        if self._is_probed:
            final = text[: _shared(text, self._decode([*token_ids, *token_ids[-1:]]))]
        final = final.removesuffix(_UNFINISHED)
        return final, text[len(final) :]

    def _forget(self, final: str, pending: str) -> None:
        """Shorten the window if the text of a shorter window continues in the same way.

        It does if both texts end alike. A shorter window may begin inside a character. Up to three bytes of
        that character are left in it, each of which is decoded as a character of its own. So from the fourth
        character on, both texts are equal.
        """
        for count in _doubled(_CONTEXT, len(self._window)):
            recent = self._window[-count:]
            final_recent, waiting = self._split(recent)
            end = final_recent[-_TELLING:]
            goes_on = (waiting, self._output.text) == (pending, final)
            if goes_on and len(end) == _TELLING and final.endswith(end):
                self._window, self._output, self._limit = recent, _Output(final_recent), 2 * _CONTEXT
                return
        self._limit = 2 * len(self._window)

    def _last_of(self, prompt_ids: Sequence[int]) -> list[int]:
        """The prompt's last tokens, without silent ones. Tokens before them can't influence how the next text
        begins."""
        for count in _doubled(_CONTEXT, len(prompt_ids)):
            recent = self._without_silent(prompt_ids[-count:])
            ids = list(recent)
            while ids and self._kind(ids[-1]) == "byte":
                ids.pop()
            if len(self._split(ids)[0]) >= _TELLING:
                return recent
        return self._without_silent(prompt_ids)

    def _without_silent(self, token_ids: Sequence[int]) -> list[int]:
        return [token_id for token_id in token_ids if self._kind(token_id) != "silent"]

    def _kind(self, token_id: int) -> Kind:
        kind = self._kinds.get(token_id)
        if kind is None:
            kind = self._kinds[token_id] = _kind_of(self._tokenizer, token_id)
        return kind

    def _decode(self, token_ids: Sequence[int]) -> str:
        return decoded(self._tokenizer, token_ids, skip_special=True)


class _Output:
    """The part of a growing text that belongs to the prompt or that was already returned."""

    def __init__(self, text: str):
        self.text = text

    def change(self, text: str) -> tuple[int, str]:
        """Replaces the text. Returns how many characters of the old text are dropped, and the added text.

        Nothing changes if the new text is a prefix of the old one, because the rest may still follow.
        """
        old = self.text
        if old.startswith(text):
            return 0, ""
        self.text = text
        shared = _shared(old, text)
        return len(old) - shared, text[shared:]


class _Cleaned:
    """A growing text after the clean-up of spaces that a tokenizer does after decoding (` .` becomes `.`)."""

    def __init__(self, tokenizer: Any, prompt_ids: Sequence[int]):
        self._clean = tokenizer.clean_up_tokenization
        self._text = decoded(tokenizer, prompt_ids, skip_special=True)
        self._output = _Output(self._clean(self._text))

    def piece(self, dropped: int, piece: str, last: bool) -> str:
        """The new part of the cleaned text.

        dropped: number of characters that the uncleaned text loses at its end. piece: the text that is then
        added to it.
        """
        self._text = self._text[: len(self._text) - dropped] + piece
        joined = self._text if last else self._text.rstrip(_JOINABLE)
        _, new = self._output.change(cleaned := self._clean(joined))
        if self._output.text == cleaned:  # false while the text is still a prefix of the prompt's
            self._text, self._output = self._text[len(joined) :], _Output("")
        return new


def prompt_text(tokenizer: Any | None, token_ids: Sequence[int]) -> str:
    """The text of a prompt given as token ids, with special tokens; empty without a tokenizer."""
    return "" if tokenizer is None else decoded(tokenizer, token_ids)


def decoded(tokenizer: Any, token_ids: Sequence[int], *, skip_special: bool = False) -> str:
    """The text of `tokenizer.decode` without its clean-up of spaces, and without ids that it can't decode."""
    try:
        return tokenizer.decode(
            list(token_ids), skip_special_tokens=skip_special, clean_up_tokenization_spaces=False
        )
    except BaseException as error:  # a tokenizer written in Python may raise anything for an unknown id
        check_own(error)
        ids = [token_id for token_id in token_ids if _token(tokenizer, token_id) is not None]
        if len(ids) == len(token_ids):
            return ""
        return decoded(tokenizer, ids, skip_special=skip_special)


def _token(tokenizer: Any, token_id: int) -> str | None:
    """The tokenizer's own string for a token; None if it has no token with this id."""
    try:
        tokenizer.decode([token_id], clean_up_tokenization_spaces=False)
        return tokenizer.convert_ids_to_tokens(token_id)
    except BaseException as error:  # a tokenizer written in Python may raise any error
        check_own(error)
        return None


def check_own(error: BaseException) -> None:
    """Raises errors that must end the program, such as KeyboardInterrupt. Other errors come from the
    tokenizer itself, and are ignored.

    A panic of a tokenizer written in Rust is not an `Exception`, but it comes from the tokenizer too.
    """
    is_panic = type(error).__name__ == "PanicException"
    if isinstance(error, MemoryError) or not (isinstance(error, Exception) or is_panic):
        raise error


def _kind_of(tokenizer: Any, token_id: int) -> Kind:
    token = _token(tokenizer, token_id)
    if token is None:
        return "silent"
    text = decoded(tokenizer, [token_id], skip_special=True)
    if BYTE_TOKEN.fullmatch(token) and text != token:
        return "byte"
    return "plain" if text or not decoded(tokenizer, [token_id]) else "silent"


def cleans_up(tokenizer: Any) -> bool:
    """Whether `tokenizer.decode` cleans up spaces.

    With a BPE model it does not, even if `clean_up_tokenization_spaces` is set.
    """
    if not getattr(tokenizer, "clean_up_tokenization_spaces", False):
        return False
    model = type(getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)).__name__
    anyway = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"
    return model != "BPE" or getattr(tokenizer, anyway, False)


def _shared(first: str, second: str) -> int:
    """The length of the common prefix of two texts."""
    if second.startswith(first):
        return len(first)
    return next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), len(second))


def _doubled(first: int, end: int) -> Iterator[int]:
    """Yields first, 2 first, 4 first, ... while they are below `end`."""
    while first < end:
        yield first
        first *= 2


class TokenTexts(dict[int, str]):
    """A name for each token id: the token's text, or its bytes, as `<E2 80>`, if they are no complete
    character. A name is computed at its first use."""

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
            return f"<{token_id}>"  # an id of the padding of the logits, which the tokenizer does not know
        text = decoded(self._tokenizer, [token_id])
        if token.startswith(SPACE) and not text.startswith(" "):
            text = " " + text  # decoding drops the space at the start of a text
        if _UNFINISHED in text and (code := _bytes_of(token)):
            return f"<{code.hex(' ').upper()}>"
        return text


def _bytes_of(token: str) -> bytes:
    """The bytes of a token of a byte-fallback or byte-level tokenizer; empty for any other token."""
    if BYTE_TOKEN.fullmatch(token):
        return bytes.fromhex(token[3:5])
    return bytes(BYTE_LEVEL[char] for char in token) if all(char in BYTE_LEVEL for char in token) else b""


def _byte_alphabet() -> dict[str, int]:
    """Character -> byte for byte-level tokenizers, which write each printable byte as its own character."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    unprintable = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(unprintable)}


BYTE_LEVEL = _byte_alphabet()

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
BYTE_TOKEN = re.compile("<0x[0-9A-Fa-f]{2}>")
_JOINABLE = " 'nvr"
"""The characters in the strings that a clean-up of spaces replaces (` .`, ` ' `, ` n't`, ` 've` and others),
without each string's last character. A replacement never reaches across any other character."""

_CONTEXT = 8
"""The number of tokens that usually are enough context to decode the tokens after them."""
_TELLING = 4
"""If the texts of two windows end in the same 4 characters, later tokens add the same text to both: a
character that is cut at a window's start has at most 4 bytes, so it affects none of the later characters."""
