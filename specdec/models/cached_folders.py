"""Folders in private caches, each complete or absent: converted models, and passed checks (`passed_checks`).

A folder is written under another name, with a list of its files and their checksums, and renamed when it is
complete. A folder that does not match its list is made again. The folder of a replaced model is removed.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from specdec.checksum import quick_checksum
from specdec.private_cache import make_private, private_folder

VERSION = 4
"""The version of the conversion. A folder of another version is not used; a new one is made."""
LIST = "files.json"
"""Names, sizes and checksums of all files of a folder, written last."""
PACKED = "packed"
"""The form of a folder whose matrices keep the bits of a GGUF file, packed for the compiled forward pass."""


def converted_folder(path: Path, form: str, files: Sequence[Path]) -> Path:
    """The path of a model's converted folder. Its name is a hash of path and form, "-", a hash of the files.

    form: `PACKED`; "int4" or "int8" for packed matrices of at most 4 or 8 bits; or "" for safetensors. files:
    the files with the weights. A changed file gives another name even if its size and modification time
    are equal, because the hash includes `st_ctime_ns`, which no program can set.
    """
    parts = (str(path.resolve()), form), (VERSION, *map(file_state, files))
    return _cache() / "-".join(hashlib.sha256(repr(part).encode()).hexdigest()[:24] for part in parts)


def file_state(file: Path) -> tuple[int, int, int]:
    """Size and times of a file, of which at least one changes if the file is replaced."""
    state = file.stat()
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns


def made(folder: Path, write: Callable[[Path], None]) -> Path:
    """The folder at this path in the cache. If it is missing or damaged, `write` makes it now.

    write: writes the files into the empty folder that it gets. If several processes ask for one folder at the
    same time, one writes and the others wait. The model's older folders, whose names are equal up to the "-",
    are removed.
    """
    cache, of_model = folder.parent, folder.name.split("-")[0]
    for path in (cache.parent, cache):  # somebody may have emptied the cache since it was made
        path.mkdir(mode=0o700, exist_ok=True)
    with FileLock(cache / f"{of_model}.lock", mode=0o600):
        if whole(folder):
            return folder
        for old in cache.glob(f"{of_model}-*"):  # damaged, half written, or of other files or versions
            shutil.rmtree(old, ignore_errors=True)
            if old.is_file():
                old.unlink()
        new = Path(tempfile.mkdtemp(prefix=f"{of_model}-", dir=cache))
        try:
            write(new)
            (new / LIST).write_text(json.dumps(_file_list(new)), encoding="utf-8")
            make_private(new)
            new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return folder


def whole(folder: Path) -> bool:
    """Whether a folder exists and its files match its list, which was written when it was complete."""
    try:
        return json.loads((folder / LIST).read_bytes()) == _file_list(folder)
    except (OSError, ValueError):
        return False


@lru_cache(maxsize=1)
def _cache() -> Path:
    """The folder of converted models: in the private cache, or else a temporary one, removed at exit."""
    folder = private_folder("gguf")
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="specdec-gguf-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _file_list(folder: Path) -> dict[str, list[Any]]:
    """Size and checksum of each file of a folder, except the file that stores this list."""
    files = [file for file in folder.iterdir() if file.is_file() and file.name != LIST]
    return {file.name: [file.stat().st_size, quick_checksum(file)] for file in files}
