"""From `specdec.stream` to the browser: settings, throttled updates, and the feed that receives them.

Updates are JSON texts with a sequence number, about four a second; each carries only the rounds since
the one before it. Gradio may merge two that arrive together, so the browser asks `missing` for what
it did not see.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

import gradio as gr
import torch

import specdec
from components.guard import addresses, limits
from components.page import frame
from components.server import topologies, turns, zero_gpu
from components.server.ahead import Ahead
from components.server.lazy import present
from components.server.settings import VisitorSettings
from specdec.decoding.auto import Steps, finished

INTERVAL = 0.25
"""Seconds between two updates: an eye still follows them, and they leave the decoder its time, which
`tests.stress.watched` measures."""

_KEPT_RUNS = 32
"""Runs whose updates can be asked for again, those told something last."""
_kept: OrderedDict[str, list[str]] = OrderedDict()
_reports = count()


def start(pair: Any, settings: VisitorSettings, method: str | None = None, detail: bool = True) -> Any:
    """The run that `starting` begins."""
    return finished(starting(pair, settings, method, detail))


def starting(
    pair: Any, settings: VisitorSettings, method: str | None = None, detail: bool = True
) -> Steps[Any]:
    """Make the run of checked settings, not begun yet; `method` replaces theirs (for the baseline).

    It may measure to choose a tree, so each step takes a turn of the model (`turns.Seat.steps`). ValueError
    as in `specdec.stream`, and where the prompt has more tokens than the limit.
    """
    pair, method = present(pair), method or settings.method
    lender = zero_gpu.lender(pair)
    if lender is None:
        return (yield from _starting_here(pair, settings, method, detail))
    return lender.start(settings, method, detail)


def start_here(pair: Any, settings: VisitorSettings, method: str, detail: bool) -> Any:
    """The same in this process, wherever the pair's models are."""
    return finished(_starting_here(pair, settings, method, detail))


def _starting_here(pair: Any, settings: VisitorSettings, method: str, detail: bool) -> Steps[Any]:
    prompt = pair.chat_prompt(settings.prompt) if chats(pair, settings) else settings.prompt
    sampling = {name: getattr(settings, name) for name in ("temperature", "top_k", "top_p")}
    prompt_tokens = len(pair.encode(prompt))
    limits.at_most("prompt", prompt_tokens, limits.current().prompt_tokens, "tokens")
    topology = None
    if method != "ar":
        tree = {"tree": settings.tree, "method": method}
        topology = yield from topologies.steps(pair, settings.topology, settings.k, **tree, **sampling)
    return specdec.stream(
        pair,
        prompt,
        method=method,
        topology=topology,
        max_new_tokens=settings.max_new_tokens,
        seed=settings.seed,
        detail=detail,
        **sampling,
    )


def updates(
    pair: Any, settings: VisitorSettings, interval: float = INTERVAL, visitor: turns.Visitor = turns.NOBODY
) -> Iterator[str]:
    """One run of this visitor as JSON updates; a mistake becomes a last update with its message."""
    log = Log(interval)
    try:
        settings = settings.checked()
        with turns.MODEL.seat(visitor) as seat:
            yield from map(waits, seat.wait())
            yield from _decoded(pair, settings, seat, log)
    except Exception as error:
        yield log.flush("error", message=told(error))


def visitor(request: gr.Request) -> turns.Visitor:
    """Whose request it is: by address, and by the browser's tab that sent it."""
    return turns.Visitor(addresses.address(request.request.scope), request.session_hash)


def chats(pair: Any, settings: VisitorSettings) -> bool:
    """Whether the chat template writes the prompt."""
    return settings.chat and pair.chats


def _decoded(pair: Any, settings: VisitorSettings, seat: turns.Seat, log: Log) -> Iterator[str]:
    pair = present(pair)  # this run's, whatever is loaded meanwhile
    setup = _setup(pair, settings)
    yield log.flush("choosing" if topologies.has_to_measure(settings) else "running", setup=setup)
    note = {}
    try:
        run = yield from begun(seat, log, starting(pair, settings))
    except zero_gpu.NoGpuError as error:
        run = yield from begun(seat, log, starting(zero_gpu.embedded(), settings))
        setup = _setup(run.pair, settings)
        note = {"message": f"{error} This run is by the embedded story models, on the CPU."}
    setup |= _tree(run.topology) | {"prompt_ids": run.prompt_ids}
    yield log.flush("running", setup=setup, **note)
    yield from log.collect("running", seat.rounds(run))
    note = {}
    if settings.baseline and settings.method != "ar":
        note = yield from _baseline(run.pair, settings, seat, log)
    yield log.flush("done", prefill_seconds=run.prefill_seconds, **note)


def begun(seat: turns.Seat, log: Log, steps: Steps[Any], **fields: Any) -> Generator[str, None, Any]:
    """The run that steps begin, a turn of the model for each; with each update a visitor can stop it."""
    taken = seat.steps(steps)
    while True:
        try:
            next(taken)
        except StopIteration as end:
            return end.value
        if time.monotonic() - log.flushed_at >= turns.TOLD_EVERY:
            yield log.flush("choosing", **fields)


