"""CUDA graphs: a GPU starts a forward over a few nodes at once, not kernel by kernel.

A forward of a model of 8 B parameters launches some 750 kernels, and the GPU waits while the host launches
them. A graph replays them all on the tensors that it was captured with, the cache included. So a cache has
graphs of its own, one for each number of rows and of places that attention reads. Sessions come and go while
graphs are captured once, so a cache is lent to one session at a time.

    LeanDecoder   GraphedCaches   GraphedCache: buffer, graphs of (rows, places)   <-- lent to -- LeanSession
                                  GraphedCache: buffer, graphs of (rows, places)

All inputs of a graph are tensors at fixed addresses: tokens, positions, places in the cache, and a mask over
all places. Rows beyond the nodes repeat the last node and are not read.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from specdec.models.attention import TextRows
from specdec.models.cache import Masks, StackedCache
from specdec.models.lean import LeanDecoder

if TYPE_CHECKING:
    from specdec.models.fused import FusedForward

Hidden = Callable[[Tensor, Tensor, TextRows], Tensor]
MOST_CACHES = 8
"""The most caches with graphs of one model. Further sessions launch kernel by kernel."""
MOST_ROWS = 512
"""The most rows of a graph. A GPU computes a wider forward for longer than the host launches it."""
LEAST_PLACES = 256
"""Places that the attention of a short text reads; the number doubles as the text grows."""
KEPT_PLACES = 4096
"""A cache that has grown beyond this many places is not lent again, so that its memory is freed."""
MOST_SCORES = 1 << 21
"""The most rows times places of a graph, because a graph keeps the memory of its scores."""

_one_at_a_time = threading.Lock()
"""torch captures one graph at a time in a process, and a replay may share a workspace with a warm-up."""


def graphed_decoder(model: PreTrainedModel) -> LeanDecoder:
    """The lean forward of a model; on a GPU it has caches with graphs. Errors are those of `LeanDecoder`."""
    on_gpu = next(model.parameters()).device.type == "cuda"
    decoder = LeanDecoder(model, joins=on_gpu)
    if on_gpu:
        decoder.graphs = GraphedCaches(decoder, [parameter.detach() for parameter in model.parameters()])
    return decoder


class GraphedCaches:
    """The caches with graphs of one decoder.

    weights: all tensors that its forward reads. Graphs read them where they are, so they stay there.
    capturing: whether forwards are captured; it ends with the first capture that fails. fused: the forward in
    fewer kernels, if it can be had.
    """

    def __init__(self, decoder: LeanDecoder, weights: Sequence[Tensor]):
        self.decoder, self.weights = weakref.proxy(decoder), weights
        self.dtype, self.device = weights[0].dtype, weights[0].device
        self.capturing = True
        self.fused = _fused(self.decoder) if self.device.type == "cuda" else None
        self._idle: list[GraphedCache] = []
        self._made = 0

    @torch.inference_mode()
    def lend(self, borrower: object) -> GraphedCache | None:
        """An empty cache for as long as the borrower exists; None if all are lent.

        All sessions of a model must use the same stream of the GPU.
        """
        try:
            cache = self._idle.pop()
        except IndexError:
            if not self.capturing or self._made == MOST_CACHES:
                return None
            self._made += 1
            cache = GraphedCache(self)
        cache.buffer.zero_()  # NaN of a broken run would reach the next one, because 0 x NaN is NaN
        weakref.finalize(borrower, self._take_back, cache).atexit = False
        return cache

    def _take_back(self, cache: GraphedCache) -> None:
        if cache.buffer.shape[2] > KEPT_PLACES:
            self._made -= 1
        else:
            self._idle.append(cache)

    def forward(self, kv: Tensor, rows: int, pool: Any) -> GraphedForward | None:
        """A new graph of the fastest forward that can be captured; None if there is none.

        pool: the memory pool of the cache's graphs.
        """
        if self.fused is not None and kv.shape[2] <= self.fused.most_places:
            try:
                return GraphedForward(self.decoder, self.fused.hidden, kv, rows, pool)
            except torch.OutOfMemoryError:
                return None
            except Exception as error:  # of Triton, which needs a C compiler
                self.fused = None
                _warn("Triton's kernels could not be compiled, so a forward has more kernels", error)
        try:
            return GraphedForward(self.decoder, self._launched, kv, rows, pool)
        except torch.OutOfMemoryError:
            return None
        except RuntimeError as error:  # torch's class for all that a GPU refuses
            self.capturing = False
            _warn("no CUDA graph could be captured, so kernels are launched one by one", error)
            return None

    def _launched(self, token_ids: Tensor, rotation: Tensor, text: TextRows) -> Tensor:
        return self.decoder.hidden(token_ids, rotation, [text])


class GraphedCache(StackedCache):
    """The keys and values of one text, and the graphs that read and write them."""

    def __init__(self, caches: GraphedCaches):
        super().__init__(caches.decoder.kv_shape, caches.dtype, caches.device)
        # a strong reference would keep the model's memory until a garbage collection
        self._caches = weakref.proxy(caches)
        self._graphs: dict[tuple[int, int], GraphedForward | None] = {}
        self._pool = torch.cuda.graph_pool_handle() if caches.device.type == "cuda" else None

    @property
    def capturing(self) -> bool:
        """Whether forwards are captured."""
        return self._caches.capturing

    def _capacity(self, end: int) -> int:
        return _places(end)

    def _grow(self, used: int, capacity: int) -> None:
        """Graphs belong to one buffer, so a new one has none. Places without tokens must be finite."""
        self._graphs.clear()
        super()._grow(used, capacity)
        self.buffer[:, :, used:] = 0

    def logits(self, token_ids: Tensor, masks: Masks, length: int) -> Tensor | None:
        """Logits [n, vocabulary] of the nodes of these masks behind a prefix of `length`.

        token_ids: int64 [n]. None where there is no graph for them.
        """
        rows, first = _rows(len(token_ids)), length + masks.pending - len(token_ids)
        shape = rows, _places(first + rows)
        if rows > MOST_ROWS or rows * shape[1] > MOST_SCORES or not self.capturing:
            return None
        self.reserved(first, first + rows)
        if shape not in self._graphs:
            self._graphs[shape] = self._caches.forward(self.buffer[:, :, : shape[1]], rows, self._pool)
        graph = self._graphs[shape]
        return None if graph is None else graph(token_ids, masks, length)


class GraphedForward:
    """The lean forward over a fixed number of rows, with fixed places in the cache, as one graph.

    All tensors that the graph reads are attributes, because a graph itself keeps none of them.

    hidden: the hidden states [rows, width] of tokens [rows], as `FusedForward.hidden`. kv: [layers, 2 x
    key-value heads, places, head size], finite also where no token is, because attention
    multiplies it by zero.
    """

    def __init__(self, decoder: LeanDecoder, hidden: Hidden, kv: Tensor, rows: int, pool: Any):
        device, places = kv.device, kv.shape[2]
        self._lowest = torch.finfo(kv.dtype).min
        self._numbers = torch.arange(rows, device=device)
        self._token_ids = torch.zeros_like(self._numbers)
        self._positions, self._places = self._numbers.clone(), self._numbers.clone()
        self._mask = kv.new_zeros(1, 1, rows, places)
        self._rotation = decoder.rotation(torch.arange(places, device=device), places)

        def forward() -> Tensor:
            text = TextRows(rows, kv, self._places, self._mask)
            rotation = self._rotation.index_select(0, self._positions)
            return decoder.logits(hidden(self._token_ids, rotation, text))

        # The rows lie at the end of the places, so that the captured runs overwrite no token.
        self._places += places - rows
        self._replay = captured(forward, device, pool)
        kv[:, :, places - rows :] = 0

    def __call__(self, token_ids: Tensor, masks: Masks, length: int) -> Tensor:
        """Logits [n, vocabulary], as of `GraphedCache.logits`; n is at most the number of rows."""
        n, end = len(token_ids), length + masks.pending
        self._token_ids[:n] = token_ids
        torch.add(masks.depths[0], length, out=self._positions[:n])
        torch.add(self._numbers, end - n, out=self._places)
        mask, tree = self._mask[0, 0, :n], masks.by_window[None]
        mask.fill_(self._lowest)
        mask[:, :length] = 0
        mask[:, length:end] = 0 if tree is None else tree[0, 0]
        if n < len(self._numbers):  # an old token could write NaN behind the nodes
            for each in (self._token_ids, self._positions, self._mask[0, 0]):
                each[n:] = each[n - 1]
        return self._replay()[:n].clone()  # the next replay overwrites it


def captured(forward: Callable[[], Tensor], device: torch.device, pool: Any) -> Callable[[], Tensor]:
    """A function that replays all that `forward` launches into one result; on a CPU, `forward` itself.

    pool: the memory pool of the graph. Graphs may share one, because each result is copied before another
    graph runs. RuntimeError if it cannot be captured.
    """
    if device.type != "cuda":
        forward()  # as a capture does, so that an error comes now
        return forward
    with _one_at_a_time, torch.cuda.device(device):
        current, aside = torch.cuda.current_stream(), _stream(device)
        aside.wait_stream(current)
        with torch.cuda.stream(aside):
            forward()  # libraries set themselves up at their first call, which no graph should hold
        current.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # other threads may do meanwhile what a capture forbids
        with torch.cuda.graph(graph, pool=pool, stream=aside, capture_error_mode="thread_local"):
            logits = forward()

    def replay() -> Tensor:
        with _one_at_a_time:
            graph.replay()
        return logits

    return replay


@lru_cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """The stream in which graphs are captured: one for each GPU, because each keeps a workspace."""
    return torch.cuda.Stream(device)


def _fused(decoder: LeanDecoder) -> FusedForward | None:
    try:
        from specdec.models.fused import FusedForward  # Triton is only there with a torch for CUDA

        return FusedForward(decoder)
    except Exception:  # no Triton, a broken one, or a model that it does not fit
        return None


def _warn(what: str, error: Exception) -> None:
    cause = next(iter(str(error).splitlines()), type(error).__name__)
    logging.warning("%s: %s", what, cause)


def _rows(nodes: int) -> int:
    """Rows of the graph for this number of nodes: a few numbers, so that few graphs are captured."""
    step = 1 if nodes <= 8 else max(8, 1 << (nodes.bit_length() - 3))
    return -(-nodes // step) * step


def _places(end: int) -> int:
    """The smallest power of two from `LEAST_PLACES` on that is at least `end`."""
    return max(LEAST_PLACES, 1 << (end - 1).bit_length())
