"""The compiled forward of this process: Numba's, where it is installed and the processor can.

`SPECDEC_KERNELS=0` turns it off. It is compiled once per machine and kept in a folder of the user's, or in
the one that `SPECDEC_CACHE` names; where it can't be written each process compiles for itself.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import logging
import os
import threading
from functools import lru_cache
from pathlib import Path

from specdec.models.kernels.crew import Crew

SWITCH, FOLDER = "SPECDEC_KERNELS", "SPECDEC_CACHE"


def crew() -> Crew | None:
    """The compiled forward and its threads; None where it is switched off or can't be had."""
    if os.environ.get(SWITCH) == "0" or importlib.util.find_spec("numba") is None:
        return None
    with _compiling:
        return _crew()


_compiling = threading.Lock()


@lru_cache(maxsize=1)
def _crew() -> Crew | None:
    try:
        from specdec.models.kernels.processor import multiplies_and_adds

        if multiplies_and_adds():
            return _compiled(cache_folder())
    except Exception as error:  # a compiler can fail in many ways, and nothing depends on it
        logging.warning("no compiled forward: %s (%s)", type(error).__name__, error)
    return None


def cache_folder() -> Path | None:
    """Where compiled code is kept, by version of the sources; None where it can't be written."""
    base = os.environ.get(FOLDER) or os.environ.get("XDG_CACHE_HOME")
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    try:
        root = Path(base) if base else Path.home() / ".cache"
        folder = root / "specdec" / hashlib.sha256(sources).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # the latter without a home
        return None
    return folder if os.access(folder, os.W_OK) else None


def _compiled(folder: Path | None) -> Crew:
    from numba import cfunc, config

    if folder is not None:
        config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    from specdec.models.kernels.forward import take_part
    from specdec.models.kernels.tiles import multiply

    kept = folder is not None
    product = cfunc(f"void({', '.join(['int64'] * 8)})", cache=kept)(multiply)
    forward = cfunc("void(int64, int64)", cache=kept)(take_part)
    assert product.address is not None
    assert forward.address is not None
    called = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(forward.address)
    called.code = product, forward  # type: ignore[attr-defined]  # which live as long
    return Crew(called, product.address)
