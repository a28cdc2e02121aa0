"""A visitor's run, from the request to the updates that the page receives.

updates   settings are checked ─▶ a seat ─▶ `begin` ─▶ rounds as updates of `feed` ─▶ plain decoding
starting  prompt ─▶ tree ─▶ the decoder's `Run`, in steps of a job
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import specdec
from components.page.settings import VisitorSettings
from components.runs import feed, lazy, seats, topologies, zero_gpu
from components.runs.jobs import Job, beside
from components.runs.timing import Repeats
from components.runs.zero_gpu import BorrowedJob, BorrowedRun
from components.visitors import limits
from specdec import Generation
from specdec.decoding.acceptance import Steps, finished
from specdec.decoding.run import Run
from specdec.drafters.catalogue import has_tree
from specdec.pair import Pair
from specdec.trace import Acceptance


@feed.ending_in_words
def updates(
    pair: Pair,
    settings: VisitorSettings,
    address: str = "",
    interval: float = feed.INTERVAL,
) -> Generator[str]:
    """Run this visitor's request. Yields JSON updates; an error becomes a last update with its message.

    address: the visitor's address; visitors with one address share seats. Closing the generator ends the run.
    """
    settings = settings.checked()
    with seats.MODEL.seat(address) as seat:
        yield from map(feed.waits, seat.wait())
        yield from _loading(pair)
        phase = "choosing" if topologies.has_to_measure(settings) else "waiting"
        yield feed.waits(None, phase)
        note: dict[str, Any] = {}
        try:
            job = begin(seat, pair, settings)
        except zero_gpu.NoGpuError as error:
            note["message"] = f"{error} The small story models of this page do this run on the CPU."
            job = begin(seat, zero_gpu.embedded(), settings)
        with closing(job):
            for _ in job.beginning(seats.TOLD_EVERY):
                yield feed.waits(None, phase)  # a visitor can stop the run at each update
            run = job.run
            assert run is not None, "the run has begun"
            setup = _setup(run, settings)
            yield feed.update("running", setup=setup | _choice(run), **note)
            decoded: list[specdec.Round] = []
            for rounds in job.batches(interval):
                decoded += rounds
                yield feed.update("running", rounds)
        message = (yield from _baseline(interval, seat, run, settings)) if settings.baseline else {}
    yield feed.update(
        "done",
        setup=setup | _choice(run),
        prefill_seconds=run.prefill_seconds,
        acceptance=asdict(Acceptance.of(decoded)),
        **message,
    )


def _loading(pair: Pair) -> Iterator[str]:
    """Updates until the pair is loaded. A visitor who leaves meanwhile frees the seat."""
    if not lazy.is_loaded(pair):
        for _ in beside(lambda _: lazy.present(pair)).beginning(seats.TOLD_EVERY):
            yield feed.waits(None)


def _baseline(
    interval: float, seat: seats.Seat, run: Run | BorrowedRun, settings: VisitorSettings
) -> Generator[str, None, dict[str, Any]]:
    """Time plain decoding after a run: in turns with the run, or once if other runs are being decoded.

    Returns a message if plain decoding failed.
    """
    yield feed.update("baseline")
    plain = replace(settings, method="ar")
    is_lent = isinstance(run.pair, zero_gpu.Lender)  # each repeat would have to borrow a GPU
    if is_lent or seats.MODEL.num_seated > 1:
        try:
            with closing(begin(seat, run.pair, plain, False, run.prompt_ids)) as job:
                for rounds in job.batches(interval):
                    yield feed.update("baseline", rounds)
        except ValueError as error:  # The visitor's settings are correct: no shared GPU was available.
            return {"message": f"Plain decoding could not be measured to its end. {error}"}
        return {}
    record = None
    if isinstance(run, Run) and isinstance(run.topology, specdec.Topology):
        record = run.generation
    repeats = Repeats(
        partial(starting, run.pair, settings, False, run.prompt_ids, record=record),
        partial(starting, run.pair, plain, False, run.prompt_ids),
        alone=lambda: seats.MODEL.num_seated == 1,
    )
    num_sent = 0
    for _ in seat.do(repeats.steps()).batches(interval):
        rounds = repeats.plain_rounds[num_sent:]
        num_sent += len(rounds)
        yield feed.update("baseline", rounds, timings=list(repeats.seconds))
    yield feed.update("baseline", repeats.plain_rounds[num_sent:], timings=repeats.seconds)
    return {}


def begin(
    seat: seats.Seat,
    pair: Pair,
    settings: VisitorSettings,
    detail: bool = True,
    prompt_ids: tuple[int, ...] = (),
) -> Job | BorrowedJob:
    """Begin the run of checked settings for the owner of this seat. The caller closes the returned job.

    `NoGpuError` if a GPU is needed and none is available. Other errors come with the rounds.
    """
    pair = lazy.present(pair)
    if isinstance(pair, zero_gpu.Lender):
        return BorrowedJob(pair.start(settings, detail, prompt_ids))
    assert isinstance(pair, specdec.ModelPair), "the pair is in this process"
    steps = starting(pair, settings, detail, prompt_ids)
    return seat.do(steps, begins_run=True, key=topologies.measurement(pair, settings))


def starting(
    pair: Pair,
    settings: VisitorSettings,
    detail: bool = True,
    prompt_ids: tuple[int, ...] = (),
    *,
    alone: bool = False,
    record: Generation | None = None,
) -> Steps[Any]:
    """Create the run of checked settings in the thread that will decode it. Nothing is decoded yet.

    The function yields steps because a tree may have to be measured. prompt_ids: the prompt's tokens if they
    are known. alone: the run is decoded by itself, not in the batch. record: an earlier run whose trees this
    run repeats. ValueError as in `specdec.stream`, and if the prompt has more tokens than the limit.
    """
    pair = lazy.present(pair)
    assert isinstance(pair, specdec.ModelPair), "the pair is in this process"
    lazy.use_threads(pair)
    prompt_ids = prompt_ids or _prompt_ids(pair, settings)
    decoding = settings.decoding(detail)
    topology: Any = record
    if has_tree(settings.method, settings.drafter) and record is None:
        topology = yield from topologies.steps(
            pair,
            settings.topology,
            settings.k,
            tree=settings.tree,
            method=settings.method,
            **asdict(decoding.sampling),
        )
    return Run(pair, prompt_ids, decoding, topology, 1 if alone else seats.MODEL.num_seated)


def start(pair: Pair, settings: VisitorSettings, *details: Any) -> Run:
    """Create the run at once, in the calling thread, to be decoded alone. details: as for `starting`."""
    return finished(starting(pair, settings, *details, alone=True))


def _prompt_ids(pair: Pair, settings: VisitorSettings) -> tuple[int, ...]:
    most = limits.current().prompt_tokens
    if not _chats(pair, settings):
        ids = pair.encode(settings.prompt)
        limits.at_most("prompt", len(ids), most, "tokens")
        return tuple(ids)
    ids = pair.chat_prompt(settings.prompt, settings.history)
    room = min(most, pair.target.context_length - settings.max_new_tokens)
    if settings.history and len(ids) > room:
        limits.at_most("question", len(pair.chat_prompt(settings.prompt)), room, "tokens")
        raise ValueError(
            f"This conversation is too long: {len(ids):,} tokens with your question; at most {room:,} are "
            "allowed. Start a new one."
        )
    limits.at_most("question", len(ids), most, "tokens")
    return tuple(ids)


def _chats(pair: Pair, settings: VisitorSettings) -> bool:
    """Whether the prompt of a run with these settings is formatted by the chat template."""
    return settings.chat and pair.chats


def _setup(run: Run | BorrowedRun, settings: VisitorSettings) -> dict[str, Any]:
    """What is known about a run before its first round, for its record and the page."""
    pair = run.pair
    topology: Any = run.topology
    return asdict(settings) | {
        "models": models(pair),
        "arithmetic": pair.arithmetic,
        "chat": _chats(pair, settings),
        "prompt_ids": run.prompt_ids,
        "num_draft_tokens": topology.num_draft_tokens,
        "depth": topology.depth,
        "paths": getattr(topology, "paths", ()),  # a context tree has a different shape in each round
        **({"tree": topologies.written(topology)} if topologies.has_to_measure(settings) else {}),
    }


def _choice(run: Run | BorrowedRun) -> dict[str, Any]:
    """For the record of a run with "auto": the candidates of its latest choice, and the trees of its rounds
    if they have changed."""
    choice = run.choice
    candidates = None if choice is None else [asdict(each) for each in choice.candidates]
    return {"choice": candidates, "trees": [asdict(each) for each in run.trees]}


def models(pair: Pair) -> list[dict[str, str]]:
    """The page's description of each model: role, name, dtype, `numbers` (the type of the numbers that it
    multiplies), device, capability (how it can score drafted tokens), and a note if any."""
    sides: tuple[tuple[str, Any], ...] = (("target", pair.target), ("draft", pair.draft))
    return [
        {
            "role": role,
            "name": _short(str(model.name)),
            "dtype": (dtype := str(model.dtype).removeprefix("torch.")),
            "numbers": getattr(model, "numbers", dtype),
            "device": str(model.device),
            "capability": str(model.capability),
        }
        | ({"note": model.note} if getattr(model, "note", "") else {})
        for role, model in sides
        if model is not None
    ]


def _short(name: str) -> str:
    """The last two names of a folder's path, because visitors must not see where the folder lies on the
    server."""
    return "/".join(Path(name).parts[-2:]) if Path(name).is_absolute() else name
