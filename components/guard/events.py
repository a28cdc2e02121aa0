"""Limits for Gradio's event queue: which events may enter it, and when they are dropped.

An event is a POST that names a function; its messages wait under the tab's session until the tab listens.
Gradio itself limits neither. This module limits both:

    one address    may have so many events at a time (`limits`), and begin so many per second
    no listener    the session's events end and are forgotten after `PATIENCE` seconds
    a failure      costs as much as a failed request, if it adds a line to the log
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any
from weakref import WeakKeyDictionary

import gradio as gr
from fastapi import HTTPException
from gradio.blocks import BlocksConfig
from gradio.components.api_component import Api
from gradio.utils import cancel_tasks

from components.guard import failures, limits
from components.guard.addresses import address
from components.guard.bodies import Refused
from components.guard.pace import FAILED, Purses

PATIENCE = 10
"""A session is forgotten after this many checks without a listener, `EVERY` seconds apart. It is no duration,
because a busy server does not check while it keeps its visitors waiting.
"""
EVERY = 1.0
AT_ONCE = 400
"""Events that an address may begin at once: those of a class whose pages open together."""
PER_SECOND = 20
"""Events that an address may begin per second in the long run. Gradio takes a few milliseconds of the event
loop for each.
"""


class Messages(asyncio.Queue[Any]):
    """The messages that wait for a session.

    owner: the address that opened the session; pay: takes units from this address; unheard: checks since
    anyone took a message or waited for one.
    """

    def __init__(self, owner: str = "", pay: Callable[[int], Any] = int):
        super().__init__()
        self.owner, self.pay = owner, pay
        self._listeners = 0
        self.unheard = 0

    async def get(self) -> Any:
        """The next message, as soon as there is one."""
        self._listeners += 1
        try:
            return await super().get()
        finally:
            self._listeners -= 1
            self.unheard = 0

    def look(self) -> bool:
        """Whether nobody has listened for too long."""
        self.unheard = 0 if self._listeners else self.unheard + 1
        return self.unheard > PATIENCE


class Events:
    """The limits of one Gradio queue, checked before its own `push`."""

    def __init__(self, queue: Any):
        self.queue = queue
        self._push, self._send = queue.push, queue.send_message
        self._addresses: dict[str, str] = {}
        self._sweeping: asyncio.Task[None] | None = None
        self._pace = Purses(bounds=lambda: (AT_ONCE, PER_SECOND))

    async def push(self, body: Any, request: Any, username: str | None) -> Any:
        """Like Gradio's, but it answers 429 if the address has too many events, and 400 for an event that the
        page does not have."""
        sender = address(request.scope)
        self._check(sender)
        await self._paced(sender)
        _check_values(self.queue.blocks.fns, body)
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep())
        body.session_hash = body.session_hash or secrets.token_hex(16)
        if body.session_hash not in self._messages:
            self._messages[body.session_hash] = Messages(sender, request.scope.get("pay", int))
        if self._messages[body.session_hash].empty():  # it has heard all so far, and will listen again
            self._messages[body.session_hash].unheard = 0
        pushed = await self._push(body=body, request=request, username=username)
        if pushed[0]:
            self._addresses[pushed[1]] = sender
        return pushed

    async def _paced(self, sender: str) -> None:
        try:
            await self._pace.wait(sender, 1)
        except Refused as refused:
            raise HTTPException(refused.status, refused.text) from None

    def send(self, event: Any, message: Any) -> None:
        """Like Gradio's, but it sends nothing to a forgotten session. In Gradio that raises an error that can
        end the whole queue."""
        if event.session_hash in self._messages:
            if failures.logged():
                self._messages[event.session_hash].pay(FAILED)
            self._send(event, message)

    @property
    def _messages(self) -> Any:
        return self.queue.pending_messages_per_session

    def _check(self, sender: str) -> None:
        most, present = limits.current(), self.queue.event_ids_to_events
        self._addresses = {event: whose for event, whose in self._addresses.items() if event in present}
        count = sum(whose == sender for whose in self._addresses.values())
        if count >= most.events_per_address:
            raise HTTPException(429, f"{count} requests from your network wait or run already: wait for them")

    async def _sweep(self) -> None:
        while not self.queue.stopped:
            await asyncio.sleep(EVERY)
            waiting = [pair for pair in list(self._messages.items()) if isinstance(pair[1], Messages)]
            unheard = [session for session, messages in waiting if messages.look()]
            await asyncio.gather(*map(self.forget, unheard), return_exceptions=True)

    async def forget(self, session: str) -> None:
        """End the runs of a session, drop its messages, and forget it."""
        events = [e for e in self.queue.event_ids_to_events.values() if e.session_hash == session]
        # The messages go first: an event that arrives during the next steps then gets a queue of its own.
        self._messages.pop(session, None)
        self.queue.pending_event_ids_session.pop(session, None)
        await self.queue.clean_events(session_hash=session)
        await cancel_tasks({f"{session}_{event.fn._id}" for event in events})
        for event in events:
            self.queue.event_ids_to_events.pop(event._id, None)


def session_of(queue: Any, event_id: str) -> str | None:
    """The session of an event that runs, or whose last message was not taken yet."""
    if event := queue.event_ids_to_events.get(event_id):
        return str(event.session_hash)
    pending = queue.pending_event_ids_session.items()
    return next((session for session, events in pending if event_id in events), None)


def check_open(queue: Any, session: str | None, visitor: str) -> None:
    """`Refused` if the session is not open or another address opened it. Gradio would begin an answer and
    break it off."""
    if session not in queue.pending_messages_per_session:
        raise Refused(404, "Nothing runs here under this name. It may have ended.")
    check_owner(queue, session, visitor)


def check_owner(queue: Any, session: str | None, visitor: str) -> None:
    """`Refused` if the session is open and another address opened it."""
    messages = queue.pending_messages_per_session.get(session)
    if messages is not None and messages.owner != visitor:
        raise Refused(403, "This run began at another address.")


def _check_values(events: Mapping[int, Any], body: Any) -> None:
    """Answer 400 if no event has this number or if values are missing, on which Gradio would fail.

    A function of the API has defaults for its last parameters. They take the place of missing values.
    """
    event = events.get(body.fn_index)
    if body.fn_index is not None and event is None:
        raise HTTPException(400, f"fn_index = {body.fn_index} is no event of this page")
    if event is not None:
        missing = takewhile(_has_default, event.inputs[len(body.data) :])
        body.data = [*body.data, *(component.value for component in missing)]
    if event is not None and len(body.data) < len(event.inputs):
        raise HTTPException(400, f"data has {len(body.data)} values; this event takes {len(event.inputs)}")


def _has_default(component: Any) -> bool:
    return isinstance(component, Api) and component.value is not None


_CONFIGS: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
_compute_config = BlocksConfig.config_for_block


def _config(number: int, rendered: list[int], block: Any, renderable: Any = None) -> dict[str, Any]:
    """The config of a component, computed once. Gradio computes all configs again for each new session, which
    takes several milliseconds of the event loop, and then changes only the value in them."""
    config = _CONFIGS.get(block) if renderable is None else None
    if config is None:
        return _compute_config(number, rendered, block, renderable)
    return config | {"props": config["props"].copy()}


def bound(blocks: gr.Blocks) -> Events:
    """Put the limits in front of a page's queue, before its server starts."""
    failures.shorten_gradios()
    _CONFIGS.update({block: _compute_config(number, [], block) for number, block in blocks.blocks.items()})
    page: Any = BlocksConfig  # replaces a method
    page.config_for_block = staticmethod(_config)
    events = Events(blocks._queue)
    queue: Any = blocks._queue  # replaces two methods of the queue
    queue.push, queue.send_message = events.push, events.send
    return events
