"""What is let into Gradio's queue: so many events of an address, and none that nobody listens to."""

import asyncio
from types import SimpleNamespace

import gradio as gr
import gradio.queueing
import pytest
from fastapi import HTTPException
from gradio.state_holder import SessionState

from components.guard import events, failures, limits, pace


def sent_from(address):
    return SimpleNamespace(scope={"client": (address, 1), "headers": []})


class Queue:
    """As much of Gradio's queue as the bounds touch; its events never end by themselves."""

    def __init__(self):
        self.stopped = False
        self.event_ids_to_events, self.pending_messages_per_session = {}, {}
        self.pending_event_ids_session = {}
        self.blocks = SimpleNamespace(fns={3: SimpleNamespace(inputs=["prompt", "seed"])})

    async def push(self, body, request, username):
        number = str(len(self.event_ids_to_events))
        event = SimpleNamespace(_id=number, session_hash=body.session_hash, fn=SimpleNamespace(_id=0))
        self.event_ids_to_events[number] = event
        self.pending_event_ids_session.setdefault(body.session_hash, set()).add(number)
        return True, number, "success"

    async def clean_events(self, *, session_hash):
        pass

    def send_message(self, event, message):
        self.pending_messages_per_session[event.session_hash].put_nowait(message)


def pushed(bounded, address, session=None, fn_index=3, data=("Once", 1)):
    body = SimpleNamespace(session_hash=session, fn_index=fn_index, data=data)
    return bounded.push(body, sent_from(address), None)


def test_an_address_has_so_many_events_at_a_time_and_a_class_all_it_needs():
    async def visit():
        bounded = events.Events(Queue())
        most = limits.current().events_per_address
        for _ in range(most):
            await pushed(bounded, "192.0.2.1")
        with pytest.raises(HTTPException) as refused:
            await pushed(bounded, "192.0.2.1")
        assert (refused.value.status_code, str(most) in refused.value.detail) == (429, True)
        await pushed(bounded, "192.0.2.2")
        del bounded.queue.event_ids_to_events["7"]  # one is through
        await pushed(bounded, "192.0.2.1")
        return most

    assert asyncio.run(visit()) >= 3 * 40  # three events of each of forty students


def test_an_address_begins_so_many_events_per_second_and_no_other_one_waits(monkeypatch):
    waits = []

    async def slept(seconds):
        waits.append(seconds)

    monkeypatch.setattr(events.asyncio, "sleep", slept)

    async def visit():
        bounded = events.Events(Queue())
        monkeypatch.setattr(bounded._pace, "_clock", lambda: 0.0)  # a slow machine would fill the purse
        for _ in range(events.AT_ONCE + 20):
            await pushed(bounded, "192.0.2.1")
            bounded.queue.event_ids_to_events.clear()  # it is through
        flood = [seconds for seconds in waits if seconds != events.EVERY]
        await pushed(bounded, "192.0.2.2")
        return flood, [seconds for seconds in waits if seconds != events.EVERY][len(flood) :]

    flood, other = asyncio.run(visit())
    late = [number / events.PER_SECOND for number in range(1, 21)]
    assert flood == pytest.approx([seconds for seconds in late if seconds != events.EVERY])
    assert not other


def test_gradio_s_state_of_a_new_session_is_what_gradio_itself_computes():
    async def built():  # Gradio wants an event loop
        with gr.Blocks() as blocks:
            gr.Textbox("Once", label="prompt")
            gr.Dropdown(["a", "b"], value="b", elem_id="choice")
        own = SessionState(blocks).config_values
        events.bound(blocks)
        return own, SessionState(blocks), SessionState(blocks)

    own, first, second = asyncio.run(built())
    assert first.config_values == own
    first._update_value_in_config(next(iter(own)), "changed")
    assert second.config_values == own, "sessions share no value"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"fn_index": 9999}, "fn_index = 9999 is no event of this page"),
        ({"fn_index": -1}, "fn_index = -1 is no event of this page"),
        ({"data": ["Once"]}, "data has 1 values; this event takes 2"),
    ],
)
def test_what_is_no_event_or_has_too_few_values_is_told_and_not_begun(asked, told):
    async def visit():
        bounded = events.Events(Queue())
        with pytest.raises(HTTPException) as refused:
            await pushed(bounded, "192.0.2.1", "tab", **asked)
        assert (refused.value.status_code, refused.value.detail) == (400, told)
        return bounded.queue.event_ids_to_events, bounded.queue.pending_messages_per_session

    assert asyncio.run(visit()) == ({}, {})


