"""Small tokenizers of each kind, for the pairs of tests and for tests of the texts of tokens."""

from __future__ import annotations

import json

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

END = "<|endoftext|>"
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def byte_level_tokenizer(vocab_size: int = 300) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer. Every text round-trips, and `END` has id 0."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(["once upon a time the cat sat on the mat and the dog sat too"] * 4, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=END, clean_up_tokenization_spaces=False)


CORPUS = [
    "Once upon a time there was a cat. The cat's name was Tom, and Tom didn't like the rain!",
    "One day, the cat and the dog sat on the mat; they said: we are the best of friends.",
    "A little girl said 'hello' to the big bear.\n\nThe bear ate 12 apples and 30 pears.",
    "Le café était fermé; der Bär läuft; 日本語の本を読む。🙂",
]
"""The text on which the tokenizers of `trained_tokenizer` are trained."""
_BYTE_STEPS = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
TRAINED = {
    "byte-level": (models.BPE, None, pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()),
    "byte fallback": (
        lambda: models.BPE(unk_token="<unk>", byte_fallback=True),
        normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]),
        pre_tokenizers.Split(SPACE, "merged_with_next"),
        decoders.Sequence([*_BYTE_STEPS, decoders.Strip(" ", 1, 0)]),
    ),
    "byte fallback, no first space": (
        lambda: models.BPE(unk_token="<unk>", byte_fallback=True),
        normalizers.Replace(" ", SPACE),
        pre_tokenizers.Split(SPACE, "merged_with_next"),
        decoders.Sequence(_BYTE_STEPS),
    ),
    "unigram": (
        models.Unigram,
        normalizers.Replace(Regex(r"\s+"), " "),
        pre_tokenizers.Metaspace(prepend_scheme="always"),
        decoders.Metaspace(prepend_scheme="always"),
    ),
    "metaspace": (
        lambda: models.BPE(unk_token="<unk>"),
        None,
        pre_tokenizers.Metaspace(prepend_scheme="first"),
        decoders.Metaspace(prepend_scheme="first"),
    ),
    "wordpiece": (
        lambda: models.WordPiece(unk_token="<unk>"),
        normalizers.BertNormalizer(lowercase=False),
        pre_tokenizers.BertPreTokenizer(),
        decoders.WordPiece(),
    ),
    "wordpiece, lower case": (
        lambda: models.WordPiece(unk_token="<unk>"),
        normalizers.BertNormalizer(lowercase=True),
        pre_tokenizers.BertPreTokenizer(),
        decoders.WordPiece(),
    ),
    "marks at word ends": (
        lambda: models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        normalizers.Lowercase(),
        pre_tokenizers.BertPreTokenizer(),
        decoders.BPEDecoder("</w>"),
    ),
}
"""Kinds of tokenizers, each with its model, normalizer, pre-tokenizer and decoder."""


def trained_tokenizer(kind: str, vocab_size: int = 400, end: str = END) -> PreTrainedTokenizerFast:
    """A small tokenizer of one kind of `TRAINED`, which encodes and decodes. Its token `end` ends a text."""
    model, *parts = TRAINED[kind]
    tokenizer = Tokenizer(model())
    for name, part in zip(("normalizer", "pre_tokenizer", "decoder"), parts, strict=True):
        if part is not None:
            setattr(tokenizer, name, part)
    options = {"vocab_size": vocab_size, "show_progress": False, "special_tokens": ["<unk>", "<pad>", end]}
    if kind == "unigram":
        trainer = trainers.UnigramTrainer(**options, unk_token="<unk>")
    elif kind.startswith("wordpiece"):
        trainer = trainers.WordPieceTrainer(**options)
    else:
        alphabet = pre_tokenizers.ByteLevel.alphabet() if kind == "byte-level" else []
        suffix = {"end_of_word_suffix": "</w>"} if kind == "marks at word ends" else {}
        trainer = trainers.BpeTrainer(**options, initial_alphabet=alphabet, **suffix)
    tokenizer.train_from_iterator(CORPUS * 3, trainer)
    if kind.startswith("byte fallback"):
        tokenizer = _with_bytes(tokenizer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=end, unk_token="<unk>", pad_token="<pad>"
    )


def _with_bytes(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with a token for each byte. Unknown characters become these tokens."""
    entries = json.loads(tokenizer.to_str())
    vocabulary = entries["model"]["vocab"]
    vocabulary |= {byte: len(vocabulary) + number for number, byte in enumerate(BYTES)}
    return Tokenizer.from_str(json.dumps(entries))


def bytes_in_python() -> ByT5Tokenizer:
    """A tokenizer written in Python. Each byte is a token, and bytes that form no character have no text."""
    return ByT5Tokenizer(extra_ids=2)
