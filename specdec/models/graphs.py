"""CUDA graphs: a forward over a handful of nodes launched as one, not as some hundred kernels.

A graph replays the kernels of one shape, the number of nodes and the capacity that attention runs over, on
the addresses that it was captured with, those of a cache included. Several runs are alive at once, each with
a cache of its own. So a model has slots: a cache and the graphs bound to it, lent to one session at a time
and free again when that is gone. One cache for all runs would have to be copied in and out in each round, and
a graph that finds each run's keys through a table would gather them in every layer.

    Graphs (of a model)    Slot: cache, Replays of (n, capacity), ...   <-- lent to -- GraphSession
                           Slot: cache, Replays of (n, capacity), ...

Without a slot a session is an ordinary `LeanSession`: where all are lent, memory is short, or graphs failed
before. With one it is so as well for what no graph is for: prefills, wide trees, texts beyond the slot.

The model's graphs share one pool of memory, so a result must be taken before another of them runs: each is
copied at once, and one lock keeps threads from coming in between. All run in the stream that was current when
the model was loaded; in another one sessions do without.

Nothing here was ever run on a GPU. What could go wrong there is looked for at run time: in the self-check at
load, and for every graph once more when it is new. Whatever is found ends the use of graphs, with a warning.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from specdec.models.cache import Masks
from specdec.models.lean import LeanCache, LeanDecoder
from specdec.models.memory import TOKENS, free, gigabytes, place
from specdec.models.selfcheck import LIMITS, relative_error
from specdec.models.sessions import Layout, LeanSession
from specdec.models.static import WIDTH, StaticForward, StaticMasks, static_masks

if TYPE_CHECKING:
    from specdec.models.base import Wrapped

SLOTS = 8
"""The most caches with graphs of one model: as many as the page decodes at once on any device."""
CAPACITY = 2 * TOKENS
"""Tokens of a slot's cache: what `memory` plans for a cache that grows."""
SMALLEST = 256
"""Capacity of the first texts; it doubles, so that short texts don't read what long ones need."""
CAPTURED, COMPARED, REPLAYED = 2, 3, 4
"""Uses of a shape in which it is captured (the first one may stay the only one), in which a replay must give
what the forward itself gives, on inputs that it was not captured with, and since when it is only replayed."""

_enqueuing = threading.Lock()


def check_device(device: torch.device, asked: str) -> None:
    """ValueError where there are no CUDA graphs. asked: how the device was asked for."""
    if device.type != "cuda":
        raise ValueError(f"cuda_graphs = True: device = {asked!r} is no CUDA device here, which graphs need")


