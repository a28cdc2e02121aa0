"""Loads the tokenizer in a model's folder as the file `tokenizer.json` describes it.

A folder may also name a class of the library transformers (`tokenizer_class`), which builds a tokenizer from
the same vocabulary by its own rules. If class and file cut a text into different tokens, the file is right:
the model's makers saved it, and other engines read it. The class is used only if the file is missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers

from specdec.checks import cause_of
from specdec.models.source import Source

FILE = "tokenizer.json"


def load_tokenizer(source: Source, folder: Path) -> Any:
    """The tokenizer of a model; ValueError if it is missing or broken.

    folder: the local folder with the source's files.
    """
    kind = transformers.PreTrainedTokenizerFast if (folder / FILE).is_file() else transformers.AutoTokenizer
    try:
        return kind.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # the Rust tokenizers raise a plain Exception for a broken file
        cause = cause_of(error).replace(str(folder), source.name)
        raise ValueError(f"no tokenizer in {source.name!r}, or a broken one: {cause}") from error


def same_tokenizers(first: Path, second: Path) -> bool:
    """Whether two folders have a tokenizer.json, and all their tokenizer files have equal contents."""
    contents = [
        {file.name: file.read_bytes() for file in folder.glob("*token*.json")} for folder in (first, second)
    ]
    return FILE in contents[0] and contents[0] == contents[1]
