"""Finds a model's files in a local folder, or on the hub, from which they are fetched into the hub's cache.

Loading then reads local files only. Without a network, one short request fails, instead of retries for each
of twenty files. Only safetensors and small text files are fetched.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from huggingface_hub import HfApi, constants, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError, RepositoryNotFoundError
from huggingface_hub.utils import validate_repo_id
from tqdm import tqdm
from transformers import AutoConfig, PreTrainedConfig

from specdec.checksum import file_checksum
from specdec.models.config_entries import check_entries, check_quantisation
from specdec.models.gguf.source import GGUFSource, is_gguf
from specdec.models.progress import Progress, Report, silent
from specdec.models.weight_files import ADAPTER, INDEX, check_weight_files, indexed_files

TIMEOUT = 5
"""Seconds within which the hub must begin to answer."""
_UNREACHABLE: tuple[type[BaseException], ...] = (*HfHubHTTPError.__bases__, OSError)
"""Errors of the hub's client without a network. Its versions use HTTP libraries with different errors."""
_WEIGHTS = re.compile(r"model(-\d+-of-\d+)?\.safetensors")
_TEXTS = re.compile(r"[^/]+\.(json|txt|model|jinja)")


@runtime_checkable
class Source(Protocol):
    """Where a model's files are. name: the name that the user gave for the model, for use in messages."""

    name: str

    def config(self) -> PreTrainedConfig:
        """The model's configuration, read without the weights. ValueError if it is broken or unknown."""
        ...

    def fetch(self, report: Report = silent) -> Path:
        """The local folder with all files of the model; they are fetched if necessary."""
        ...


def checked_name(name_or_path: str | os.PathLike[str]) -> str:
    """The name of a model as a string. ValueError if it is neither a string nor a path."""
    name = os.fspath(name_or_path) if isinstance(name_or_path, os.PathLike) else name_or_path
    if not isinstance(name, str):
        raise ValueError(
            f"{name_or_path!r} is no name of a model: give a folder or a hub id like Qwen/Qwen3-8B"
        )
    return name


def find_source(name_or_path: str | os.PathLike[str]) -> Source:
    """The files of the model with this name: a folder, a GGUF file, or on the hub (offline, in its cache).

    ValueError names what is missing.
    """
    name = checked_name(name_or_path)
    if os.path.isdir(name):
        return FolderSource(name, Path(name))
    if is_gguf(Path(name)):
        return GGUFSource(name, Path(name))
    if os.path.exists(name):
        raise ValueError(f"{name!r} is neither a folder with a model nor a GGUF file")
    if name.startswith((".", "~", os.sep)) or name.count("/") > 1:
        raise ValueError(
            f"{name!r} does not exist; give a folder with config.json and model.safetensors, or a hub id"
        )
    try:
        validate_repo_id(name)
        info = HfApi().model_info(name, files_metadata=True, timeout=TIMEOUT)
    except HFValidationError as error:
        raise ValueError(f"{name!r} is not a local folder, and no hub id like Qwen/Qwen3-8B") from error
    except GatedRepoError as error:
        raise ValueError(_gated(name)) from error
    except RepositoryNotFoundError as error:
        raise ValueError(
            f"{name!r} is not a local folder, and not found on the hub (a private model needs HF_TOKEN)"
        ) from error
    except _UNREACHABLE as error:
        return _cached(name, error)
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
    return HubSource(name, info.sha, sizes)


class FolderSource:
    """A model in a local folder. ValueError if the folder holds no model with safetensors weights."""

    def __init__(self, name: str, folder: Path):
        self.name, self._folder = name, folder
        if not (folder / "config.json").is_file():
            raise ValueError(f"folder {name!r} has no config.json: it holds no Hugging Face model")
        check_weight_files(folder, name)

    def config(self) -> PreTrainedConfig:
        """The model's configuration; ValueError if config.json is broken or unknown."""
        return _read_config(self._folder, self.name)

    def fetch(self, report: Report = silent) -> Path:  # noqa: ARG002
        """The folder itself, because its files need not be fetched."""
        return self._folder


