"""Remembers which models have passed the self-check, so that a later start need not repeat it.

A verdict is about bytes: the files of the weights, the code of the forward, the versions of the libraries and
the processor. Its file is named by a checksum of all of these and lies in a private folder. It holds a
checksum of the logits that the checked forward gave; a start compares it with the logits that the forward
gives now. Where anything differs, the model is checked again.

Beside it lie the weights as the forward reads them. A start maps them into memory instead of packing them, so
that they take no memory of their own and the model's own weights are not read.

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
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from specdec.checksum import quick_checksum
from specdec.models.base import PreparedModel
from specdec.models.kernels.compiled import crew
from specdec.models.kernels.decoder import CompiledDecoder
from specdec.models.lean import KNOWN
from specdec.models.selfcheck import PREFIX_LENGTH, SCRIPTS, ordinary_tokens
from specdec.private_cache import private_folder

FOLDER, WEIGHTS = "verdicts", ".safetensors"
LIBRARIES = ("torch", "transformers", "numpy", "numba", "llvmlite")


class Verdict(NamedTuple):
    """What the self-check found of a model that runs on the compiled forward.

    logits: SHA-256 of the logits of `fingerprint`. weights: the checksum of the file of packed weights.
    """

    vocab_size: int
    context_length: int
    logits: str
    weights: str


def files_checksum(folder: Path) -> str:
    """A checksum of names and contents of a model's files."""
    files = sorted(file for file in folder.iterdir() if file.suffix in (".json", ".safetensors"))
    return _checksum("\n".join(f"{file.name} {quick_checksum(file)}" for file in files))


def path_of(module: PreTrainedModel, files: str | None) -> Path | None:
    """The file of the verdict on a module; None without a private folder, or where no verdict is possible.

    files: the checksum of the files that the module was read from.
    """
    if files is None or type(module) not in KNOWN or module.device.type != "cpu" or crew() is None:
        return None
    return path_of_files(files, type(module).__name__, str(module.dtype))


def path_of_files(files: str, *more: str) -> Path | None:
    """The file of the verdict on a model; None without a private folder.

    files: the checksum of the files that it was read from. more: the ways in which they were read.
    """
    folder = private_folder(FOLDER)
    about = [files, *more]
    names = (_checksum(json.dumps(part))[:32] for part in (about, conditions()))
    return folder and folder / f"{'-'.join(names)}.json"


def recall(path: Path) -> Verdict | None:
    """The verdict in this file; None where there is none, or a damaged one."""
    try:
        checksum, text = path.read_text().split("\n")
        return Verdict(**json.loads(text)) if _checksum(text) == checksum else None
    except (OSError, ValueError, TypeError):
        return None


def stored_weights(path: Path, verdict: Verdict) -> dict[str, Tensor] | None:
    """The packed weights that lie beside a verdict, mapped into memory; None where they are damaged."""
    file = path.with_suffix(WEIGHTS)
    try:
        return load_file(file) if quick_checksum(file) == verdict.weights else None
    except (OSError, SafetensorError):
        return None


def remember(path: Path, model: PreparedModel) -> None:
    """Writes the verdict on a checked model and its packed weights, in place of those of earlier versions.

    A process that is stopped leaves no half of a file. Nothing is written where the weights would take more
    than half of the disk's free room: the next start checks again.
    """
    assert isinstance(model.decoder, CompiledDecoder), "only a compiled forward has verdicts"
    new = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    try:
        _remove_earlier(path)
        if 2 * model.decoder.nbytes > shutil.disk_usage(path.parent).free:
            return
        save_file(model.decoder.packed_tensors(), new)
        verdict = Verdict(model.vocab_size, model.context_length, fingerprint(model), quick_checksum(new))
        new.chmod(0o600)
        new.replace(path.with_suffix(WEIGHTS))
    except (OSError, SafetensorError):  # the disk is full: the next start checks again
        new.unlink(missing_ok=True)
        return
    write(path, verdict)


def write(path: Path, verdict: Verdict) -> None:
    """Writes a verdict, whole or not at all; without room on the disk the next start checks again."""
    new, text = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}"), json.dumps(verdict._asdict())
    try:
        new.write_text(f"{_checksum(text)}\n{text}")
        new.chmod(0o600)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)


def _remove_earlier(path: Path) -> None:
    """Removes the files of earlier versions' verdicts on the same model."""
    for old in path.parent.glob(f"{path.name.split('-')[0]}-*"):
        old.unlink(missing_ok=True)


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