def test_a_failed_event_that_gradio_logs_costs_its_address_as_a_failed_request(caplog):
    async def visit():
        queue, paid = Queue(), []
        bounded = events.Events(queue)
        failures.shorten_gradios()
        request = sent_from("192.0.2.1")
        request.scope["pay"] = paid.append
        await bounded.push(SimpleNamespace(session_hash="tab", fn_index=3, data=["Once", 1]), request, None)
        event = queue.event_ids_to_events["0"]
        bounded.send(event, "a round")
        try:
            raise ValueError("no\nchoice \ud800" + "x" * 1000)
        except ValueError:
            gradio.queueing.traceback.print_exc()
        for message in ("failed", "closed"):
            bounded.send(event, message)
        return paid

    assert asyncio.run(visit()) == [pace.FAILED]
    [line] = caplog.messages
    assert line.startswith(r"ValueError: no choice \ud800xxx")
    assert len(line) <= 200
    assert "test_events.py:" in line


def test_a_message_to_a_forgotten_session_ends_nothing():
    """Gradio's queue ends for everybody where telling an event its place fails."""

    async def visit():
        queue = Queue()
        bounded = events.Events(queue)
        _, number, _ = await pushed(bounded, "192.0.2.1", "tab")
        event = queue.event_ids_to_events[number]
        await bounded.forget("tab")
        with pytest.raises(KeyError):
            queue.send_message(event, "place 1")
        bounded.send(event, "place 1")
        await pushed(bounded, "192.0.2.1", "tab")
        bounded.send(event, "place 1")
        return queue.pending_messages_per_session["tab"].qsize()

    assert asyncio.run(visit()) == 1


def test_an_event_that_comes_while_its_session_is_forgotten_keeps_its_messages():
    async def visit():
        queue = Queue()
        bounded = events.Events(queue)
        await pushed(bounded, "192.0.2.1", "tab")

        async def meanwhile(*, session_hash):
            await pushed(bounded, "192.0.2.1", session_hash)

        queue.clean_events = meanwhile
        await bounded.forget("tab")
        return list(queue.pending_messages_per_session)

    assert asyncio.run(visit()) == ["tab"]


@pytest.mark.parametrize("session", ["tab", None])
def test_a_session_that_nobody_listens_to_is_forgotten_and_another_is_not(monkeypatch, session):
    monkeypatch.setattr(events, "EVERY", 0.001)

    async def visit():
        queue = Queue()
        bounded = events.Events(queue)
        await pushed(bounded, "192.0.2.1", session)
        await pushed(bounded, "192.0.2.1", "heard")
        listening = asyncio.create_task(queue.pending_messages_per_session["heard"].get())
        while len(queue.pending_messages_per_session) > 1:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        assert list(queue.pending_messages_per_session) == list(queue.pending_event_ids_session) == ["heard"]
        assert [event.session_hash for event in queue.event_ids_to_events.values()] == ["heard"]
        listening.cancel()
        while queue.pending_messages_per_session:  # it has left
            await asyncio.sleep(0.001)
        queue.stopped = True

    asyncio.run(asyncio.wait_for(visit(), 60))


def test_looks_are_counted_not_seconds():
    """A server that is too busy to look has not waited for anybody."""
    messages = events.Messages()
    assert [messages.look() for _ in range(events.PATIENCE)] == [False] * events.PATIENCE
    assert messages.look()


def test_a_session_that_has_heard_all_has_time_to_listen_again():
    """A visitor presses something after ten quiet seconds; the next check comes before the tab listens."""

    async def visit(waiting):
        queue = Queue()
        bounded = events.Events(queue)
        await pushed(bounded, "192.0.2.1", "tab")
        messages = queue.pending_messages_per_session["tab"]
        if waiting:
            messages.put_nowait("a message that nobody took")
        forgotten = [messages.look() for _ in range(events.PATIENCE)]
        await pushed(bounded, "192.0.2.1", "tab")
        queue.stopped = True
        return not any(forgotten) and messages.look()

    assert not asyncio.run(visit(waiting=False))
    assert asyncio.run(visit(waiting=True))
