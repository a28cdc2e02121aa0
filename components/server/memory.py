"""The C library's memory, shared by the threads of the server."""

from __future__ import annotations

import ctypes
import os
import platform

_M_ARENA_MAX = -8
"""`mallopt`'s name for it, from glibc's malloc.h."""
_ARENAS = 2


def share_arenas() -> None:
    """Let all threads allocate from two arenas; to be called before there are many threads.

    glibc gives each thread an arena of its own, up to eight per core, and a run is on whichever thread is
    free: what it gives back in one arena is not there for the next run in another. Visitors of half an
    hour left 100 MB of such holes. One thread decodes, so that two arenas have no line in front of them.
    Other C libraries are left as they are, and so is a number from the environment.
    """
    if platform.libc_ver()[0] == "glibc" and "MALLOC_ARENA_MAX" not in os.environ:
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
