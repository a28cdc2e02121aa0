"""Ends runs whose visitor left before listening, and frees Gradio's memory of their messages.

An event is a POST that names a function. Its messages wait until the visitor fetches them with a second
request. Gradio ends a run whose listener leaves, but waits for ever for a listener that never comes.
"""

from __future__ import annotations

import asyncio
from typing import Any

EVERY = 1.0
"""The seconds between two checks of the sessions."""
PATIENCE = 10
"""A session ends if more checks than this find the same oldest message, because nobody fetches it then."""


async def forget(queue: Any) -> None:
    """End the unheard sessions of Gradio's queue, for as long as the queue runs."""
    unheard: dict[str, tuple[Any, int]] = {}  # session -> its oldest message, and the checks that saw it
    while not queue.stopped:
        await asyncio.sleep(EVERY)
        sessions = queue.pending_messages_per_session
        oldest = {name: messages._queue[0] for name, messages in sessions.items() if messages.qsize()}
        earlier = unheard
        unheard = {name: (message, _checks(earlier, name, message)) for name, message in oldest.items()}
        for session in [name for name, (_, checks) in unheard.items() if checks > PATIENCE]:
            await queue.clean_events(session_hash=session)  # as Gradio does when a listener leaves
            sessions.pop(session, None)
            queue.pending_event_ids_session.pop(session, None)


def _checks(earlier: dict[str, tuple[Any, int]], name: str, message: Any) -> int:
    last, checks = earlier.get(name, (None, 0))
    return checks + 1 if last is message else 1
