"""The C library's allocator, which the threads of the server share."""

from __future__ import annotations

import ctypes
import os
import platform

_M_ARENA_MAX = -8
"""The number of `mallopt`'s option, from glibc's malloc.h."""
_ARENAS = 2


def share_arenas() -> None:
    """Let all threads allocate from two arenas. Call this before there are many threads.

    glibc gives each thread an arena of its own, up to eight per core, and a run is on whichever thread is
    free. Memory that it frees in one arena is not available to the next run in another: visitors of half an
    hour left 100 MB of such holes. Only one thread decodes, so two arenas cause no waiting. Other C libraries
    are left unchanged, and so is a number set in the environment.
    """
    if platform.libc_ver()[0] == "glibc" and "MALLOC_ARENA_MAX" not in os.environ:
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
