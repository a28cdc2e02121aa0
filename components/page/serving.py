"""A page and its server: Gradio's queue and API with one page of this project (`gradio.Server`).

    GET   /                          the page
    GET   /files/...                 its scripts, style sheets and data (`assets`)
    POST  /ask/PANEL/FUNCTION        a question of a panel (`questions`)
    POST  /gradio_api/call/v2/NAME   begins a stream of updates; GET .../NAME/EVENT receives it

The page is static: HTML of all panels, and what their scripts need as JSON. `assets/main.js` mounts them.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

import orjson
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware import Middleware
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import Response
from gradio import Server
from markupsafe import Markup

from components.guard import guard
from components.page import assets, frame, questions, unheard
from components.visitors import addresses, limits

_THREADS = 40
"""The number of threads for work that does not wait for the model."""
_PICTURE = assets.ASSETS / "screenshots" / "desktop.png"


def server(content: frame.Part, title: str = "Speculative decoding") -> Server:
    """A server of one page with this content."""
    app = Server(
        title=title,
        docs_url=None,  # FastAPI's pages of documentation load scripts from other hosts
        redoc_url=None,
        openapi_url=None,
        exception_handlers={RequestValidationError: questions.refuse, TypeError: questions.refuse_arguments},
        middleware=[Middleware(guard.Guard), Middleware(GZipMiddleware, minimum_size=2000, compresslevel=4)],
    )
    assets.publish(_PICTURE)

    @lru_cache(maxsize=2)
    def page(style: str, script: str) -> assets.Packed:
        return assets.pack(_html(content, title, style, script).encode())

    def home(request: Request) -> Response:
        text = page(assets.style(), assets.script())
        return assets.packed(request, text, "text/html; charset=utf-8", {"cache-control": "no-cache"})

    app.api_route("/", methods=["GET", "HEAD"])(home)
    app.api_route(f"/{assets.FILES}/{{path:path}}", methods=["GET", "HEAD"])(assets.answer)
    app.post("/ask/{panel}/{function}")(_asking(content))
    for name, stream in content.streams.items():
        # runs wait in `components.runs.seats`, which tells each visitor their place
        app.api(stream, name=name, concurrency_limit=None)
    return app


def _html(content: frame.Part, title: str, style: str, script: str) -> str:
    props = json.dumps(content.props, ensure_ascii=False, separators=(",", ":"))
    return frame.template(
        "page/page",
        title=title,
        style=style,
        script=script,
        picture=assets.file_url(_PICTURE),
        content=Markup(content.html),
        # a browser would end the element at the first "</script"
        props=Markup(props.replace("<", "\\u003c")),
    )


def _asking(content: frame.Part) -> Callable[..., Any]:
    """Makes the route that answers the questions of panels.

    A panel's questions are answered one at a time, because they share the machine with the decoder. The
    panels do not wait for each other.
    """
    limiters: dict[str, CapacityLimiter] = defaultdict(lambda: CapacityLimiter(1))

    async def ask(panel: str, function: str, request: Request) -> Response:
        handler = content.functions.get(f"{panel}/{function}")
        if handler is None:
            raise HTTPException(404, "there is nothing at this address")
        try:
            question = json.loads(await request.body())
        except (ValueError, RecursionError):
            raise HTTPException(400, "the question is not JSON") from None
        addresses.asking.set(addresses.address(request.scope))
        if inspect.iscoroutinefunction(handler):
            answer = await handler(question)
        else:
            answer = await run_sync(handler, question, limiter=limiters[panel])
        return Response(orjson.dumps(answer, default=list), media_type="application/json")

    return ask


def launch(app: Server, **options: Any) -> None:
    """Serve a page. `options` are passed to `Server.launch`."""
    most = limits.current()
    # Runs wait in `seats`, and each waiting run occupies a thread. Other events never wait.
    threads = most.seats + most.waiting + most.checks + most.checks_waiting + _THREADS
    app.launch(
        max_threads=threads,
        enable_monitoring=False,
        max_file_size=1,  # the page uploads nothing: the browser reads files itself
        run_history=False,
        state_session_capacity=threads,
        ssr_mode=False,
        app_kwargs={"lifespan": _watching},
        **options,
    )


@asynccontextmanager
async def _watching(app: Any) -> AsyncIterator[None]:
    """While the server runs, end runs whose visitors do not listen."""
    queue = app.get_blocks()._queue
    # Each check for new events takes the interpreter's lock from the decoding thread. So there are 50 checks
    # a second, not 1000.
    queue.sleep_when_free = 0.02
    queue.progress_update_sleep_when_free = 1.0  # no function here has a progress bar of Gradio's
    watching = asyncio.create_task(unheard.forget(queue))
    yield
    watching.cancel()
