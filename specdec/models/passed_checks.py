"""Remembers which models have passed the self-check, so that a later start need not repeat it.

A passed check is valid for one combination of weight files, code of the forward pass, versions of libraries
and processor. It is stored as a folder (`cached_folders`) whose name is made of checksums of all these. The
folder holds a checksum of the check's logits. A later start computes these logits again and compares the
checksums. If they differ, the model is checked again.

The folder also holds the packed weights. A later start maps them into memory instead of packing the weights
again, so that they take no memory of their own and the model's own weights are not read.

Only checks of the compiled forward pass are remembered, because its logits' bits do not depend on threads.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from specdec.checksum import quick_checksum
from specdec.models.base import PreparedModel
from specdec.models.cached_folders import made, whole
from specdec.models.kernels.decoder import CompiledDecoder
from specdec.models.selfcheck import PREFIX_LENGTH, SCRIPTS, ordinary_tokens
from specdec.private_cache import private_folder

CACHE, LOGITS, WEIGHTS = "verdicts", "logits.txt", "weights.safetensors"
LIBRARIES = ("torch", "transformers", "numpy", "numba", "llvmlite")


def files_checksum(folder: Path) -> str:
    """A checksum of the names and contents of a model's files."""
    files = sorted(file for file in folder.iterdir() if file.suffix in (".json", ".safetensors"))
    return _checksum("\n".join(f"{file.name} {quick_checksum(file)}" for file in files))


def folder_of(files: str, *more: str) -> Path | None:
    """The folder of a model's passed check; None without a private cache.

    files: the checksum of the model's files. more: how they are read, such as class and dtype.
    """
    cache = private_folder(CACHE)
    names = (_checksum(json.dumps(part))[:32] for part in ([files, *more], conditions()))
    return cache and cache / "-".join(names)


def holds(checks: Path, model: PreparedModel) -> bool:
    """Whether the model still gives the logits whose checksum is in this folder."""
    try:
        return (checks / LOGITS).read_text(encoding="utf-8") == fingerprint(model)
    except (OSError, ValueError):
        return False


def stored_weights(checks: Path) -> dict[str, Tensor] | None:
    """The packed weights in this folder, mapped into memory; None if the folder is missing or damaged."""
    try:
        return load_file(checks / WEIGHTS) if whole(checks) else None
    except (OSError, SafetensorError):  # another process removed it, or its path can't be opened
        return None


def remember(checks: Path, model: PreparedModel) -> None:
    """Records that a model passed its check, and writes the model's packed weights. Earlier records are
    replaced.

    Weights that the model's own file stores in the same form are not written again. Nothing is written if the
    weights would take more than half of the free disk space. Then the next start checks again.
    """

    def write(folder: Path) -> None:
        (folder / LOGITS).write_text(fingerprint(model), encoding="utf-8")
        if type(model.decoder) is CompiledDecoder:
            if 2 * model.decoder.nbytes > shutil.disk_usage(folder).free:
                raise OSError("there is no room for the weights")
            save_file(model.decoder.packed_tensors(), folder / WEIGHTS)

    with suppress(OSError, SafetensorError, NotImplementedError):  # NotImplementedError: a disk without locks
        made(checks, write)


def fingerprint(model: PreparedModel) -> str:
    """SHA-256 of the logits that the model gives for a fixed prefix and a tree of tokens."""
    tokens = ordinary_tokens(model.module)
    parents = SCRIPTS["tree"][0].parents
    session = model.session()
    session.prefill(tokens[:PREFIX_LENGTH])
    logits = session.forward(torch.tensor(tokens[PREFIX_LENGTH:][: len(parents)]), parents)
    return hashlib.sha256(logits.contiguous().numpy().tobytes()).hexdigest()


def conditions() -> list[str]:
    """Versions of code, libraries and processor: with the weights, they determine the logits' bits."""
    from specdec.models.kernels.processor import description

    versions = [f"{name} {version(name)}" for name in LIBRARIES]
    return [code(), platform.python_version(), platform.machine(), description(), *versions]


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=1)
def code() -> str:
    """SHA-256 of the source files of `specdec.models`."""
    folder = Path(__file__).parent
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        total.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return total.hexdigest()
