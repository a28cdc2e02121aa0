"""CUDA graphs: the host launches a forward pass over a few nodes as a whole, not kernel by kernel.

A forward pass of a model of 8 B parameters launches some 500 kernels, and the GPU waits while the host
launches them. A graph replays them all on the tensors with which it was captured: tokens, depths, masks, and
for each text the address of its cache. These tensors are filled anew before each replay. So one graph serves
any texts. Each graph is for a number of texts (1, 2, 4, ...) and for one of 27 numbers of tokens per text.

    texts    a: cache, prefix, 3 nodes        graph (2 texts, 3 rows)      states of 3 and 2 nodes
             b: cache, prefix, 2 nodes   -->  [a a a | b b -]         -->
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import Tensor

from specdec.devices import ONE_GRAPH, upload_into
from specdec.models.attention import ALIGNED, MOST_ROWS, NUMBERS, TextTable
from specdec.models.cache import PendingText
from specdec.models.lean import LeanDecoder

if TYPE_CHECKING:
    from specdec.models.fused import FusedForward


def graphed_decoder(model: transformers.PreTrainedModel) -> LeanDecoder:
    """The `LeanDecoder` of a model. On a GPU it has CUDA graphs if Triton's kernels support the model.
    Raises the errors of `LeanDecoder`."""
    on_gpu = next(model.parameters()).device.type == "cuda"
    decoder = LeanDecoder(model, joins=on_gpu)
    if on_gpu:
        read = [*model.parameters(), *model.buffers()]
        decoder.graphs = graphs_of(decoder, [tensor.detach() for tensor in read])
    return decoder


def graphs_of(decoder: LeanDecoder, weights: Sequence[Tensor]) -> Graphs | None:
    """The CUDA graphs of a decoder; None without Triton, or if our kernels do not support the decoder.

    weights: all tensors that a forward pass reads. They must not move, because graphs hold their addresses.
    """
    try:
        from specdec.models.fused import FusedForward  # only torch's builds for CUDA contain Triton

        # a proxy, because a cycle of references would hold the model's memory until a garbage collection
        return Graphs(FusedForward(weakref.proxy(decoder)), weights)
    except (ImportError, ValueError):
        return None


class Graphs:
    """The CUDA graphs of one decoder. Each graph is captured when it is first needed.

    All sessions on a GPU, also sessions of other models, must use the same stream.
    """

    def __init__(self, forward: FusedForward, weights: Sequence[Tensor]):
        self._forward, self._weights = forward, weights
        self._device = weights[0].device
        self._pool = torch.cuda.graph_pool_handle() if self._device.type == "cuda" else None
        self._graphs: dict[tuple[int, int], GraphedForward | None] = {}
        self._fails = False  # whether no graph can be captured in this process

    def logits(self, token_ids: Tensor, texts: Sequence[PendingText]) -> Tensor | None:
        """Logits [nodes, vocabulary] of the nodes of all texts, one text after the other.

        token_ids: int64 [nodes]. Returns None if there is no graph for this many nodes.
        """
        count, rows = _power_of_two(len(texts)), _rows(max(text.rows for text in texts))
        if self._fails or max(rows, *(text.masks.pending for text in texts)) > MOST_ROWS:
            return None
        if count * rows > MOST_ROWS:
            return self._halved(token_ids, texts)
        with ONE_GRAPH:
            if (count, rows) not in self._graphs:
                self._graphs[count, rows] = self._captured(count, rows)
            graph = self._graphs[count, rows]
            return None if graph is None else self._forward.decoder.logits(graph(token_ids, texts))

    def _halved(self, token_ids: Tensor, texts: Sequence[PendingText]) -> Tensor | None:
        """`logits` by two forward passes: one over the first half of the texts, one over the others."""
        half = len(texts) // 2
        first = sum(text.rows for text in texts[:half])
        parts = [
            self.logits(token_ids[:first], texts[:half]),
            self.logits(token_ids[first:], texts[half:]),
        ]
        return None if any(part is None for part in parts) else torch.cat(parts)  # type: ignore[arg-type]

    def _captured(self, count: int, rows: int) -> GraphedForward | None:
        """A new graph; None if its capture fails. If the very first capture fails, no other is tried."""
        try:
            return GraphedForward(self._forward, count, rows, self._pool)
        except torch.OutOfMemoryError:
            return None
        except Exception as error:  # an error of torch, or of Triton, which needs a C compiler
            self._fails = not any(self._graphs.values())
            cause = [type(error).__name__, *str(error).splitlines()][-1]  # Triton's last line is the cause
            which = "" if self._fails else f" of {count} texts with {rows} rows"
            logging.warning("forward passes%s run without a CUDA graph, which is slower: %s", which, cause)
            return None


class GraphedForward:
    """A CUDA graph of the forward pass for fixed numbers of texts and of rows (tokens) per text.

    If a text has fewer tokens, the spare rows compute numbers that nothing reads.
    """

    def __init__(self, forward: FusedForward, count: int, rows: int, pool: Any):
        decoder = self._decoder = forward.decoder
        embedding = decoder.embedding
        device = embedding.device
        self._token_ids = torch.zeros(count, rows, dtype=torch.int64, device=device)
        # one tensor, so one transfer: `TextTable.numbers` of all texts, then all nodes' indices of rows
        self._given = torch.zeros(count * (NUMBERS + rows), dtype=torch.int64, device=device)
        self._texts = TextTable(
            self._given[: count * NUMBERS].view(count, NUMBERS),
            embedding.new_zeros(count, rows, MOST_ROWS + ALIGNED),
            self._token_ids.clone(),
            decoder.size,
        )

        def launched() -> Tensor:
            return forward.hidden(self._token_ids.flatten(), self._texts)

        self._replay = captured(launched, device, pool)

    def __call__(self, token_ids: Tensor, texts: Sequence[PendingText]) -> Tensor:
        """Hidden states [nodes, width] of the nodes of all texts, which must fit into the graph."""
        numbers, masks, depths, _ = self._texts
        rows = self._token_ids.shape[1]
        rotations = self._decoder.rotations(max(text.length for text in texts) + MOST_ROWS)
        given = [number for text in texts for number in _numbers(text, rotations)]
        given += [0] * (numbers.numel() - len(given))
        given += [rows * number + row for number, text in enumerate(texts) for row in range(text.rows)]
        upload_into(self._given[: len(given)], given)
        where = self._given[numbers.numel() : len(given)]
        self._token_ids.view(-1).index_copy_(0, where, token_ids)
        first, *others = (text.masks.depths[0] for text in texts)
        depths.view(-1).index_copy_(0, where, torch.cat([first, *others]) if others else first)
        for number, text in enumerate(texts):
            tree, before = text.masks.by_window[None], text.length % ALIGNED
            columns = slice(before, before + text.masks.pending)
            masks[number, : text.rows, columns] = 0 if tree is None else tree[0, 0]
        return self._replay().index_select(0, where)  # a copy, because the next replay overwrites the result


def _numbers(text: PendingText, rotations: Tensor) -> Sequence[int]:
    """One text's row of `TextTable.numbers`."""
    (_, _, capacity, _), length = text.cache.buffer.shape, text.length
    end = length + text.masks.pending
    return text.cache.buffer.data_ptr(), capacity, length, end, text.rows, rotations.data_ptr()


