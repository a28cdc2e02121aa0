"""The data that visitors leave on the server does not grow with their number, and an idle server uses no
processor."""

import json
import os
import platform
import subprocess
import sys

import pytest

from tests.stress.leftovers import MANY
from tests.stress.visitors import ROOT


@pytest.fixture(scope="module")
def left():
    # in a separate process, because Gradio leaves event loops open
    command = [sys.executable, "-m", "tests.stress.leftovers"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout.splitlines()[-1])


def test_gradio_remembers_as_many_visitors_as_can_run_at_once(left):
    assert left["remembered"] == {"sessions": left["threads"], "times": left["threads"]}
    assert left["threads"] < MANY


@pytest.mark.parametrize(
    ("what", "expected"),
    [
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
import ctypes, sys, tempfile, threading
if sys.argv[1] == "shared":
    from components.server import memory
    memory.share_arenas()
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


def arenas(how, **chosen):
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"} | chosen
    command = [sys.executable, "-c", _COUNT_ARENAS, how]
    return int(subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are glibc's")
def test_six_threads_share_two_arenas_or_as_many_as_were_chosen():
    assert arenas("as it is") > 3
    assert arenas("shared") == 2
    assert arenas("shared", MALLOC_ARENA_MAX="3") == 3
