"""The memory of the server process: its allocator and its garbage collector."""

from __future__ import annotations

import ctypes
import gc
import os
import platform

import torch

from specdec.devices import ONE_GRAPH

_M_ARENA_MAX = -8
"""The number of the option M_ARENA_MAX for glibc's function `mallopt`, from malloc.h."""
_ARENAS = 2
_IS_GLIBC = platform.libc_ver()[0] == "glibc"


def share_arenas() -> None:
    """Let all threads allocate from two arenas. Call this before there are many threads.

    glibc gives each thread an arena of its own, up to eight per core, and a run is on whichever thread is
    free. Memory that a run frees in one arena is not available to the next run in another one. After half an
    hour of visitors, 100 MB of such memory lay unused. Only one thread decodes, so two arenas cause no
    waiting. Nothing is changed with another C library, or if the environment sets the number of arenas.
    """
    if _IS_GLIBC and "MALLOC_ARENA_MAX" not in os.environ:
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Free unused memory, and give it back to the system.

    Loading a pair leaves hundreds of megabytes free in the allocator. This call runs the garbage collector
    over all modules and weights. Every visitor waits 0.2 to 0.4 seconds for it, but only once: later
    collections skip everything that exists now. The call also switches the garbage collector on, which `app`
    switches off while it starts.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.enable()
    if _IS_GLIBC:
        ctypes.CDLL(None).malloc_trim(0)
    if torch.cuda.is_available():
        with ONE_GRAPH:
            torch.cuda.empty_cache()