def captured(forward: Callable[[], Tensor], device: torch.device, pool: Any) -> Callable[[], Tensor]:
    """A function that replays all kernels of `forward` and returns its result; on a CPU, `forward` itself.

    pool: the memory pool of the graph. Graphs may share one, because each result is copied before another
    graph runs. RuntimeError if the capture fails.
    """
    if device.type != "cuda":
        forward()  # a capture also runs `forward`, so a CPU raises errors at the same point
        return forward
    with torch.cuda.device(device):
        current, aside = torch.cuda.current_stream(), _stream(device)
        aside.wait_stream(current)
        with torch.cuda.stream(aside):
            forward()  # libraries set themselves up at their first call, which must not be captured
        current.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # other threads may copy and allocate meanwhile; after an error the outer block restores the stream
        with (
            torch.cuda.stream(aside),
            torch.cuda.graph(graph, pool=pool, stream=aside, capture_error_mode="thread_local"),
        ):
            result = forward()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay


@lru_cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """The stream in which a GPU's graphs are captured: only one, because each stream takes a workspace."""
    return torch.cuda.Stream(device)


def _rows(nodes: int) -> int:
    """The rows per text of a graph for this many nodes: rounded up, so that few graphs are captured."""
    step = 1 if nodes <= 8 else max(8, 1 << (nodes.bit_length() - 3))
    return -(-nodes // step) * step


def _power_of_two(number: int) -> int:
    """The smallest power of two that is at least `number`."""
    return 1 << (number - 1).bit_length()
