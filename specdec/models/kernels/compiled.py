"""Compiles the forward pass if Numba is installed and the processor has fused multiply-add.

`SPECDEC_KERNELS=0` turns the compiled forward pass off. It is compiled once per machine and version, and
stored in a private folder (`specdec.private_cache`). If there is no such folder, each process compiles it.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import logging
import os
import shutil
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from specdec.models.kernels.crew import Crew
from specdec.private_cache import DISK_FULL, make_private, private_folder

SWITCH = "SPECDEC_KERNELS"


def crew() -> Crew | None:
    """The compiled forward pass and its threads; None if it is switched off, unsupported or broken."""
    if not expected():
        return None
    with _compiling:
        return _crew()


def expected() -> bool:
    """Whether this machine supports the compiled forward pass and it is on. Compiling may still fail."""
    if os.environ.get(SWITCH) == "0" or importlib.util.find_spec("numba") is None:
        return False
    from specdec.models.kernels.processor import multiplies_and_adds

    return multiplies_and_adds()


def compile_ahead(kinds: Sequence[str]) -> None:
    """Start a thread that compiles the forward pass and the matrix products for these types of weights.

    Other threads go on meanwhile, because LLVM compiles without holding Python's lock.
    """

    def work() -> None:
        workers = crew()
        if workers is None:
            return
        for kind in kinds:
            with suppress(Exception):  # the first use of the product raises the error again
                workers.multiply(kind)

    threading.Thread(target=work, name="specdec-compiler", daemon=True).start()


_compiling = threading.RLock()
"""A lock for compilation, because Numba's cache folder is a setting of the whole process."""


@lru_cache(maxsize=1)
def _crew() -> Crew | None:
    try:
        from specdec.models.kernels.forward import take_part

        forward = _loaded(take_part, "void(int64, int64)")
        entry = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(forward.address)
        entry.code = forward  # type: ignore[attr-defined]  # keeps the code alive
        products, heads = (lru_cache(maxsize=None)(each) for each in (_product, _attention))  # kept alive
        return Crew(entry, lambda kind: products(kind).address, lambda size: heads(size).address)
    except Exception as error:  # a compiler can fail in many ways; `lean` replaces this pass
        logging.warning("no compiled forward pass: %s (%s)", type(error).__name__, error)
    return None


def _product(kind: str) -> Any:
    """The compiled function that multiplies inputs with weights of this type."""
    from numba import types

    from specdec.models.kernels import groups, tiles

    pointers, multiply = tiles.POINTERS, tiles.multiply
    if kind in groups.POINTERS:
        pointers, multiply = groups.POINTERS, groups.multiply_groups
    with _compiling:
        return _loaded(multiply, types.void(pointers[kind], *(types.int64,) * 7))


def _attention(size: int) -> Any:
    """The compiled attention for heads of this size."""
    from numba import types

    from specdec.models.kernels.attention import attend, head_type

    with _compiling:
        return _loaded(attend, types.void(head_type(size), *(types.int64,) * 9))


def _version() -> str:
    """The name of the cache folder: a hash of these modules' source code."""
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return hashlib.sha256(sources).hexdigest()[:16]


def _loaded(function: Any, signature: Any) -> Any:
    """The compiled code of a function, from the cache if it is there.

    If the cache can't be read, it is removed and filled again. On a full disk the function is not cached.
    """
    folder = private_folder(_version())
    if folder is None:
        return _compiled(function, signature, None)
    was_empty = not any(folder.iterdir())
    try:
        return _compiled(function, signature, folder)
    except Exception as error:  # a damaged file can raise anything
        if isinstance(error, OSError) and (was_empty or error.errno in DISK_FULL):
            logging.warning("The compiled forward pass is not cached: %s", error)
            return _compiled(function, signature, None)
        if was_empty:
            raise
        logging.warning(
            "The compiled code in %s is damaged (%s) and is compiled again", folder, type(error).__name__
        )
    shutil.rmtree(folder)
    return _loaded(function, signature)


def _compiled(function: Any, signature: Any, folder: Path | None) -> Any:
    """A function's compiled code: read from `folder`, or compiled and written there; None uses no folder."""
    from numba import cfunc, config

    cached, usual = folder is not None, config.CACHE_DIR  # type: ignore[attr-defined]
    if cached:
        config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    try:
        result = cfunc(signature, cache=cached)(function)
    finally:
        config.CACHE_DIR = usual  # type: ignore[attr-defined]  # other users of Numba have their own folder
    if folder is not None:
        make_private(folder)
    assert result.address is not None
    return result
