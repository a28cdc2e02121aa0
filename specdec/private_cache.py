"""A folder for cached files that no other user of the machine can write to.

Reading a cache can execute its content: compiled code, or an index that is a pickle. So a cache is used only
if its files belong to this user, and if no other user except `root` can write them or replace a folder above
them. Without a cache of this kind nothing is cached, and a warning says why.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "SPECDEC_CACHE"
"""The environment variable that names the folder of all caches. The default is XDG_CACHE_HOME or ~/.cache."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""The error numbers of a full disk."""
_ROOT = 0
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def private_folder(name: str) -> Path | None:
    """Return the folder `specdec/name` of the user's caches, made with mode 0700 if it is missing.

    The result is None, with a warning, if the folder can't be made or written, or if another user could
    change it: the folder or anything in it belongs to another user, another user may write or replace it, or
    it is or contains a symbolic link. On Windows files have no such owners and modes, so only writing is
    checked.
    """
    try:
        return _checked_folder(name)
    except (OSError, RuntimeError) as error:  # Path.home() raises RuntimeError
        logging.warning("Nothing is cached: %s. %s can name another folder.", error, VARIABLE)
        return None


def make_private(folder: Path) -> None:
    """Remove other users' permissions from all files in a folder, even if the process's umask would allow
    them."""
    for path in folder.rglob("*"):
        try:
            path.chmod(path.stat().st_mode & ~(stat.S_IRWXG | stat.S_IRWXO))
        except FileNotFoundError:  # another process has renamed a temporary file
            continue


def _checked_folder(name: str) -> Path:
    """The folder that `private_folder` returns. OSError, with the reason, if the folder can't be used."""
    base = os.environ.get(VARIABLE) or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    base = Path(base)
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    base = base.resolve()
    owned = hasattr(os, "geteuid")
    if owned:
        for path in (base, *base.parents):
            _check_above(path)
    folder = base / "specdec" / name
    for path in (folder.parent, folder):
        path.mkdir(mode=0o700, exist_ok=True)
        if owned:
            _check_own(path)
            path.chmod(0o700)
    if owned:
        for path in _contents(folder):
            _check_own(path)
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder} can't be written")
    return folder


def _contents(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        yield from (Path(parent, name) for name in (*folders, *files))


def _check_above(folder: Path) -> None:
    """PermissionError if another user could replace a file or folder in this folder above the cache."""
    status = folder.stat()
    if status.st_uid not in (os.geteuid(), _ROOT):
        raise PermissionError(f"{folder} belongs to another user, with the number {status.st_uid}")
    if status.st_mode & _OTHERS_WRITE and not status.st_mode & stat.S_ISVTX:
        raise PermissionError(f"other users can write to {folder}; `chmod go-w` ends that")


def _check_own(path: Path) -> None:
    """PermissionError if another user may have written this file or folder of the cache."""
    try:
        status = path.lstat()
    except FileNotFoundError:  # another process has just renamed its temporary file
        return
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise PermissionError(f"{path} is a link or a device, not a file or a folder; delete it")
    if status.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user, with the number {status.st_uid}; delete it")
    if status.st_mode & _OTHERS_WRITE:
        raise PermissionError(f"other users can write {path}, and may have done so; delete it")