class Graphs:
    """The slots of one model. fault: why there are no graphs any more, None while there are.

    replays: graphs that were replayed so far. stream: the one in which they run, None on a CPU, where
    everything is the same but for the graphs.
    """

    def __init__(self, decoder: LeanDecoder, model: Wrapped):
        self.fault: str | None = None
        self.replays = 0
        self.name, self.device, self.decoder = model.name, model.device, decoder
        self.dtype = model.dtype
        self.stream, self._aside, self._pool = _current_stream(self.device), None, None
        if self.stream is not None:
            self._aside = torch.cuda.Stream(self.device)
            self._pool = torch.cuda.graph_pool_handle()
        # positions end with the context, but not the places of a tree's nodes
        self.capacity = min(CAPACITY, _power_of_two(model.context_length + WIDTH))
        self.turns = decoder.turns(self.capacity)
        # graphs read them by address: they stay, also if the module is given others
        self._weights = [parameter.detach() for parameter in model.module.parameters()]
        self._idle: deque[Slot] = deque()
        self._made = 0
        self._told: set[str] = set()

    @torch.inference_mode()
    def lend(self) -> Slot | None:
        """A slot with an empty cache; None where there is none to be had."""
        if self.fault is not None or not self.in_stream():
            return None
        try:
            slot = self._idle.pop()  # the last one given back has the most graphs already
        except IndexError:
            return self._new_slot()
        slot.kv.zero_()  # a broken run's NaN would spoil the next one's
        return slot

    def give_back(self, slot: Slot) -> None:
        """Let the next session have it."""
        if self.fault is None:
            self._idle.append(slot)

    def in_stream(self) -> bool:
        """Whether this thread launches where the graphs run."""
        return _current_stream(self.device) == self.stream

    def captured(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """`captured` for this model's graphs."""
        return captured(run, self.device, self._aside, self._pool)

    def fail(self, reason: str) -> None:
        """No graphs from now on; says so once."""
        if self.fault is None:
            self.fault = reason
            self._idle.clear()
            logging.warning("%s goes on without CUDA graphs: %s", self.name, reason)

    def _new_slot(self) -> Slot | None:
        with _enqueuing:
            if self._made == SLOTS:
                self._tell(f"all {SLOTS} caches with graphs are in use")
                return None
            layers, heads, size = self.decoder.kv_shape
            needed = layers * heads * self.capacity * size * self.dtype.itemsize
            # what is lent to one run is not to be missing for another's cache
            if free(place(str(self.device))) < 2 * needed:
                self._tell(f"less than twice the {gigabytes(needed)} of their cache are free")
                return None
            try:
                slot = Slot(self)
            except torch.OutOfMemoryError:
                self._tell(f"{gigabytes(needed)} for their cache are free in pieces only")
                return None
            self._made += 1
            return slot

    def _tell(self, reason: str) -> None:
        if reason not in self._told:
            self._told.add(reason)
            logging.warning("a run of %s has no CUDA graphs: %s", self.name, reason)


class Slot:
    """A cache and the graphs that read and write it."""

    def __init__(self, graphs: Graphs):
        self.graphs = graphs
        layers, heads, size = graphs.decoder.kv_shape
        self.kv = torch.zeros(layers, heads, graphs.capacity, size, dtype=graphs.dtype, device=graphs.device)
        self._shapes: dict[tuple[int, int], Replays] = {}

    def logits(self, token_ids: Tensor, masks: StaticMasks, length: int) -> Tensor:
        """Logits [n, vocabulary] of the nodes of these masks behind a prefix of `length` in the cache."""
        shape = len(token_ids), max(SMALLEST, _power_of_two(length + masks.pending))
        with _enqueuing:
            replays = self._shapes.get(shape)
            if replays is None:
                replays = self._shapes[shape] = self._new_shape(*shape)
            replays.forward.load(token_ids, masks, length)
            return replays().clone()

    def _new_shape(self, n: int, capacity: int) -> Replays:
        graphs = self.graphs
        forward = StaticForward(graphs.decoder, self.kv[:, :, :capacity], graphs.turns, n)
        return Replays(graphs, forward)


class Replays:
    """A static forward: run as it is at first, then captured, compared and from then on replayed."""

    def __init__(self, graphs: Graphs, forward: StaticForward):
        self.forward = forward
        self._graphs = graphs
        self._uses = 0
        self._replay: Callable[[], Tensor] = forward

    def __call__(self) -> Tensor:
        """Logits [n, vocabulary] of what was loaded, until another graph of the model runs."""
        self._uses += 1
        if self._uses >= REPLAYED:
            self._graphs.replays += 1
            return self._replay()
        logits = self.forward()
        if self._uses == CAPTURED:
            self._capture()
        elif self._uses == COMPARED:
            self._compare(logits)
        return logits

    def _capture(self) -> None:
        try:
            self._replay = self._graphs.captured(self.forward)
        except RuntimeError as error:  # torch's for all that a GPU refuses, memory included
            cause = next(iter(str(error).splitlines()), "")
            self._graphs.fail(f"a capture failed with {type(error).__name__}: {cause}")

    def _compare(self, logits: Tensor) -> None:
        always, _ = LIMITS.get(logits.dtype, LIMITS[torch.bfloat16])
        if (error := relative_error(self._replay().float(), logits.float())) > always:
            self._graphs.fail(f"a replay gave logits that are off by {error:.2g} of their spread")


class GraphSession(LeanSession):
    """A lean session in a slot, whose forwards are replays of the slot's graphs."""

    def __init__(self, model: Wrapped, layout: Layout, slot: Slot, lines: bool = True):
        self._slot = slot
        super().__init__(model, layout, lines)

    def _new_cache(self) -> LeanCache:
        cache = super()._new_cache()
        cache.buffer = self._slot.kv
        return cache

    def _masks(self, parents: tuple[int, ...], first: int) -> Masks:
        if len(parents) > WIDTH:
            return super()._masks(parents, first)
        return static_masks(parents, first, self._model.dtype, self._model.device, self._lines)

    def _logits(self, token_ids: Tensor, masks: Masks) -> Tensor:
        slot, end = self._slot, self.length + masks.pending
        graphs = slot.graphs
        if (
            not isinstance(masks, StaticMasks)
            or end > graphs.capacity
            or self._cache.buffer is not slot.kv  # it has outgrown the slot before
            or graphs.fault is not None
            or not graphs.in_stream()
        ):
            return super()._logits(token_ids, masks)
        return slot.logits(token_ids, masks, self.length)


def graph_session(model: Wrapped, graphs: Graphs, layout: Layout, lines: bool = True) -> LeanSession:
    """A session in one of the model's slots, which has it back when the session is gone; else one without."""
    slot = graphs.lend()
    if slot is None:
        return LeanSession(model, layout, lines)
    session = GraphSession(model, layout, slot, lines)
    weakref.finalize(session, graphs.give_back, slot).atexit = False
    return session


def captured(
    run: Callable[[], Tensor], device: torch.device, aside: torch.cuda.Stream | None, pool: Any
) -> Callable[[], Tensor]:
    """A function that replays what `run` launches, into the same tensor each time; on a CPU, `run` itself.

    run: has run before, may run several times, and its tensors stay where they are. aside: a stream for
    capturing. RuntimeError where something in it can't be captured, or memory is short.
    """
    if device.type != "cuda":
        return run
    assert aside is not None, "a GPU without a stream to capture in"
    current = torch.cuda.current_stream(device)
    # a capture that breaks off does not leave its stream by itself
    with torch.cuda.device(device), torch.cuda.stream(current):
        aside.wait_stream(current)
        with torch.cuda.stream(aside):
            run()  # the stream's own workspaces are not to be part of the graph
        current.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # other threads go on with what a capture forbids
        with torch.cuda.graph(graph, pool=pool, stream=aside, capture_error_mode="thread_local"):
            logits = run()

    def replay() -> Tensor:
        graph.replay()
        return logits

    return replay


def _current_stream(device: torch.device) -> torch.cuda.Stream | None:
    return torch.cuda.current_stream(device) if device.type == "cuda" else None


def _power_of_two(number: int) -> int:
    """The smallest that is not below a number from 1 up."""
    return 1 << (number - 1).bit_length()
