"""The compiled forward of this machine, for tests with a cache of their own."""

import shutil
from pathlib import Path

from specdec.models.kernels import compiled, layout
from specdec.private_cache import private_folder


def compiled_code() -> Path | None:
    """The folder that holds the forward and the products of all kinds. What is missing is compiled."""
    if workers := compiled.crew():
        for kind in (*layout.BYTES, *layout.QUANTISED):
            workers.multiply(kind)
    return private_folder(compiled._version())


def copy_code(folder: Path, cache: Path) -> None:
    """Copy such a folder to another cache. Another process may write to it."""
    unfinished = shutil.ignore_patterns("*.tmp.*")
    shutil.copytree(folder, cache / "specdec" / folder.name, ignore=unfinished)
