"""The objects that visitors leave in a server, counted in its own process and reported as JSON.

`python -m tests.stress.leftovers` runs the page in a separate process, with one seat and with visitors.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import platform
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

import app
from components.page import serving, unheard
from components.runs import seats
from components.runs.lazy import LazyPair
from components.server import memory
from components.visitors import limits
from tests.stress.visitors import PLAIN, Site, client, stream

IDLE = 3.0
"""Seconds for which the server runs without any visitor."""
PATIENCE = 60.0
"""Seconds within which a run that nobody reads must be gone; this takes a round."""


async def read(site: Site, http: httpx.AsyncClient) -> None:
    """Read a run to its end."""
    visit = await site.generate(http, length=8)
    assert not visit.failure, visit.failure


async def leave(site: Site, http: httpx.AsyncClient) -> None:
    """Start a run and close its stream in the middle."""
    async for kind, message in stream(http, "decode", site.defaults | PLAIN | {"max_new_tokens": 400}):
        if kind == "generating" and '"number"' in message:
            return


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
    while seats.MODEL.num_seated and time.monotonic() < end:
        await asyncio.sleep(0.01)
    from specdec.models.cache import cached_tree_masks

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
    """Start as many runs without a listener as there are places, and count what they leave behind."""
    every, unheard.EVERY = unheard.EVERY, 0.02
    stores = (queue.pending_messages_per_session, queue.pending_event_ids_session)
    before = [set(store) for store in stores]
    for _ in range(2):
        values = site.defaults | PLAIN | {"max_new_tokens": 400}
        (await http.post("/gradio_api/call/v2/decode", json=values)).raise_for_status()
    end = time.monotonic() + PATIENCE

    def kept() -> list[str]:
        return [name for store, old in zip(stores, before, strict=True) for name in set(store) - old]

    while time.monotonic() < end and (seats.MODEL.num_seated or kept() or queue.event_ids_to_events):
        await asyncio.sleep(0.02)
    unheard.EVERY = every
    return {
        "seated": seats.MODEL.num_seated,
        "waiting": seats.MODEL.num_waiting,
        "kept": kept(),
        "events": len(queue.event_ids_to_events),
    }


def arenas() -> int:
    """The arenas from which the threads of this process have allocated; 0 if the allocator is not glibc's."""
    if platform.libc_ver()[0] != "glibc":
        return 0
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    with tempfile.NamedTemporaryFile("r") as file:
        stream = ctypes.c_void_p(libc.fopen(file.name.encode(), b"w"))
        libc.malloc_info(0, stream)
        libc.fclose(stream)
        return file.read().count("<heap ")


async def visited(site: Site, blocks: Any) -> dict[str, Any]:
    """All counts. blocks: the Blocks object of Gradio behind the server."""
    async with client(site.address) as http:
        return {
            "remembered": blocks.app.state_holder.capacity,
            "remaining": await remaining(site),
            "unheard": await unlistened(site, http, blocks._queue),
            "arenas": arenas(),
        }


def main() -> None:
    """Serve, visit, count, and print."""
    memory.share_arenas()
    app.build(LazyPair(lambda: None))
    if app.smollm2.installed():
        app._name(app.options.parse([]))
    at_once = {"transformers": "transformers" in sys.modules}
    limits.use(limits.Limits(seats=1, waiting=1, checks=1, checks_waiting=1))
    server = serving.server(app.build())
    serving.launch(server, server_name="127.0.0.1", prevent_thread_lock=True, quiet=True)
    blocks = server.get_blocks()
    gc.freeze()  # what is counted comes later
    counts = at_once | {"wakes": wakes()} | asyncio.run(visited(Site(blocks.local_url.rstrip("/")), blocks))
    blocks.close(verbose=False)
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
