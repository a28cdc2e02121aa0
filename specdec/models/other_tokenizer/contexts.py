"""A text of target tokens in the draft's own tokenization.

The text is cut before each word, and each word is encoded separately. Nearly all tokenizers make the same
cuts; their result is the encoding of the whole text. The tokens of a finished word never change. Only the
last word is encoded again when the text grows. The tokenization depends on the target's tokens alone, and not
on rounds, on trees, or on the pieces in which a prompt is read.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from specdec.models.other_tokenizer.strings import Strings
from specdec.text import check_own

_WORD_START = re.compile(r"(?<=.)(?= \S)|(?<=[^\S ])(?=\S)", re.DOTALL)
"""Where words begin: before a space that a visible character follows, and after a line break or a tab."""
_LONGEST = 64
"""A text without spaces is split into words of at most this many characters."""
_REMEMBERED = 1 << 16
_LEADS = ("", "\n", "a", ".\n")
"""Texts to put before a word, so that it is encoded as inside a text. `_PROBES` are tried to choose one."""
_PROBES = (" a", " the", " b", "a", "b", ".")


class Context(NamedTuple):
    """A text, or the last part of one, in the draft's tokens.

    ids: draft ids of all finished words. word: the last word, as text. partial: the bytes of an unfinished
    character after it. at_start: whether the last word is also the first word of the text.
    """

    ids: tuple[int, ...]
    word: str = ""
    partial: bytes = b""
    at_start: bool = False


class Retokenizer:
    """Turns target tokens into draft tokens.

    draft_size: the number of ids that the draft scores; larger ids are left out.
    start: the context of the empty text; it contains the token with which the draft's texts begin, if any.
    """

    def __init__(
        self, target: Strings, draft: Strings, target_tokenizer: Any, draft_tokenizer: Any, draft_size: int
    ):
        self._strings, self._tokenizer, self._size = target.by_id, draft_tokenizer, draft_size
        self._special = {
            target.special[content]: draft.special[content]
            for content in target.special.keys() & draft.special.keys()
        }
        if target.end is not None and draft.end is not None:
            self._special[target.end] = draft.end
        self._special = {a: b for a, b in self._special.items() if b < draft_size}
        self._byte_ids = {
            each[0]: i for i, each in enumerate(draft.by_id[:draft_size]) if each and len(each) == 1
        }
        self._drops_space = target.joined(_encoded(target_tokenizer, "a")).startswith(b" ")
        special_ids = {token_id for token_id in draft.special.values() if token_id < draft_size}
        begins = takewhile(special_ids.__contains__, _encoded(draft_tokenizer, "a", add_special_tokens=True))
        self.start = Context(tuple(begins), at_start=True)
        self._without_text = (draft.begin if draft.begin < draft_size else 0,)
        self._remembered: dict[tuple[str, bool], tuple[int, ...]] = {}

        def hits(lead: str) -> int:
            words = ((probe, _after_lead(draft_tokenizer, lead, probe)) for probe in _PROBES)
            return sum(draft.joined(ids) == probe.encode() for probe, ids in words)

        self._lead = max(_LEADS, key=hits)

    def after(self, context: Context, token_ids: Sequence[int]) -> Context:
        """The context after these target tokens have been appended."""
        for has_string, ids in groupby(token_ids, lambda token_id: self._string(token_id) is not None):
            if has_string:
                context = self._with_text(context, b"".join(self._string(each) or b"" for each in ids))
            else:
                for token_id in ids:
                    context = self._with_special(context, token_id)
        return context

    def ids(self, context: Context) -> tuple[int, ...]:
        """The draft ids of a context, at least one. Those of its last word may change when the text grows."""
        return self._ids(context) or self._without_text

    def _ids(self, context: Context) -> tuple[int, ...]:
        byte_ids = (self._byte_ids[byte] for byte in context.partial if byte in self._byte_ids)
        return (*context.ids, *self._encode(context.word, context.at_start), *byte_ids)

    def _string(self, token_id: int) -> bytes | None:
        return self._strings[token_id] if token_id < len(self._strings) else None

    def _with_text(self, context: Context, data: bytes) -> Context:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(context.partial + data)
        *words, word = _words(context.word + text)
        ids, at_start = list(context.ids), context.at_start
        for each in words:
            ids += self._encode(each, at_start)
            at_start = False
        return Context(tuple(ids), word, decoder.getstate()[0], at_start)

    def _with_special(self, context: Context, token_id: int) -> Context:
        """The context after a token without a string, which ends a word. The draft may lack this token."""
        special = self._special.get(token_id)
        ids = self._ids(context)
        if context == self.start and special in (None, *ids[-1:]):
            return context
        return Context(ids if special is None else (*ids, special))

    def _encode(self, word: str, at_start: bool) -> tuple[int, ...]:
        """The draft ids of a word at the start of a text (`at_start`) or inside a text."""
        if not word:
            return ()
        ids = self._remembered.get((word, at_start))
        if ids is None:
            if at_start:  # some targets' tokenizers add a space in front of a text
                text = word.removeprefix(" ") if self._drops_space else word
                encoded = _encoded(self._tokenizer, text)
            else:
                encoded = _after_lead(self._tokenizer, self._lead, word)
            ids = tuple(token_id for token_id in encoded if token_id < self._size)
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[word, at_start] = ids
        return ids


def _words(text: str) -> list[str]:
    """Cuts a text into words, each with the space before it. The last word may be unfinished."""
    words = []
    for piece in _WORD_START.split(text):
        words += [piece[first : first + _LONGEST] for first in range(0, len(piece), _LONGEST)]
    return words or [""]


def _after_lead(tokenizer: Any, lead: str, word: str) -> list[int]:
    lead_ids = _encoded(tokenizer, lead) if lead else []
    ids = _encoded(tokenizer, lead + word)
    return ids[len(lead_ids) :] if ids[: len(lead_ids)] == lead_ids else _encoded(tokenizer, word)


def _encoded(tokenizer: Any, text: str, add_special_tokens: bool = False) -> list[int]:
    """The ids of a text; an empty list if the tokenizer can't encode it."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    try:
        if backend is None:
            return list(tokenizer(text, add_special_tokens=add_special_tokens)["input_ids"])
        encoding = backend.encode(text, add_special_tokens=add_special_tokens)
    except BaseException as error:  # the Rust tokenizers raise a plain Exception, or panic
        check_own(error)
        return []
    if 0 not in encoding.attention_mask:
        return encoding.ids
    return [i for i, is_text in zip(encoding.ids, encoding.attention_mask, strict=True) if is_text]
