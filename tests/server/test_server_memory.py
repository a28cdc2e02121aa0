"""The data that visitors leave on the server does not grow with their number, and an idle server uses no
processor."""

import json
import platform

import pytest

from tests.helpers.processes import printed


@pytest.fixture(scope="module")
def left():
    # in a separate process, because Gradio leaves event loops open
    return json.loads(printed("from tests.stress.leftovers import main; main()").splitlines()[-1])


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("remembered", 44),  # sessions that Gradio keeps: as many as there are threads
        ("remaining", {}),  # objects of runs, whether the runs were read to their end or not
        ("unheard", {"seated": 0, "waiting": 0, "kept": [], "events": 0}),
    ],
)
def test_visitors_leave_nothing(left, what, expected):
    assert left[what] == expected


def test_an_idle_server_leaves_the_processor_alone(left):
    # each time its threads wake, they interrupt the decoding thread; Gradio's queue alone would wake 860
    # times a second
    assert left["wakes"] < 300


_COUNT_ARENAS = """
import ctypes, tempfile, threading
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
met = threading.Barrier(7)
def allocate():
    libc.malloc(1000)
    met.wait()
    met.wait()  # all are alive at once: one that ended would leave its arena to the next
for _ in range(6):
    threading.Thread(target=allocate).start()
met.wait()
with tempfile.NamedTemporaryFile("r") as file:
    stream = ctypes.c_void_p(libc.fopen(file.name.encode(), b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    print(file.read().count("<heap "))
met.wait()
"""
SHARED = "from components.server import memory; memory.share_arenas()"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are glibc's")
def test_six_threads_share_two_arenas_or_as_many_as_were_chosen(monkeypatch):
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    assert int(printed(_COUNT_ARENAS)) > 3
    assert int(printed(SHARED + _COUNT_ARENAS)) == 2
    assert int(printed(SHARED + _COUNT_ARENAS, {"MALLOC_ARENA_MAX": "3"})) == 3
