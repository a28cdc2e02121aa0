"""The private cache of converted models. Each has a folder, which is either complete or absent.

A folder is written under another name, with a list of its files and their checksums, and renamed when it is
complete. A folder that does not match its list is made again. The folder of a replaced model is removed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from specdec.checksum import quick_checksum
from specdec.private_cache import make_private, private_folder

VERSION = 4
"""The version of the conversion. Folders of another version are made again."""
LIST = "files.json"
"""Names, sizes and checksums of all files of a folder, written last."""
PACKED = "packed"
"""The form with the matrices in the file's own bits, in the blocks of the compiled forward."""


def folder_name(path: Path, form: str, files: Sequence[Path]) -> str:
    """The name of a model's converted folder: a part for its path and form, and one for its content.

    form: `PACKED`, "int4" or "int8" (the same with matrices of at most so many bits), or "" for safetensors.
    files: those with the model's weights. A changed file gives another name, even if its size and time of
    modification are the same, because no program can set `st_ctime_ns`.
    """
    states = [file.stat() for file in files]
    content = [(each.st_size, each.st_mtime_ns, each.st_ctime_ns) for each in states]
    about = (str(path.resolve()), form), (VERSION, *content)
    return "-".join(hashlib.sha256(repr(part).encode()).hexdigest()[:24] for part in about)


def kept(name: str) -> Path | None:
    """The folder of this name, if the cache holds it undamaged; else None."""
    folder = _cache() / name
    return folder if whole(folder) else None


def made(name: str, write: Callable[[Path], None]) -> Path:
    """The folder of this name, from the cache or made now.

    write: writes its files into an empty folder. If several processes ask for one folder at the same time,
    one writes and the others wait.
    """
    from filelock import FileLock

    cache = _cache()
    folder, of_path = cache / name, name.split("-")[0]
    with FileLock(cache / f"{of_path}.lock", mode=0o600):
        if whole(folder):
            return folder
        for old in cache.glob(f"{of_path}-*"):  # damaged, or of an earlier file at this path
            shutil.rmtree(old, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=cache))
        try:
            write(new)
            (new / LIST).write_text(json.dumps(_listed(new)))
            make_private(new)
            new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return folder


def whole(folder: Path) -> bool:
    """Whether a converted folder exists and holds exactly the files that were written."""
    try:
        listed = json.loads((folder / LIST).read_text())
        sizes = all((folder / name).stat().st_size == size for name, (size, _) in listed.items())
        return sizes and all(quick_checksum(folder / name) == own for name, (_, own) in listed.items())
    except (OSError, ValueError, TypeError, AttributeError):
        return False


@lru_cache(maxsize=1)
def _cache() -> Path:
    """The private cache. Without one: a folder that this process removes when it ends."""
    folder = private_folder("gguf")
    if folder is not None:
        return folder
    temporary = tempfile.TemporaryDirectory(prefix="specdec-gguf-")
    _temporary_folders.append(temporary)
    return Path(temporary.name)


_temporary_folders: list[Any] = []


def _listed(folder: Path) -> dict[str, tuple[int, str]]:
    files = [file for file in folder.iterdir() if file.is_file()]
    return {file.name: (file.stat().st_size, quick_checksum(file)) for file in files}
