"""The tokenizer of a GGUF file: byte-level BPE or SentencePiece's BPE, from keys `tokenizer.ggml.*`.

A file with an unknown key is refused. `IGNORED` lists the known keys that have no effect, with the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, processors
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from specdec.models.gguf.header import BrokenFileError, Header
from specdec.models.gguf.pre_tokenizers import RULES, Rule
from specdec.text import SPACE

BYTE_LEVEL, SENTENCEPIECE, GEMMA4 = "gpt2", "llama", "gemma4"
"""Supported values of `tokenizer.ggml.model`. "gemma4" is SentencePiece's BPE with merges in the file."""
_UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 2, 3, 4, 6
"""Values of `tokenizer.ggml.token_type` that this module tells apart. All others are ordinary or unused."""
_IDS = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
_USUAL_IDS = {"bos": 1, "eos": 2, "unk": 0}
"""The ids of SentencePiece's control tokens, for files that do not state them."""
_ENDING = ("eos", "eot", "eom")
_USED = {
    *("model", "pre", "tokens", "token_type", "scores", "merges", "eos_token_ids"),
    *("add_space_prefix", "remove_extra_whitespaces", "add_bos_token", "add_eos_token"),
    *(f"{name}_token_id" for name in (*_IDS.values(), *_ENDING)),
}
_FILLING = "names a token for filling gaps in code, which the vocabulary holds under its own name"
_ENCODERS = "names a token that only encoders put into texts"
_PARTS = ("pre", "suf", "mid", "pad", "rep", "sep")
IGNORED = {
    "token_type_count": "counts the segments that encoders tell apart",
    **dict.fromkeys(("seperator_token_id", "cls_token_id", "mask_token_id"), _ENCODERS),
    **dict.fromkeys((f"{part}_token_id" for part in ("prefix", "suffix", "middle")), _FILLING),
    **dict.fromkeys((f"fim_{part}_token_id" for part in _PARTS), _FILLING),
}
"""Keys below `tokenizer.ggml` that have no effect on our tokenizer, each with the reason."""
_NEUTRAL = {f"add_{name}_token": False for name in ("sep", "cls", "mask", "unknown", "padding", "eot")}
"""Keys that are accepted only with this value, which means that no token is added to a text."""
_OF_TURNS = "<|im_end|> <|eot_id|> <|eom_id|> <|end|> <end_of_turn> <turn|> <|END_OF_TURN_TOKEN|>"
_OF_TEXTS = "</s> <eos> <|endoftext|> <|end_of_text|> <｜end▁of▁sentence｜> <EOT> [EOT] [EOS]"
_OF_OTHERS = "<|return|> <|call|> <end_of_utterance> [|endofturn|] [e~["
ENDS = frozenset(f"{_OF_TURNS} {_OF_TEXTS} {_OF_OTHERS}".split(" "))
"""Control tokens that end a text or a turn, in the vocabularies of chat models."""
_STRIPPED, _UNSTRIPPED = "phi3", ("<unk>", "<s>", "<|endoftext|>")
"""Phi-3's control tokens, except these three, remove the white space after them; no GGUF key says this."""


def check_tokenizer(header: Header) -> None:
    """BrokenFileError if the file's tokenizer is not supported, or has a key that this module can't read."""
    keys = _keys(header)
    kind = keys.get("model")
    if kind not in (BYTE_LEVEL, SENTENCEPIECE, GEMMA4):
        raise BrokenFileError(
            f"has tokenizer.ggml.model = {kind!r:.40}; supported: {BYTE_LEVEL}, {SENTENCEPIECE} and {GEMMA4}"
        )
    for key, value in keys.items():
        if key in _USED or key in IGNORED or (key in _NEUTRAL and value == _NEUTRAL[key]):
            continue
        raise BrokenFileError(f"has tokenizer.ggml.{key} = {value!r:.40}, which is not supported")
    if kind == BYTE_LEVEL:
        _rule(keys)
    for key in ("tokens", *(("merges",) if kind != SENTENCEPIECE else ())):
        if not isinstance(keys.get(key), list):
            raise BrokenFileError(f"has no list of texts at tokenizer.ggml.{key}")
    count = len(keys["tokens"])
    for key in ("scores", "token_type"):
        if key in keys and len(keys[key]) != count:
            entries = f"{len(keys[key]):,} entries at tokenizer.ggml.{key}"
            raise BrokenFileError(f"has {entries} for {count:,} tokens")
    if kind == SENTENCEPIECE and "merges" not in keys and "scores" not in keys:
        raise BrokenFileError("has neither tokenizer.ggml.scores nor tokenizer.ggml.merges")