class HubSource:
    """A model on the hub at one commit. Only the files that loading needs are fetched.

    commit: its newest commit's id. sizes: bytes by file. ValueError if it has no safetensors weights.
    """

    def __init__(self, name: str, commit: str | None, sizes: Mapping[str, int]):
        self.name, self._commit = name, commit
        texts = [file for file in sizes if _TEXTS.fullmatch(file)]
        weights = [file for file in sizes if _WEIGHTS.fullmatch(file)]
        if "config.json" not in texts:
            raise ValueError(f"{name!r} has no config.json on the hub: it is no model of transformers")
        if ADAPTER in texts:
            raise ValueError(
                f"{name!r} is an adapter on the hub; give a whole model into which the adapter is merged"
            )
        if not weights:
            raise ValueError(f"{name!r} has no safetensors weights on the hub; pickled ones are never loaded")
        self.sizes = {file: sizes[file] for file in texts + weights}

    def config(self) -> PreTrainedConfig:
        """The model's configuration; ValueError if config.json can't be fetched, is broken or unknown."""
        # A request without a commit makes the cache store which commit is the newest, for use offline.
        return _read_config(_downloaded(self.name, "config.json").parent, self.name)

    def fetch(self, report: Report = silent) -> Path:
        """Fetches the files that are not in the cache; ValueError if the disk or the hub prevents it."""
        self._check_disk()
        done, total = 0, sum(self.sizes.values())
        report(Progress("fetching", self.name, done, total))
        for file, size in self.sizes.items():

            def show(n: int, _: int = 0, start: int = done) -> None:
                report(Progress("fetching", self.name, min(start + n, total), total))

            path = _downloaded(self.name, file, _bar(show), self._commit)
            if file == INDEX:
                indexed_files(path, self.name)  # a wrong index is refused before weights are fetched
            done += size
            show(size)
        check_weight_files(path.parent, self.name)
        return path.parent

    def _check_disk(self) -> None:
        cached = [
            file
            for file in self.sizes
            if isinstance(try_to_load_from_cache(self.name, file, revision=self._commit), str)
        ]
        missing = sum(size for file, size in self.sizes.items() if file not in cached)
        cache = Path(constants.HF_HUB_CACHE).absolute()
        existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
        free = shutil.disk_usage(existing).free
        if missing > free:
            raise ValueError(
                f"{self.name!r} needs {missing / 1e9:.1f} GB on disk, and {free / 1e9:.1f} GB are free"
            )


def fetch_file(repository: str, file: str, sha256: str, report: Report = silent) -> Path:
    """The path of a repository's file in the hub's cache.

    A missing file is fetched, and an interrupted download is continued. ValueError if the hub or the disk
    prevents it, or if the fetched content does not have this checksum.
    """
    path = try_to_load_from_cache(repository, file)
    if isinstance(path, str):
        return Path(path)

    def show(done: int, total: int) -> None:
        report(Progress("fetching", file, done, total))

    fetched = _downloaded(repository, file, _bar(show))
    if file_checksum(fetched) != sha256:
        fetched.resolve().unlink()
        raise ValueError(f"{file} of {repository!r} is not the file that was expected; it is deleted")
    return fetched


def _downloaded(name: str, file: str, bar: type[tqdm] | None = None, commit: str | None = None) -> Path:
    try:
        return Path(hf_hub_download(name, file, revision=commit, etag_timeout=TIMEOUT, tqdm_class=bar))
    except GatedRepoError as error:
        raise ValueError(_gated(name)) from error
    except _UNREACHABLE as error:
        raise ValueError(
            f"{file} of {name!r} could not be fetched: {_obstacle(error)}; the downloaded part is kept, so "
            "try again"
        ) from error


def _cached(name: str, error: BaseException) -> FolderSource:
    """The copy of an earlier download, used if the hub is out of reach. ValueError if there is no copy."""
    config = try_to_load_from_cache(name, "config.json")
    if isinstance(config, str):
        return FolderSource(name, Path(config).parent)
    raise ValueError(
        f"{name!r} is not a local folder and was not downloaded before, and {_obstacle(error)}"
    ) from error


_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS, errno.EIO)


def _obstacle(error: BaseException) -> str:
    """Why the hub or the disk failed, as a clause for users, whom the libraries' messages seldom help."""
    if isinstance(error, OSError) and error.errno in _DISK:
        return f"the disk says {error.strerror!r}"
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return f"the hub answers with status {status} now"
    return "the hub is out of reach: there is no network here, no answer from it, or HF_HUB_OFFLINE is set"


def _bar(show: Callable[[int, int], None]) -> type[tqdm]:
    """A progress bar for the hub's client. It only calls `show` with a file's fetched and total bytes."""

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any):
            kwargs.pop("name", None)  # the client passes `name`, which tqdm does not take
            super().__init__(*args, **(kwargs | {"disable": True}))
            self.bytes, self.total = kwargs.get("initial") or 0, kwargs.get("total") or 0

        def update(self, n: float | None = 1) -> None:
            self.bytes += int(n or 0)
            show(self.bytes, self.total)

        def update_transfer(self, n: float | None = 1) -> None:
            """Ignores the bytes sent over the network, which some downloads count separately."""

        def set_transfer_postfix_str(self, *args: Any, **kwargs: Any) -> None:
            """Ignores the download speed."""

    return Bar


def _read_config(folder: Path, name: str) -> PreTrainedConfig:
    try:
        entries = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(config_problem(name, folder, error)) from error
    check_entries(entries, name)
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # each architecture raises errors of its own
        raise ValueError(config_problem(name, folder, error)) from error
    check_quantisation(config, name)
    return config


def config_problem(name: str, folder: Path, error: Exception) -> str:
    """Why a config was refused, as a message without the path of the folder on this machine."""
    # The first line of many errors names an entry, and the second line says what is wrong with it.
    text = " ".join(" ".join(str(error).splitlines()[:2]).split())[:300] or type(error).__name__
    text = text.replace(str(folder), name)
    if "trust_remote_code" in text or "custom code" in text:
        return f"{name!r} needs code of its own, which is never run; choose a model that transformers knows"
    return f"{name!r} has a config.json that transformers can't read: {text}"


def _gated(name: str) -> str:
    return (
        f"{name!r} is gated: accept its licence on its page on the hub, then start the server with an access "
        "token of yours in HF_TOKEN"
    )
