"""Remembers which models have passed the self-check, so that a later start need not repeat it.

A verdict holds for the files of the weights, the code of the forward, the versions of the libraries and the
processor. Its file is named by a checksum of all of these and lies in a private folder. It holds a checksum
of the logits that the checked forward gave, and one of the packed weights. A start compares both checksums
with those of the present logits and weights. Where anything differs, the model is checked again.

Beside the verdict lie the weights as the forward reads them. A start maps them into memory instead of packing
them, so that they take no memory of their own and the model's own weights are not read.

Only the compiled forward has verdicts, because its logits are the same bits on any number of threads.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import threading
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from specdec.checksum import quick_checksum
from specdec.models.base import PreparedModel
from specdec.models.kernels.decoder import CompiledDecoder
from specdec.models.selfcheck import PREFIX_LENGTH, SCRIPTS, ordinary_tokens
from specdec.private_cache import private_folder

FOLDER, WEIGHTS = "verdicts", ".safetensors"
LIBRARIES = ("torch", "transformers", "numpy", "numba", "llvmlite")


def files_checksum(folder: Path) -> str:
    """A checksum of names and contents of a model's files."""
    files = sorted(file for file in folder.iterdir() if file.suffix in (".json", ".safetensors"))
    return _checksum("\n".join(f"{file.name} {quick_checksum(file)}" for file in files))


def path_of(files: str, *more: str) -> Path | None:
    """The file of the verdict on a model; None without a private folder.

    files: the checksum of the files that it was read from. more: how they were read, as class and dtype.
    """
    folder = private_folder(FOLDER)
    names = (_checksum(json.dumps(part))[:32] for part in ([files, *more], conditions()))
    return folder and folder / f"{'-'.join(names)}.txt"


def holds(path: Path, model: PreparedModel) -> bool:
    """Whether the model still gives the logits whose checksum the verdict in this file holds."""
    try:
        return path.read_text().split(" ")[0] == fingerprint(model)
    except (OSError, ValueError):
        return False


def stored_weights(path: Path) -> dict[str, Tensor] | None:
    """The packed weights beside a verdict, mapped into memory; None where they or the verdict are damaged."""
    file = path.with_suffix(WEIGHTS)
    try:
        return load_file(file) if path.read_text().split(" ")[1:] == [quick_checksum(file)] else None
    except (OSError, ValueError, SafetensorError):
        return None


def remember(path: Path, model: PreparedModel) -> None:
    """Writes the verdict on a checked model and its packed weights, in place of those of earlier versions.

    Weights that stay in the bits of a model's own file are not written again. A process that is stopped
    leaves no half of a file. Nothing is written where the weights would take more than half of the disk's
    free room: the next start checks again.
    """
    new, text = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}"), fingerprint(model)
    try:
        for old in path.parent.glob(f"{path.name.split('-')[0]}-*"):
            old.unlink(missing_ok=True)  # also the files of a process that was stopped
        if type(model.decoder) is CompiledDecoder:
            if 2 * model.decoder.nbytes > shutil.disk_usage(path.parent).free:
                return
            save_file(model.decoder.packed_tensors(), new)
            text += f" {quick_checksum(new)}"
            new.chmod(0o600)
            new.replace(path.with_suffix(WEIGHTS))
        new.write_text(text)
        new.chmod(0o600)
        new.replace(path)
    except (OSError, SafetensorError):  # the disk is full: the next start checks again
        new.unlink(missing_ok=True)


def fingerprint(model: PreparedModel) -> str:
    """SHA-256 of the logits that the model's session gives for a prefix and a tree."""
    tokens = ordinary_tokens(model.module)
    parents = SCRIPTS["tree"][0].parents
    session = model.session()
    session.prefill(tokens[:PREFIX_LENGTH])
    logits = session.forward(torch.tensor(tokens[PREFIX_LENGTH:][: len(parents)]), parents)
    return hashlib.sha256(logits.contiguous().numpy().tobytes()).hexdigest()


def conditions() -> list[str]:
    """Everything besides the weights on which the bits of a compiled forward depend."""
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