def tokenizer_of(header: Header) -> PreTrainedTokenizerFast:
    """The tokenizer that a file's keys describe. Raises the errors of `check_tokenizer`."""
    check_tokenizer(header)
    keys = _keys(header)
    tokens = _tokens(keys)
    byte_level = keys["model"] == BYTE_LEVEL
    own = _byte_level(keys, tokens) if byte_level else _sentencepiece(keys, tokens, header.architecture)
    special, plain = [], []
    for token, kind in zip(tokens, _types(keys), strict=True):
        if kind in (_CONTROL, _UNKNOWN):
            strips = header.architecture == _STRIPPED and not byte_level and token not in _UNSTRIPPED
            special.append(AddedToken(token, normalized=False, special=True, rstrip=strips))
        elif kind == _USER_DEFINED:
            plain.append(AddedToken(token, normalized=False, special=False))
    own.add_special_tokens(special)
    own.add_tokens(plain)
    ids = _special_ids(keys)
    own.post_processor = _post_processor(keys, ids, tokens)
    names = {f"{name}_token": tokens[token_id] for name, token_id in ids.items()}
    template = header.keys.get("tokenizer.chat_template")
    return PreTrainedTokenizerFast(
        tokenizer_object=own, chat_template=template, clean_up_tokenization_spaces=False, **names
    )


def ends_of(header: Header) -> list[int]:
    """Ids of all tokens that end a text: those that a key names, and control tokens that are in `ENDS`."""
    keys = _keys(header)
    end_ids = [_id(keys, f"{name}_token_id") for name in _ENDING]
    ids = {token_id for token_id in end_ids if token_id is not None}
    ids.update(map(int, keys.get("eos_token_ids", ())))
    control = {
        token: token_id
        for token_id, (token, kind) in enumerate(zip(_tokens(keys), _types(keys), strict=True))
        if kind == _CONTROL and token in ENDS
    }
    if {"<|return|>", "<|call|>"} <= control.keys():  # with these two, <|end|> ends only a message
        control.pop("<|end|>", None)
    return sorted(ids | set(control.values()))


def _keys(header: Header) -> dict[str, Any]:
    start = "tokenizer.ggml."
    return {key.removeprefix(start): value for key, value in header.keys.items() if key.startswith(start)}


def _tokens(keys: dict[str, Any]) -> list[str]:
    """The vocabulary's tokens; an empty one gets a unique name instead. BrokenFileError if two are equal."""
    tokens = [token or f"[EMPTY_{token_id}]" for token_id, token in enumerate(keys["tokens"])]
    if len(set(tokens)) < len(tokens):
        twice = next(token for token in tokens if tokens.count(token) > 1)
        raise BrokenFileError(f"holds the token {twice!r:.40} twice")
    return tokens


def _types(keys: dict[str, Any]) -> Sequence[int]:
    return keys["token_type"].tolist() if "token_type" in keys else [1] * len(keys["tokens"])


def _rule(keys: dict[str, Any]) -> Rule:
    """The rule by which a byte-level vocabulary cuts a text. BrokenFileError if it is missing or unknown."""
    name = keys.get("pre")
    if name not in RULES:
        raise BrokenFileError(
            f"has tokenizer.ggml.pre = {name!r:.40}, a rule for cutting words that is not known here"
            if name is not None
            else "does not say how its vocabulary cuts words (tokenizer.ggml.pre); convert the model again"
        )
    if keys.get("add_space_prefix"):
        raise BrokenFileError("has tokenizer.ggml.add_space_prefix = True, unknown to byte-level BPE")
    return RULES[name]


def _byte_level(keys: dict[str, Any], tokens: list[str]) -> Tokenizer:
    rule = _rule(keys)
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    own = Tokenizer(BPE(vocabulary, _split(keys["merges"]), ignore_merges=rule.whole_words))
    if rule.nfc:
        own.normalizer = normalizers.NFC()
    own.pre_tokenizer = rule.pre_tokenizer()
    own.decoder = decoders.ByteLevel()
    return own


