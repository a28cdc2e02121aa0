"""Objects that visitors leave behind in a server, counted in its own process and reported as JSON.

`python -m tests.stress.leftovers` runs the page in a process of its own, with one seat and with visitors.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

import app
import specdec
from components.guard import limits
from components.page import serving, unheard
from components.server import turns
from specdec.models.cache import cached_tree_masks
from tests.stress.load import alone
from tests.stress.visitors import PLAIN, Site, client, stream

MANY = 60
"""Visitors, more than a server with so few seats has threads."""
IDLE = 3.0
"""Seconds of nobody's."""
PATIENCE = 60.0
"""Seconds until a run that nobody reads must be gone; it takes a round."""


async def ask(site: Site, http: httpx.AsyncClient, session: str) -> None:
    """Ask as a tab does that has missed an update. It is the smallest request for which Gradio remembers a
    visitor."""
    body = {"session_hash": session, "component_id": site.components["feed"], "fn_name": "missing"}
    answer = await http.post("/gradio_api/component_server", json=body | {"data": {"run": "", "seq": 0}})
    assert answer.json() == []


async def read(site: Site, http: httpx.AsyncClient) -> None:
    """Read a run to its end."""
    visit = await site.generate(http, length=8)
    assert not visit.failure, visit.failure


async def leave(site: Site, http: httpx.AsyncClient) -> None:
    """Start a run and close its tab in the middle."""
    settings = site.defaults | PLAIN | {"length": 400}
    async for message in stream(http, site.decode, list(settings.values())):
        if message["msg"] == "process_generating" and '"number"' in str(message):
            return


async def remembered(site: Site, http: httpx.AsyncClient, holder: Any) -> dict[str, Any]:
    """How many of `MANY` visitors Gradio still remembers in either of its lists."""
    for visitor in range(MANY):
        await ask(site, http, f"visitor-{visitor}")
    return {"sessions": len(holder.session_data), "times": len(holder.time_last_used)}


async def forgotten(site: Site, http: httpx.AsyncClient, holder: Any) -> bool:
    """Whether a run writes its text even if Gradio forgets its visitor again and again."""
    capacity, holder.capacity = holder.capacity, 1
    running = asyncio.create_task(site.generate(http, length=64))
    while not running.done():
        await ask(site, http, "another-visitor")
    holder.capacity = capacity
    visit = await running
    return not visit.failure and visit.token_ids == alone(specdec.load_pair("stories"), visit)


async def remaining(site: Site) -> Counter[str]:
    """The objects that five runs leave behind, by type, beyond those of the two runs before.

    The visitors' connections are closed before the objects are counted.
    """

    async def visited_by(*visits: Callable[[Site, httpx.AsyncClient], Awaitable[None]]) -> None:
        async with client(site.address) as http:
            for visit in visits:
                await visit(site, http)

    await visited_by(read, leave)
    before = await ours()
    await visited_by(read, leave, read, leave, read)
    end = time.monotonic() + PATIENCE
    while (remainder := await ours() - before) and time.monotonic() < end:
        await asyncio.sleep(0.1)
    return remainder


async def ours() -> Counter[str]:
    """Live objects of the decoder and of the page, and tensors, by type, when no run has a seat."""
    end = time.monotonic() + PATIENCE
    while turns.MODEL.num_seated and time.monotonic() < end:
        await asyncio.sleep(0.01)
    cached_tree_masks.cache_clear()  # it has a bounded size and holds the trees of earlier runs
    gc.collect()
    names = (f"{type(thing).__module__}.{type(thing).__qualname__}" for thing in gc.get_objects())
    return Counter(name for name in names if name.startswith(("specdec.", "components.", "torch.Tensor")))


def wakes() -> float:
    """How often per second the server's threads wake up while there are no requests."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    time.sleep(IDLE)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before) / IDLE


async def unlistened(site: Site, http: httpx.AsyncClient, queue: Any) -> dict[str, Any]:
    """Runs without a listener, from as many tabs as there are places: how many checks they last, and what
    Gradio stores of them."""
    every, unheard.EVERY = unheard.EVERY, 0.02
    data = list((site.defaults | PLAIN | {"length": 400}).values())
    for tab in ("unheard-1", "unheard-2"):
        body = {"fn_index": site.decode, "data": data, "session_hash": tab}
        (await http.post("/gradio_api/queue/join", json=body)).raise_for_status()
    end = time.monotonic() + PATIENCE
    stores = [queue.pending_messages_per_session, queue.pending_event_ids_session, turns.MODEL._seated]
    while time.monotonic() < end and (
        turns.MODEL.num_seated or "unheard-2" in stores[0] or queue.event_ids_to_events
    ):
        await asyncio.sleep(0.02)
    unheard.EVERY = every
    return {
        "seated": turns.MODEL.num_seated,
        "waiting": turns.MODEL.num_waiting,
        "kept": [tab for tab in ("unheard-1", "unheard-2") for where in stores[:2] if tab in where],
        "events": len(queue.event_ids_to_events),
    }


async def visited(site: Site, blocks: Any) -> dict[str, Any]:
    """All counts."""
    async with client(site.address) as http:
        return {
            "heartbeat": site.config["connect_heartbeat"],
            "threads": blocks.max_threads,
            "remembered": await remembered(site, http, blocks.app.state_holder),
            "forgotten_goes_on": await forgotten(site, http, blocks.app.state_holder),
            "remaining": await remaining(site),
            "unheard": await unlistened(site, http, blocks._queue),
        }


def main() -> None:
    """Serve, visit, count, and print."""
    limits.use(limits.Limits(seats=1, waiting=1, checks=1, checks_waiting=1))
    blocks = app.build()
    serving.launch(blocks, server_name="127.0.0.1", prevent_thread_lock=True, quiet=True)
    counts = {"wakes": wakes()} | asyncio.run(visited(Site(blocks.local_url.rstrip("/")), blocks))
    blocks.close(verbose=False)
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
