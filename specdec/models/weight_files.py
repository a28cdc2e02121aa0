"""Finds a model's weight files, and checks that all are safetensors before one is opened.

An index or a configuration may lead transformers to pickled files, which run code when they are read. So a
folder is refused unless its weights are `model.safetensors`, or safetensors files with plain names that
`model.safetensors.index.json` lists.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
_PLAIN = re.compile(r"[^/\\\x00.][^/\\\x00]*\.safetensors")
_DISTRIBUTED = "shard-*-model-*-of-*.safetensors"


def check_weight_files(folder: Path, name: str) -> None:
    """ValueError unless all weights of this folder are safetensors files inside it.

    name: the folder's name in messages.
    """
    if (folder / ADAPTER).exists():
        raise ValueError(
            f"{name!r} holds an adapter ({ADAPTER}), whose weights and base model transformers would also "
            "load: merge it into its base model (merge_and_unload) and save the result without it"
        )
    if any(folder.glob(_DISTRIBUTED)):
        raise ValueError(
            f"{name!r} holds a distributed checkpoint; save it as {WEIGHTS} (save_pretrained does)"
        )
    for file in named_files(folder, name):
        _check_lies_in(folder, file, name)


def named_files(folder: Path, name: str) -> list[str]:
    """The names of a folder's weight files; ValueError if it has no safetensors weights."""
    if (folder / WEIGHTS).is_file():
        return [WEIGHTS]
    if (folder / INDEX).is_file():
        _check_lies_in(folder, INDEX, name)
        return indexed_files(folder / INDEX, name)
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
        raise ValueError(
            f"{name!r} holds pickled weights, which can run code when loaded; "
            "save the model again as safetensors (save_pretrained does)"
        )
    raise ValueError(f"{name!r} has no weights: {WEIGHTS} is missing")


def indexed_files(index: Path, name: str) -> list[str]:
    """The file names in an index; ValueError if one is not a plain name of a safetensors file."""
    try:
        entries = json.loads(index.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{name!r} has a broken {INDEX}: {error}".replace(str(index), INDEX)) from error
    files = entries.get("weight_map") if isinstance(entries, dict) else None
    if not isinstance(files, dict) or not files or not isinstance(entries.get("metadata"), dict):
        raise ValueError(f"{name!r} has a broken {INDEX}: it lacks its metadata or its weight_map")
    for tensor, file in files.items():
        if not isinstance(file, str) or not _PLAIN.fullmatch(file):
            raise ValueError(
                f"{name!r} has a {INDEX} that puts {tensor[:80]!r} into {str(file)[:80]!r}: weights are read "
                "from safetensors beside it only, pickled ones are never loaded"
            )
    return sorted(set(files.values()))


def _check_lies_in(folder: Path, file: str, name: str) -> None:
    """ValueError if a file is missing, or links to a place outside the folder and the model's hub cache."""
    home, path = folder.resolve(), (folder / file).resolve()
    if not path.is_file():
        raise ValueError(f"{name!r} lacks {file}, in which some of its weights should be")
    in_cache = home.parent.name == "snapshots" and path.is_relative_to(home.parent.parent.resolve())
    if not path.is_relative_to(home) and not in_cache:
        raise ValueError(f"{name!r} has a {file} that is a link to another folder; put the file itself there")