def _sentencepiece(keys: dict[str, Any], tokens: list[str], architecture: str) -> Tokenizer:
    """BPE over characters; unknown characters become bytes. A space precedes each text, except for Gemma."""
    gemma = architecture.startswith("gemma")
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    merges = _split(keys["merges"]) if "merges" in keys else _merges(vocabulary, keys, gemma)
    unknown = _special_ids(keys).get("unk")
    name = None if unknown is None else tokens[unknown]
    own = Tokenizer(BPE(vocabulary, merges, byte_fallback=True, fuse_unk=True, unk_token=name))
    prefix = bool(keys.get("add_space_prefix", not gemma))
    steps: list[Any] = [normalizers.Prepend(SPACE)] if prefix else []
    if keys.get("remove_extra_whitespaces"):
        steps = [normalizers.Replace(Regex("^ +| +$"), ""), normalizers.Replace(Regex(" {2,}"), " "), *steps]
    own.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    ends = [decoders.Strip(" ", 1, 0)] if prefix else []
    own.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *ends]
    )
    return own


def _merges(vocabulary: dict[str, int], keys: dict[str, Any], by_position: bool) -> list[tuple[str, str]]:
    """The merges that SentencePiece's scores imply: two tokens merge if their concatenation is a token.

    Merges are sorted by the score of the token that they give, highest first. by_position: sort by that
    token's id instead, as in Gemma's vocabularies.
    """
    scores = -np.arange(len(vocabulary)) if by_position else keys["scores"]
    ranked = []
    for (token, token_id), kind in zip(vocabulary.items(), _types(keys), strict=True):
        if kind in (_CONTROL, _UNKNOWN, _BYTE):
            continue
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in vocabulary and right in vocabulary:
                rank = -float(scores[token_id]), token_id, vocabulary[left], vocabulary[right]
                ranked.append((rank, (left, right)))
    return [merge for _, merge in sorted(ranked)]


def _split(merges: Sequence[str]) -> list[tuple[str, str]]:
    """The two parts of each merge. The first part may itself begin with a space."""
    places = [merge.find(" ", 1) for merge in merges]
    if -1 in places:
        raise BrokenFileError(f"has the merge {merges[places.index(-1)]!r:.40}, which has no two parts")
    return [(merge[:place], merge[place + 1 :]) for merge, place in zip(merges, places, strict=True)]


def _special_ids(keys: dict[str, Any]) -> dict[str, int]:
    """Ids of the special tokens, by the names of their roles in transformers: "bos", "eos", "unk", "pad"."""
    usual = _USUAL_IDS if keys["model"] == SENTENCEPIECE else {}
    ids = {name: _id(keys, f"{key}_token_id", usual.get(name)) for name, key in _IDS.items()}
    return {name: token_id for name, token_id in ids.items() if token_id is not None}


def _id(keys: dict[str, Any], key: str, usual: int | None = None) -> int | None:
    """The token id that a key states; `usual` without the key. BrokenFileError if it is out of range."""
    count = len(keys["tokens"])
    if key not in keys:
        return usual if usual is not None and usual < count else None
    value = keys[key]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
        raise BrokenFileError(f"has tokenizer.ggml.{key} = {value!r:.40}; its ids are 0 to {count - 1:,}")
    return value


def _post_processor(keys: dict[str, Any], ids: dict[str, int], tokens: list[str]) -> Any:
    """The step that adds BOS and EOS to a text, if any. BrokenFileError if a token to add has no id."""
    kind = keys["model"]
    begins = RULES[keys["pre"]].begins if kind == BYTE_LEVEL else True
    adds = {"bos": keys.get("add_bos_token", begins), "eos": keys.get("add_eos_token", False)}
    for name, is_added in adds.items():
        if is_added and name not in ids:
            raise BrokenFileError(
                f"adds a token to each text (tokenizer.ggml.add_{name}_token) and has no {name}_token_id"
            )
    begin, end = ([tokens[ids[name]]] if is_added else [] for name, is_added in adds.items())
    pairs = [(tokens[ids[name]], ids[name]) for name, is_added in adds.items() if is_added]
    if not pairs:
        return processors.ByteLevel(trim_offsets=False) if kind == BYTE_LEVEL else None
    return processors.TemplateProcessing(
        single=[*begin, "$A", *end], pair=[*begin, "$A", *end, *begin, "$B:1", *end], special_tokens=pairs
    )
