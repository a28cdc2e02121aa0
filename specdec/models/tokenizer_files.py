"""Loads the tokenizer of a model's folder, as its `tokenizer.json` states it.

A folder may also name a class of transformers (`tokenizer_class`), which builds a tokenizer of its own from
the same vocabulary. Where the two cut a text into other tokens, the file is right: it is what the model's
makers saved, and what other engines read.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from specdec.models.gguf.source import GGUFSource
from specdec.models.source import Source

_TRIED = (
    " The  year 2023,\n\n    x_1 = 12345678.5e-10;\t// I'll DON'T CamelCase\r\n"
    "e\u0301\u00e9 \ufb01 \u00bd \u0661\u0662 \u65e5\u672c\u8a9e \ud55c\uad6d \u0939\u093f\u0928 "
    "\U0001f600!? \n \n  end  "
)
"""Places where rules for cutting words differ: spaces, lines, digits, capitals, signs, many scripts."""
_TOKENS = 2000
"""Tokens of the vocabulary that are tried beside this text."""


def load_tokenizer(source: Source, folder: Path) -> Any:
    """The tokenizer of a model; ValueError if there is none or a broken one.

    folder: that of the source's files. A UserWarning says where
    transformers' class cuts texts into other tokens than tokenizer.json.
    """
    options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    try:
        if isinstance(source, GGUFSource):  # whose tokenizer.json was written here
            return PreTrainedTokenizerFast.from_pretrained(folder, **options)
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        if not _is_rebuilt(tokenizer) or not (folder / "tokenizer.json").is_file():
            return tokenizer
        own = PreTrainedTokenizerFast.from_pretrained(folder, **options)
        text = _tried_text(own)
        differs = own(text, verbose=False)["input_ids"] != tokenizer(text, verbose=False)["input_ids"]
    except Exception as error:  # the Rust tokenizers raise a plain Exception for a broken file
        cause = next(iter(str(error).splitlines()), type(error).__name__).replace(str(folder), source.name)
        raise ValueError(f"no tokenizer in {source.name!r}, or a broken one: {cause}") from error
    if differs:
        warnings.warn(
            f"{source.name!r}: transformers' {type(tokenizer).__name__} cuts texts into other tokens than "
            "the folder's tokenizer.json, which is used",
            stacklevel=2,
        )
    return own


def same_tokenizers(first: Path, second: Path) -> bool:
    """Whether two folders hold the same files of a tokenizer, tokenizer.json among them."""
    contents = [
        {file.name: file.read_bytes() for file in folder.glob("*token*.json")} for folder in (first, second)
    ]
    return "tokenizer.json" in contents[0] and contents[0] == contents[1]


def _is_rebuilt(tokenizer: Any) -> bool:
    """Whether a class built the tokenizer from a vocabulary, instead of reading tokenizer.json as it is."""
    return type(tokenizer) is not PreTrainedTokenizerFast and bool(getattr(tokenizer, "is_fast", False))


def _tried_text(tokenizer: Any) -> str:
    """A text on which rules for cutting words differ, with tokens of this vocabulary in several orders."""
    ids = range(0, len(tokenizer), max(1, len(tokenizer) // _TOKENS))
    texts = [tokenizer.decode([token_id], skip_special_tokens=True) for token_id in ids]
    return "".join([_TRIED, *texts, " ".join(texts), ", 1".join(texts)])
