"""The pair "coder" and the places of its files: Qwen2.5-Coder-1.5B-Instruct, with the 0.5B as its draft.

The files are the original GGUF files of the models' makers, with four bits per weight (Q4_K_M). They are not
part of this project. They come from a folder, or from the hub if the user allows the download.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["DRAFT", "LICENCE", "MEMORY", "MISSING", "SIZE", "TARGET", "VARIABLE", "File", "installed"]


class File(NamedTuple):
    """A file on the hub. size: bytes. sha256: of its content, in hexadecimal digits."""

    repository: str
    name: str
    size: int
    sha256: str


TARGET = File(
    "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    1_117_320_768,
    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
)
DRAFT = File(
    "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
    "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    491_400_064,
    "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
)
LICENCE = "Apache 2.0"
SIZE = f"{(TARGET.size + DRAFT.size) / 1e9:.1f} GB"
"""The size of both files together, as text."""
MEMORY = 2_400_000_000
"""Bytes of memory that a process needs for both models with a CPU's compiled forward pass."""
VARIABLE = "SPECDEC_MODELS"
"""The environment variable that names a folder with both files."""
MISSING = (
    f"the pair coder is a download of {SIZE} from the hub, which needs your permission: give --download (in "
    f"Python download=True), or let {VARIABLE} name a folder with {TARGET.name} and {DRAFT.name}"
)


def installed() -> tuple[Path, Path] | None:
    """The files of target and draft: in the folder that `VARIABLE` names, or in the hub's cache. None if
    neither place has both files."""
    from huggingface_hub import try_to_load_from_cache

    folder = Path(os.environ.get(VARIABLE) or os.devnull)
    local = folder / TARGET.name, folder / DRAFT.name
    if all(map(os.path.isfile, local)):
        return local
    cached = [try_to_load_from_cache(file.repository, file.name) for file in (TARGET, DRAFT)]
    paths = [Path(path) for path in cached if isinstance(path, str)]
    return (paths[0], paths[1]) if len(paths) == 2 else None
