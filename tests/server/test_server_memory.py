"""The data that visitors leave on the server does not grow with their number, and an idle server uses no
processor. The page does not wait for a large library."""

import json
import platform
from unittest.mock import patch

import pytest

from components.server import memory
from tests.helpers.processes import printed


@pytest.fixture(scope="module")
def leftovers():
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
def test_visitors_leave_nothing(leftovers, what, expected):
    assert leftovers[what] == expected


def test_the_page_does_not_wait_for_transformers(leftovers):
    assert leftovers["transformers"] is False


def test_an_idle_server_leaves_the_processor_alone(leftovers):
    # each time its threads wake, they interrupt the decoding thread; Gradio's queue alone would wake 860
    # times a second
    assert leftovers["wakes"] < 300


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are glibc's")
def test_all_threads_share_two_arenas_unless_a_number_was_chosen(leftovers, monkeypatch):
    assert leftovers["arenas"] == 2, "without `share_arenas` there are twelve"
    monkeypatch.setenv("MALLOC_ARENA_MAX", "3")
    with patch("ctypes.CDLL") as library:
        memory.share_arenas()
    assert not library.called