def _baseline(
    pair: Any, settings: VisitorSettings, seat: turns.Seat, log: Log
) -> Generator[str, None, dict[str, str]]:
    """Plain decoding beside a run that went well; what there is to say where it could not be measured."""
    yield log.flush("baseline")
    try:
        with seat.turn():
            baseline = start(pair, settings, method="ar", detail=False)
        yield from log.collect("baseline", seat.rounds(baseline))
    except ValueError as error:  # nothing of the visitor's is wrong by now: a shared GPU was not lent
        return {"message": f"Plain decoding could not be measured to its end. {error}"}
    return {}


def _setup(pair: Any, settings: VisitorSettings) -> dict[str, Any]:
    setup = asdict(settings) | {"models": models(pair), "arithmetic": pair.arithmetic}
    if chats(pair, settings):
        setup["prompt"] = pair.chat_text(settings.prompt)
    return setup


def waits(place: turns.Place) -> str:
    """The update of somebody who waits: no number of the run's, since one that is lost is not missed."""
    # the browser is not told of a value that is the same as the one before
    return json.dumps({"phase": "waiting", "place": asdict(place), "report": next(_reports)})


def told(error: Exception) -> str:
    """What a visitor reads of an error: a mistake of theirs in full; any other goes to the server's log."""
    if isinstance(error, ValueError):
        return str(error)
    logging.error("a run failed", exc_info=error)
    if out_of_memory(error):
        return "The model ran out of memory: shorten the prompt or the length, or lower k."
    return "The model failed; the server's log says why."


def out_of_memory(error: Exception) -> bool:
    """Whether it is that there was no memory left, on a GPU or on the machine."""
    # of a CPU, torch tells by a plain RuntimeError
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error)


class Log:
    """Writes updates, some time apart, and keeps the updates of the latest runs for `missing`."""

    def __init__(self, interval: float):
        self.run = secrets.token_urlsafe(12)
        self.interval = interval
        self.sent: list[str] = []
        self.flushed_at = float("-inf")

    def collect(self, phase: str, run: Any, **fields: Any) -> Iterator[str]:
        """Updates with the rounds of `run` with `fields`; its caches are freed also where it is stopped."""
        with closing(Ahead(run)) as ahead:
            for rounds in ahead.batches(self.interval):
                yield self.flush(phase, rounds, **fields)

    def flush(self, phase: str, rounds: Sequence[specdec.Round] = (), **fields: Any) -> str:
        """The next update, with these rounds."""
        head = json.dumps({"run": self.run, "seq": len(self.sent), "phase": phase, **fields})
        # The rounds are JSON already: join them instead of parsing and writing them once more.
        update = f'{head[:-1]}, "rounds": [{",".join(round.to_json() for round in rounds)}]}}'
        self.sent.append(update)
        _keep(self)
        self.flushed_at = time.monotonic()
        return update


def _keep(log: Log) -> None:
    _kept[log.run] = log.sent
    _kept.move_to_end(log.run)
    while len(_kept) > _KEPT_RUNS + turns.MODEL.num_seated:
        _kept.popitem(last=False)


def missing(request: Any) -> list[str]:
    """The updates of run `request["run"]` from number `request["seq"]` on; empty where forgotten."""
    match request:
        case {"run": str(run), "seq": int(seq)}:
            return _kept.get(run, [])[max(0, seq) :]
    return []


def _tree(topology: Any) -> dict[str, Any]:
    paths = getattr(topology, "paths", ())  # a context tree has another shape each round
    tree = topologies.written(topology) if isinstance(topology, specdec.Topology) else ""
    shape = {"num_draft_tokens": topology.num_draft_tokens, "depth": topology.depth, "paths": paths}
    return shape | {"tree": tree}


def models(pair: Any) -> list[dict[str, str]]:
    """What the page says about each model: role, name, dtype, device, how it verifies, and a note if any."""
    return [
        {
            "role": role,
            "name": _short(str(model.name)),
            "dtype": str(model.dtype).removeprefix("torch."),
            "device": str(model.device),
            "capability": str(model.capability),
        }
        | ({"note": model.note} if getattr(model, "note", "") else {})
        for role, model in (("target", pair.target), ("draft", pair.draft))
        if model is not None
    ]


def _short(name: str) -> str:
    """A folder's last two names: where it lies on the server is nobody's business."""
    return "/".join(Path(name).parts[-2:]) if Path(name).is_absolute() else name


_TEMPLATE = """
<p class="run-status" role="status"></p>
<p class="run-error" role="alert" hidden></p>
"""


def feed() -> gr.HTML:
    """The one component that receives updates; it shows how the run stands and any error."""
    return frame.panel("feed", _TEMPLATE, server_functions=[missing])
