"""The string of each token of a tokenizer, as bytes, and the tokens that two tokenizers share.

A token's string is the bytes that the token adds inside a text: its space mark becomes a space. The string
may be only a part of a character's bytes. Special tokens have no string.

Three kinds of tokenizers are read from their vocabulary alone, which takes a second for a million tokens:
byte-level ones, and those that mark spaces with `\N{LOWER ONE EIGHTH BLOCK}`, with or without byte fallback.
For others (WordPiece, marks at a word's end, tokenizers in Python) each token is decoded between two letters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from specdec.text import BYTE_LEVEL, BYTE_TOKEN, SPACE, cleans_up, decoded

_MARKED = {"Sequence", "Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}
"""Decoder steps of tokenizers whose tokens are their strings, up to space marks and byte tokens."""
_TYPE = re.compile(r'"type":\s*"(\w+)"')
_TO_BYTES = {ord(character): byte for character, byte in BYTE_LEVEL.items()}
_ROLES = ("unk_token_id", "pad_token_id", "bos_token_id", "cls_token_id", "sep_token_id", "mask_token_id")


class Strings(NamedTuple):
    """The strings of a tokenizer's tokens.

    by_id: the string of each id; None for special tokens and for ids without a token. ids: the id of each
    string; if tokens have the same string, an added token is preferred, then an ordinary one, then a byte
    token. special: special tokens by their content. begin: a token after which a text may begin. end: the
    token that ends a text. silent: special tokens that are no part of a text, such as padding.
    """

    by_id: list[bytes | None]
    ids: dict[bytes, int]
    special: dict[str, int]
    begin: int
    end: int | None
    silent: frozenset[int]

    @classmethod
    def of(cls, tokenizer: Any) -> Strings:
        """The strings of a Hugging Face tokenizer."""
        vocabulary, added = tokenizer.get_vocab(), tokenizer.get_added_vocab()
        entries = getattr(tokenizer, "added_tokens_decoder", {})
        special_ids = {token_id for token_id, entry in entries.items() if entry.special}
        special_ids.update(tokenizer.all_special_ids)
        special = {token: token_id for token, token_id in vocabulary.items() if token_id in special_ids}
        plain = [token for token in vocabulary if token not in special and token not in added]
        plain = [token for token in plain if token[:3] == "<0x"] + [t for t in plain if t[:3] != "<0x"]
        strings = dict(zip(plain, _strings(tokenizer, plain, vocabulary), strict=True))
        strings |= {token: token.encode(errors="replace") for token in added if token not in special}
        ids = {string: vocabulary[token] for token, string in strings.items() if string}
        by_id: list[bytes | None] = [None] * (1 + max(vocabulary.values(), default=-1))
        for token, string in strings.items():
            by_id[vocabulary[token]] = string or None
        end = tokenizer.eos_token_id
        begin = next((each for each in (tokenizer.bos_token_id, end) if each is not None), 0)
        roles = (getattr(tokenizer, role, None) for role in _ROLES)
        silent = frozenset(each for each in roles if each is not None and each != end)
        return cls(by_id, ids, special, begin, end, silent)

    def joined(self, token_ids: Iterable[int]) -> bytes:
        """The strings of these tokens, concatenated."""
        return b"".join(self.by_id[token_id] or b"" for token_id in token_ids)


def shared_ids(
    target: Strings, draft: Strings, target_size: int, draft_size: int
) -> tuple[list[int], list[int]]:
    """Two lists: target ids, and the draft ids with the same strings. Ids beyond a size are left out.

    The tokens that end a text form a pair. Other special tokens are paired if their content is equal.
    """
    pairs = _same(target.ids, draft.ids)
    special = _same(target.special, draft.special)
    left_out = (target.silent | {target.end}), (draft.silent | {draft.end})
    pairs += [(a, b) for a, b in special if a not in left_out[0] and b not in left_out[1]]
    if target.end is not None and draft.end is not None:
        pairs.append((target.end, draft.end))
    fitting = sorted((a, b) for a, b in pairs if a < target_size and b < draft_size)
    return [a for a, _ in fitting], [b for _, b in fitting]


def _same(first: dict[Any, int], second: dict[Any, int]) -> list[tuple[int, int]]:
    return [(first[key], second[key]) for key in first.keys() & second.keys()]


def _strings(tokenizer: Any, tokens: Sequence[str], ids: dict[str, int]) -> Iterable[bytes]:
    """The strings of these ordinary tokens; b"" for a token without one. ids: the id of each token."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = getattr(backend, "decoder", None)
    state = "" if decoder is None else json.dumps(json.loads(decoder.__getstate__()), ensure_ascii=False)
    steps = set(_TYPE.findall(state))
    if steps == {"ByteLevel"}:
        return [token.translate(_TO_BYTES).encode("latin-1", "ignore") for token in tokens]
    if SPACE in state and steps <= _MARKED:
        fallback = "ByteFallback" in steps
        return [_bytes_of_marked(token, fallback) for token in tokens]
    return _between_letters(tokenizer, tokens, ids)


def _bytes_of_marked(token: str, fallback: bool) -> bytes:
    if fallback and BYTE_TOKEN.fullmatch(token):
        return bytes.fromhex(token[3:5])
    return token.replace(SPACE, " ").encode(errors="replace")


def _between_letters(tokenizer: Any, tokens: Sequence[str], ids: dict[str, int]) -> Iterable[bytes]:
    """The string that each token adds between two one-letter tokens; b"" if it changes the letters."""
    letters = [ids[token] for token in tokens if len(token) == 1 and token.isascii() and token.isalpha()]
    letter = min(letters, default=None)
    if letter is None:
        return [b""] * len(tokens)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    lines = [[letter], [letter, letter], *([letter, ids[token], letter] for token in tokens)]
    if backend is not None:
        texts = backend.decode_batch(lines, skip_special_tokens=False)
    else:
        texts = [decoded(tokenizer, line) for line in lines]
    if cleans_up(tokenizer):
        texts = [tokenizer.clean_up_tokenization(text) for text in texts]
    (head, pair), texts = texts[:2], texts[2:]
    tail = pair[len(head) :]

    def string(token: str, text: str) -> bytes:
        if text == pair and len(token) == 1 and ord(token) < 256:
            return bytes([ord(token)])  # a single byte of a longer character, in a tokenizer such as ByT5's
        fits = text.startswith(head) and text.endswith(tail) and len(text) > len(pair)
        return text[len(head) : len(text) - len(tail)].encode(errors="replace") if fits else b""

    return [string(token, text) for token, text in zip(tokens, texts, strict=True)]
