"""Runs whose visitor never listens end, and all other runs continue."""

import asyncio

import pytest

from components.page import unheard


class Queue:
    """The part of Gradio's queue that the check uses."""

    def __init__(self, *sessions):
        self.stopped = False
        self.pending_messages_per_session = {name: asyncio.Queue() for name in sessions}
        self.pending_event_ids_session = {name: {"event"} for name in sessions}
        self.ended = []

    async def clean_events(self, *, session_hash):
        self.ended.append(session_hash)


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(unheard, "EVERY", 0.02)


def test_a_session_whose_messages_nobody_takes_is_forgotten_and_no_other():
    async def visit():
        queue = Queue("unheard", "slow", "late", "idle")
        messages, number = queue.pending_messages_per_session, 0
        messages["late"].put_nowait("round")
        checking = asyncio.create_task(unheard.forget(queue))
        while "unheard" in messages or number < 3 * unheard.PATIENCE:
            number += 1
            messages["slow"].put_nowait(f"round {number}, first half")
            messages["slow"].put_nowait(f"round {number}, second half")
            messages["slow"].get_nowait()  # more messages come than the client reads
            if "unheard" in messages:
                messages["unheard"].put_nowait(f"round {number}")
            if number == unheard.PATIENCE // 4:
                messages["late"].get_nowait()
            await asyncio.sleep(unheard.EVERY)
        queue.stopped = True
        await checking
        return queue

    queue = asyncio.run(asyncio.wait_for(visit(), 60))
    assert queue.ended == ["unheard"]
    assert list(queue.pending_messages_per_session) == ["slow", "late", "idle"]
    assert list(queue.pending_event_ids_session) == ["slow", "late", "idle"]
