"""A GGUF file as a `Source`, so that `load_pair` and all commands accept it as a target or a draft."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import AutoConfig, PreTrainedConfig

from specdec.models.cached_folders import PACKED, converted_folder, file_state, made, whole
from specdec.models.gguf.conversion import read_config, write_converted
from specdec.models.gguf.fields import PLAIN
from specdec.models.gguf.header import MAGIC, BrokenFileError, Header, read_header
from specdec.models.gguf.weights import CONFIGS
from specdec.models.kernels.compiled import compile_ahead, expected
from specdec.models.kernels.layout import GROUP, QUANTISED
from specdec.models.packed_file import FILE, ROUNDED_KINDS
from specdec.models.progress import Progress, Report, silent
from specdec.private_cache import DISK_FULL, VARIABLE

_OTHER_FOLDER = f"; {VARIABLE} can name another folder for converted files"


class GGUFSource:
    """A model in a GGUF file. name: the name that the user gave. Methods raise ValueError for a broken file.

    The header is read once, or not at all if the cache already holds the file's matrices in packed form.
    Files in the cache are compared with their checksums once.
    """

    def __init__(self, name: str, path: Path):
        self.name, self.path = name, path.resolve()
        self._folders: dict[str, Path] = {}

    def config(self) -> PreTrainedConfig:
        """The model's configuration; ValueError if the header is broken or describes no known model."""
        return self._config

    @cached_property
    def _config(self) -> PreTrainedConfig:
        with _naming_file(self.name):
            # first the forms whose checksums need no further comparison
            for form in sorted((PACKED, *ROUNDED_KINDS), key=lambda form: form not in self._folders):
                if (folder := self._cached(form)) is not None:
                    return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
            return read_config(self.path, self._header)

    @cached_property
    def _header(self) -> Header:
        self._state = file_state(self.path)
        return read_header(self.path)

    def _cached(self, form: str) -> Path | None:
        """The converted folder of this form (see `converted_folder`); None if it has not been made yet."""
        if form not in self._folders and whole(folder := converted_folder(self.path, form, [self.path])):
            self._folders[form] = folder
        return self._folders.get(form)

    def packed_bytes(self, form: str) -> int | None:
        """Bytes of the model's packed matrices: of the converted file, or else of the GGUF file's tensors.

        form: see `converted_folder`. Returns None if the compiled forward pass can't run this form. If
        the file is not converted yet, this call also starts to compile the matrix products of the form.
        """
        if not expected():
            return None
        with _naming_file(self.name):
            if (folder := self._cached(form)) is not None:
                return (folder / FILE).stat().st_size
            if not _can_be_packed(self._header, form):
                return None
            kinds = {tensor.type for tensor in self._header.tensors} & set(QUANTISED)
            if form in ROUNDED_KINDS:
                kinds.add(ROUNDED_KINDS[form])
            compile_ahead(["float32", *sorted(kinds)])  # the self-check runs a small copy in float32
            return sum(tensor.nbytes for tensor in self._header.tensors)

    def fetch(self, report: Report = silent, form: str = "") -> Path:
        """The folder with the converted model; the first call converts it. ValueError if the file is broken.

        form: see `converted_folder`. report: called with the progress.
        """

        def tell(done: int, total: int) -> None:
            report(Progress("converting", self.name, done, total))

        def write(new: Path) -> None:
            write_converted(self.path, self._header, new, tell, form)
            if file_state(self.path) != self._state:
                raise BrokenFileError("was replaced while it was read; load it again")

        if form not in self._folders:
            with _naming_file(self.name):
                folder = converted_folder(self.path, form, [self.path])
                self._folders[form] = made(folder, write)
        return self._folders[form]


def _can_be_packed(header: Header, form: str) -> bool:
    """Whether all matrices of a file can be packed in this form of `converted_folder`.

    For `PACKED`, at least one matrix must have four to eight bits; otherwise packing saves nothing.
    """
    matrices = [tensor for tensor in header.tensors if len(tensor.shape) == 2]
    types = {tensor.type for tensor in matrices}
    if header.architecture not in CONFIGS or not types <= {*QUANTISED, *PLAIN}:
        return False
    if form == PACKED:
        return bool(types & set(QUANTISED))
    return all(tensor.shape[1] % GROUP == 0 for tensor in matrices)


def is_gguf(path: Path) -> bool:
    """Whether a file with this path exists whose name ends with ".gguf" or that begins with "GGUF"."""
    if not os.path.isfile(path):  # unlike `Path.is_file`, this accepts any text as a path
        return False
    if path.suffix.lower() == ".gguf":
        return True
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


@contextmanager
def _naming_file(name: str) -> Iterator[Any]:
    """Turns an error while reading or converting a file into a ValueError whose message names the file."""
    try:
        yield
    except ImportError as error:
        raise ValueError(f"{name!r} is a GGUF file, for which `pip install gguf` is needed") from error
    except BrokenFileError as error:
        raise ValueError(f"{name!r} {error}") from error
    except SafetensorError as error:  # safetensors raises it on a full disk
        raise ValueError(f"{name!r} can't be converted: {error}{_OTHER_FOLDER}") from error
    except OSError as error:
        why = error.strerror or error
        if error.errno in DISK_FULL:
            raise ValueError(f"{name!r} can't be converted: {why}{_OTHER_FOLDER}") from error
        raise ValueError(f"{name!r} can't be read: {why}") from error
