"""A stranger's results file is summarised elsewhere: bounded, and ended when it takes long or they leave."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time

import httpx
import psutil
import pytest

from components.experiments import files
from components.experiments import views as experiment_views
from components.experiments.summaries import Process
from tests.stress import forged
from tests.stress.visitors import ROOT, serving

REAL = ROOT / "assets" / "results" / "experiments.summary.json"

SLOW = """
import struct, sys, time
put = lambda part: (sys.stdout.buffer.write(struct.pack(">I", len(part)) + part), sys.stdout.flush())
put(b"ready")
while True:
    name, text = (sys.stdin.buffer.read(*struct.unpack(">I", sys.stdin.buffer.read(4))) for _ in "ab")
    time.sleep(float(text))
    put(text)
"""
"""Stands for the process that summarises: it takes as many seconds as the file says."""


@pytest.mark.parametrize(
    ("most", "points", "message"),
    [(20_000, 64, "settings.sequence.0 = 19937"), (4096, 64, "the k of all points add up to 2,081,024")],
)
def test_a_forged_file_is_refused_before_anything_is_computed(most, points, message):
    text = forged.results(most, points)
    assert len(text) < 12_000
    start = time.monotonic()
    assert message in experiment_views.opened({"name": "f", "text": text})["error"]
    assert time.monotonic() - start < 2


def test_the_largest_file_that_is_taken_is_done_within_the_limit():
    text = forged.results(420, 30)  # 97,320 drafted tokens
    start = time.monotonic()
    assert "error" not in experiment_views.opened({"name": "f", "text": text})
    assert time.monotonic() - start < 15


def test_the_shipped_runs_are_far_below_the_bounds():
    grids = json.loads(REAL.read_text())["settings"]
    drafted = sum(sum(grids[name]) for name in ("sequence", "batch", "specinfer", "optimal"))
    assert 2 * drafted < files.MAX_DRAFTED / 10


def asking(question):
    """What a coroutine gives that is told of a process; afterwards no process is left."""

    async def asked():
        process = Process((sys.executable, "-c", SLOW))
        try:
            return await question(process)
        finally:
            last = process._process
            process.end()
            if last is not None:
                await last.wait()

    others = psutil.Process().children()  # a server of tests that ran before
    result = asyncio.run(asked())
    gc.collect()
    assert psutil.Process().children() == others
    return result


def test_one_process_answers_one_file_after_the_other():
    async def ask(process):
        answers = [await process.ask("f", text, 20) for text in (b"0", b"0.0", b"0.00")]
        return answers, process._process.pid, (await process._started()).pid

    answers, first, last = asking(ask)
    assert answers == [b"0", b"0.0", b"0.00"]
    assert first == last


def test_a_process_that_takes_too_long_is_killed_and_the_next_file_gets_another():
    async def ask(process):
        await process.ask("f", b"0", 20)
        slow = process._process
        with pytest.raises(TimeoutError):
            await process.ask("f", b"1000", 0.3)
        assert await slow.wait() < 0
        return await process.ask("f", b"0", 20)

    assert asking(ask) == b"0"


def test_a_process_whose_visitor_leaves_is_killed():
    async def ask(process):
        await process.ask("f", b"0", 20)
        slow = process._process
        asked = asyncio.ensure_future(process.ask("f", b"1000", 20))
        await asyncio.sleep(0.2)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        return await slow.wait()

    assert asking(ask) < 0


def test_a_process_that_dies_is_told_and_replaced():
    async def ask(process):
        await process.ask("f", b"0", 20)
        with pytest.raises(asyncio.IncompleteReadError):
            await process.ask("f", b"not a number", 20)
        return await process.ask("f", b"0", 20)

    assert asking(ask) == b"0"


@pytest.fixture(scope="module")
def server():
    with serving("--results-bytes", "3000000") as (address, process):
        yield address, process


def post(address, text, name="mine.jsonl"):
    path = f"{address}/gradio_api/results"
    return httpx.post(path, params={"name": name}, content=text, timeout=120)


def test_a_visitors_file_is_answered_with_its_view(server):
    address, process = server
    assert post(address, REAL.read_bytes()).json() == experiment_views.opened(
        {"name": "f", "text": REAL.read_text()}
    )
    [summarising] = process.children()
    assert post(address, b"\xff\xfe").json()["error"].startswith("mine.jsonl: line 1: not JSON")
    assert "ä" * 80 + ": the file is empty" in post(address, b"", "ä" * 500).json()["error"]
    assert process.children() == [summarising]


def test_the_panels_own_questions_can_not_open_files(server):
    """What is asked through Gradio is computed in the server itself."""
    config = httpx.get(f"{server[0]}/config").json()
    [panel] = [c for c in config["components"] if c["props"].get("elem_id") == "experiments_lab"]
    assert panel["props"]["server_fns"] == ["shipped"]


def test_a_file_above_the_limit_is_not_read(server):
    answer = post(server[0], b"x" * 3_000_001)
    assert answer.status_code == 413
    assert answer.json()["detail"] == "the request is larger than 3,000,000 bytes"


def test_a_visitor_who_leaves_ends_the_computation(server):
    address, process = server
    assert "error" in post(address, b"").json()  # it has started
    [summarising] = process.children()
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{address}/gradio_api/results", content=forged.results(420, 30), timeout=0.3)
    psutil.wait_procs([summarising], timeout=10)
    assert not summarising.is_running()
