"""From `specdec.stream` to the browser: settings, throttled updates, and the feed that receives them.

Updates are JSON texts with a sequence number, about ten a second; each carries only the rounds since
the one before it. Gradio may merge two that arrive together, so the browser asks `missing` for what
it did not see.
"""

from __future__ import annotations

import json
import logging
import random
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gradio as gr

import specdec
from components import page, topologies

INTERVAL = 0.1
"""Seconds between two updates: what a browser draws comfortably and an eye still follows."""

_KEPT_RUNS = 16
_kept: OrderedDict[str, list[str]] = OrderedDict()


@dataclass(frozen=True)
class Settings:
    """One run as the visitor asked for it. seed None draws one; baseline: measure plain decoding too."""

    prompt: str
    method: str = "ersd"
    topology: str = "sequence"
    k: int | None = 4
    max_new_tokens: int | None = 64
    temperature: float | None = 1.0
    top_k: int | None = 0
    top_p: float | None = 1.0
    seed: int | None = None
    baseline: bool = False

    def checked(self) -> Settings:
        """The same with whole numbers as `int`; ValueError names what is missing or not whole.

        Ranges are checked where they matter, in `specdec`.
        """
        changes: dict[str, Any] = {
            "k": 1 if self.topology in topologies.WITHOUT_K or self.method == "ar" else whole("k", self.k),
            "max_new_tokens": whole("length", self.max_new_tokens),
            "temperature": number("temperature", self.temperature),
            "top_k": whole("top-k", self.top_k),
            "top_p": number("top-p", self.top_p),
            "seed": random.randrange(2**31) if self.seed is None else whole("seed", self.seed),
        }
        return Settings(**(asdict(self) | changes))


def number(name: str, value: Any) -> float:
    """`value` as a float; ValueError says that it is missing or no number."""
    if value is None or value == "":
        raise ValueError(f"{name} is empty; give a number")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} = {value!r} is not a number")
    return float(value)


def whole(name: str, value: Any) -> int:
    """`value` as an int; ValueError says that it is missing or not whole."""
    if not number(name, value).is_integer():
        raise ValueError(f"{name} = {value!r} is not a whole number")
    return int(value)


def start(pair: Any, settings: Settings, method: str | None = None, detail: bool = True) -> Any:
    """The run of checked settings, not begun yet; `method` replaces theirs (for the baseline)."""
    method = method or settings.method
    sampling = {name: getattr(settings, name) for name in ("temperature", "top_k", "top_p")}
    topology = None
    if method != "ar":
        topology = topologies.topology(
            pair, settings.topology, settings.k, settings.prompt, method=method, **sampling
        )
    return specdec.stream(
        pair,
        settings.prompt,
        method=method,
        topology=topology,
        max_new_tokens=settings.max_new_tokens,
        seed=settings.seed,
        detail=detail,
        **sampling,
    )


def updates(pair: Any, settings: Settings, interval: float = INTERVAL) -> Iterator[str]:
    """One run as JSON updates; a mistake of the visitor becomes a last update with its message."""
    log = _Log(interval)
    try:
        settings = settings.checked()
        setup = asdict(settings) | {"models": models(pair)}
        measured = settings.method != "ar" and settings.topology in topologies.MEASURED
        yield log.flush("choosing" if measured else "running", setup=setup)
        run = start(pair, settings)
        yield log.flush("running", setup=setup | _tree(run.topology) | {"prompt_ids": run.prompt_ids})
        yield from log.collect("running", run)
        if settings.baseline and settings.method != "ar":
            yield log.flush("baseline")
            yield from log.collect("baseline", start(pair, settings, method="ar", detail=False))
        yield log.flush("done", prefill_seconds=run.prefill_seconds)
    except ValueError as error:
        yield log.flush("error", message=str(error))
    except Exception:
        logging.exception("a run failed")
        yield log.flush("error", message="The model failed; the server's log says why.")


class _Log:
    """Collects rounds between updates and keeps the updates of the latest runs for `missing`."""

    def __init__(self, interval: float):
        self.run = secrets.token_urlsafe(12)
        self.interval = interval
        self.sent: list[str] = []
        self.waiting: list[str] = []
        self.flushed_at = float("-inf")
        _kept[self.run] = self.sent
        while len(_kept) > _KEPT_RUNS:
            _kept.popitem(last=False)

    def collect(self, phase: str, run: Any) -> Iterator[str]:
        """Updates with the rounds of `run`, whose caches are freed also where a visitor stops it."""
        with closing(run):
            for round in run:
                self.waiting.append(round.to_json())
                if time.monotonic() - self.flushed_at >= self.interval:
                    yield self.flush(phase)
            if self.waiting:
                yield self.flush(phase)

    def flush(self, phase: str, **fields: Any) -> str:
        """The next update, with the rounds that waited for it."""
        head = json.dumps({"run": self.run, "seq": len(self.sent), "phase": phase, **fields})
        # The rounds are JSON already: join them instead of parsing and writing them once more.
        update = f'{head[:-1]}, "rounds": [{",".join(self.waiting)}]}}'
        self.sent.append(update)
        self.waiting = []
        self.flushed_at = time.monotonic()
        return update


def missing(request: dict[str, Any]) -> list[str]:
    """The updates of run `request["run"]` from number `request["seq"]` on; empty where forgotten."""
    sent = _kept.get(str(request.get("run")), [])
    return sent[max(0, int(request.get("seq", 0))) :]


def _tree(topology: Any) -> dict[str, Any]:
    paths = getattr(topology, "paths", ())  # a context tree has another shape each round
    return {"num_draft_tokens": topology.num_draft_tokens, "depth": topology.depth, "paths": paths}


def models(pair: Any) -> list[dict[str, str]]:
    """What the page says about each model: role, name, dtype, device, and how it verifies."""
    return [
        {
            "role": role,
            "name": _short(str(model.name)),
            "dtype": str(model.dtype).removeprefix("torch."),
            "device": str(model.device),
            "capability": str(model.capability),
        }
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
    return page.panel("feed", _TEMPLATE, server_functions=[missing])
