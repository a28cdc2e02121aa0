"""A visitor's results file, summarised in a process of its own: it may take long, and can be ended.

The file comes as the body of one request, as it is, and its view goes back as JSON. One file is summarised at
a time; the process is started with the first file, is used for the next ones and ends when none has come for
a while. It is killed where a file takes longer than `Limits.summary_seconds`, or where its visitor leaves.

    python -m components.experiments.summaries  # that process: questions on its input, answers on its output
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qs

from components.guard import limits
from components.guard.addresses import address
from components.guard.line import Line

ROOT = Path(__file__).resolve().parent.parent.parent
STARTS = 120.0
"""Seconds that the process may take to start, on a machine with other things to do."""
IDLE = 300.0
"""Seconds after which the process ends that nobody needed: it holds 500 MB."""
_WAITING = 2
"""Files of one address that may wait."""
_HEAD = struct.Struct(">I")


class Process:
    """The process that summarises, for one event loop. command: starts it, given the limit's seconds."""

    def __init__(self, command: tuple[str, ...] = (sys.executable, "-m", "components.experiments.summaries")):
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._ending: asyncio.TimerHandle | None = None

    async def ask(self, name: str, text: bytes, seconds: float) -> bytes:
        """The answer as JSON. TimeoutError where it takes longer; then, and where this is cancelled, the
        process is killed."""
        if self._ending:
            self._ending.cancel()
        try:
            process = await asyncio.wait_for(self._started(), STARTS)
            answer = await asyncio.wait_for(_asked(process, name.encode(), text), seconds)
        except BaseException:
            self.end()
            raise
        self._ending = asyncio.get_running_loop().call_later(IDLE, self.end)
        return answer

    def end(self) -> None:
        """Kill the process, if there is one."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
        self._process = None

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            pipe, seconds = asyncio.subprocess.PIPE, limits.current().summary_seconds
            # a session of its own: what ends the server by the keyboard is not said to it
            self._process = await asyncio.create_subprocess_exec(
                *self._command, str(seconds), stdin=pipe, stdout=pipe, cwd=ROOT, start_new_session=True
            )
            await _part(_pipes(self._process)[1])
        return self._process


async def _asked(process: asyncio.subprocess.Process, name: bytes, text: bytes) -> bytes:
    questions, answers = _pipes(process)
    for part in (name, text):
        questions.writelines([_HEAD.pack(len(part)), part])
    await questions.drain()
    return await _part(answers)


def _pipes(process: asyncio.subprocess.Process) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
    assert process.stdin is not None, "it was started with pipes"
    assert process.stdout is not None, "it was started with pipes"
    return process.stdin, process.stdout


async def _part(stream: asyncio.StreamReader) -> bytes:
    return await stream.readexactly(*_HEAD.unpack(await stream.readexactly(_HEAD.size)))


_process = Process()
_line = Line(1)


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """The ASGI app of the route: the file's view, or what is wrong with it; `?name=` is the file's."""
    text = (await receive())["body"]
    name = parse_qs(scope["query_string"].decode("latin-1")).get("name", ["file"])[0][:80]
    leaving = asyncio.ensure_future(receive())
    summarising = asyncio.ensure_future(_summary(name, text, address(scope)))
    await asyncio.wait([leaving, summarising], return_when=asyncio.FIRST_COMPLETED)
    leaving.cancel()
    if not summarising.done():
        summarising.cancel()
        raise ConnectionError("the visitor left")
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    body = summarising.result()
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _summary(name: str, text: bytes, visitor: str) -> bytes:
    seconds = limits.current().summary_seconds
    async with _line.place(visitor, _WAITING):
        try:
            return await _process.ask(name, text, seconds)
        except TimeoutError:
            told = f"{name}: to summarise it takes longer than {seconds} seconds, the limit here"
        except (OSError, asyncio.IncompleteReadError):
            told = f"{name}: it could not be summarised; the process for it ended"
        return json.dumps({"error": told}).encode()


def _serve(questions: BinaryIO, answers: BinaryIO, seconds: int) -> None:
    """Answer one file after the other until there are no more, in so many seconds each."""
    import specdec.experiments  # noqa: F401 - what takes longest, before the time of the first file begins
    from components.experiments import views

    if hasattr(os, "nice"):
        os.nice(5)  # the decoder goes first; but to start takes long enough as it is
    _put(answers, b"ready")
    while (name := _get(questions)) is not None:
        _put_limit(seconds)
        question = {"name": name.decode(), "text": (_get(questions) or b"").decode(errors="replace")}
        _put(answers, json.dumps(views.opened(question)).encode())
        _put_limit(0)


def _put_limit(seconds: int) -> None:
    """End by oneself some time after the limit, where nobody is left who would end this process; 0: never."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds and 3 * seconds)


def _get(stream: BinaryIO) -> bytes | None:
    head = stream.read(_HEAD.size)
    return stream.read(*_HEAD.unpack(head)) if len(head) == _HEAD.size else None


def _put(stream: BinaryIO, part: bytes) -> None:
    stream.write(_HEAD.pack(len(part)) + part)
    stream.flush()


def main() -> None:
    """The process: whatever else is printed goes to where errors go."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _serve(sys.stdin.buffer, answers, int(sys.argv[1]))


if __name__ == "__main__":
    main()
