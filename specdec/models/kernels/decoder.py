"""A decoder's weights packed for the compiled forward, and its calls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from specdec.devices import usual_threads
from specdec.models.kernels import layout as at
from specdec.models.kernels.compiled import crew
from specdec.models.kernels.crew import MOST_LAYERS
from specdec.models.kernels.packing import kind_of, pack, side_by_side

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
ALONE = 1 << 21
"""Bytes of weights up to which waking a helper takes longer than it saves."""
_LINE = 16
"""float32 of a line of the processor's cache: parts of memory that threads write begin with one."""


class Rows(NamedTuple):
    """New tokens of one text. table: int64 [n, ROW]. longest: tokens that the last of them sees.

    held: memory that the table names.
    """

    table: np.ndarray
    longest: int
    held: tuple


class Lines(NamedTuple):
    """What pending nodes see of one another: int32 [n, longest], the nodes of each one's line from the end of
    the prefix to itself, in order, and their counts [n]. depth: the largest."""

    nodes: np.ndarray
    counts: np.ndarray
    depth: int


@lru_cache(maxsize=256)
def lines_of(parents: tuple[int, ...], first: int, right: bool = True) -> Lines:
    """Of the pending nodes first, first + 1, ... of a tree given by its parents. right=False: what the
    self-check's control sees, all nodes before each."""
    found: list[list[int]] = []
    for node, parent in enumerate(parents):
        assert -1 <= parent < node, f"node {node} has parent {parent}; parents come before children"
        found.append([*(found[parent] if parent >= 0 else ()), node])
    depth = max(map(len, found[first:])) - 1
    if not right:
        found = [list(range(node + 1)) for node in range(len(parents))]
    counts = np.array([len(line) for line in found[first:]], dtype=np.int32)
    nodes = np.zeros((len(counts), counts.max()), dtype=np.int32)
    for row, line in enumerate(found[first:]):
        nodes[row, : len(line)] = line
    return Lines(nodes, counts, depth)


def rows_of(kv: Tensor, length: int, first: int, lines: Lines) -> Rows:
    """Pending nodes behind a prefix of `length` tokens; the first goes to this place of the cache.

    kv: [layers, 2 x key-value heads, capacity, head size] float32.
    """
    table = _table(kv, first, len(lines.counts))
    table[:, at.PREFIX] = length
    table[:, at.LINE] = np.arange(0, lines.nodes.nbytes, lines.nodes.strides[0]) + lines.nodes.ctypes.data
    table[:, at.COUNT] = lines.counts
    return Rows(table, length + lines.nodes.shape[1], (kv, lines))


def text_of(kv: Tensor, first: int, count: int) -> Rows:
    """Tokens that go on with a text, each after the one before."""
    table = _table(kv, first, count)
    table[:, at.PREFIX] = np.arange(first + 1, first + 1 + count)
    table[:, at.LINE : at.COUNT + 1] = 0
    return Rows(table, first + count, (kv,))


def _table(kv: Tensor, first: int, count: int) -> np.ndarray:
    table = np.empty((count, at.ROW), dtype=np.int64)
    table[:, at.CACHE] = kv.data_ptr()
    table[:, at.CAPACITY] = kv.shape[2]
    table[:, at.PLACE] = np.arange(first, first + count)
    return table


class CompiledDecoder:
    """A Llama, Mistral, Qwen 2 or Qwen 3 whose forward is one compiled call.

    Sums are of float32, and so are the cache and the logits, whatever the weights are stored as. kv_shape:
    as of a `LeanDecoder`. kind: what the weights are packed as. Raises ValueError where it can't be had;
    whether the model is one of these is for `LeanDecoder` to say.
    """

    def __init__(self, model: PreTrainedModel):
        found = crew()
        if found is None:
            raise ValueError("there is no compiled forward")
        config, embedding = model.config, model.get_input_embeddings().weight
        layers = model.model.layers
        if embedding.device.type != "cpu" or embedding.dtype not in DTYPES or len(layers) > MOST_LAYERS:
            raise ValueError("the compiled forward is for models on a CPU, of at most 32 bits a number")
        if config.hidden_act != "silu":
            raise ValueError(f"the compiled forward has silu alone, not {config.hidden_act!r}")
        attention = layers[0].self_attn
        self.heads, self.kv_heads, self.size = (
            config.num_attention_heads,
            config.num_key_value_heads,
            attention.head_dim,
        )
        self.kv_shape = (len(layers), 2 * self.kv_heads, self.size)
        self.width, self.inner = embedding.shape[1], layers[0].mlp.gate_proj.weight.shape[0]
        self.vocab_size = model.lm_head.weight.shape[0]
        self._crew = found
        self._embedding, self._rotary = embedding, model.model.rotary_emb
        matrices = [m.weight.detach() for m in model.modules() if isinstance(m, nn.Linear)]
        self.kind = kind_of(matrices)
        self._held: list[Tensor | np.ndarray] = []
        self._plan = self._planned(model, attention.scaling)
        self._turns = torch.empty(0)

    def turns(self, count: int) -> None:
        """Have the angles of the first positions, at least `count`."""
        if count > len(self._turns):
            count = max(512, 1 << (count - 1).bit_length())
            cos, sin = self._rotary(torch.zeros(1), torch.arange(count)[None])
            sign = torch.ones(self.size)
            sign[: self.size // 2] = -1
            # a run in another thread may still read the former ones
            self._held.append(self._turns)
            self._turns = torch.stack([cos[0], sin[0] * sign], 1).contiguous()
            self._plan[at.TURNS] = self._turns.data_ptr()

    def _planned(self, model: PreTrainedModel, scaling: float) -> np.ndarray:
        header = [0] * at.HEADER
        sizes = (at.KINDS.index(self.kind), at.BYTES[self.kind], len(model.model.layers), self.width)
        header[: at.SCALE] = [*sizes, self.heads, self.kv_heads, self.size, self.inner]
        header[at.SCALE] = self._float([scaling])
        header[at.MULTIPLY] = self._crew.multiply
        header[at.NORM] = self._norm(model.model.norm)
        header[at.HEAD : at.HEAD + 4] = self._matrix(model.lm_head.weight, model.lm_head.bias)
        return np.array(header + [place for layer in model.model.layers for place in self._layer(layer)])

    def _layer(self, layer: Any) -> list[int]:
        attention, mlp = layer.self_attn, layer.mlp
        q_norm, k_norm = (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
        norms = (layer.input_layernorm, q_norm, k_norm, layer.post_attention_layernorm)
        qkv = (attention.q_proj, attention.k_proj, attention.v_proj)
        gate, up = mlp.gate_proj, mlp.up_proj
        bias = None if gate.bias is None else side_by_side(gate.bias, up.bias)
        return [
            *map(self._norm, norms),
            *self._matrix(
                torch.cat([m.weight for m in qkv]),
                None if qkv[0].bias is None else torch.cat([m.bias for m in qkv]),
            ),
            *self._matrix(attention.o_proj.weight, attention.o_proj.bias),
            *self._matrix(side_by_side(gate.weight, up.weight), bias),
            *self._matrix(mlp.down_proj.weight, mlp.down_proj.bias),
        ]

    def _norm(self, norm: Any) -> int:
        return 0 if norm is None else self._float([*norm.weight.tolist(), norm.variance_epsilon])

    def _float(self, numbers: Sequence[float]) -> int:
        tensor = torch.tensor(numbers, dtype=torch.float32)
        self._held.append(tensor)
        return tensor.data_ptr()

    def _matrix(self, weight: Tensor, bias: Tensor | None) -> list[int]:
        packed = pack(weight.detach(), None if bias is None else bias.detach(), self.kind)
        self._held += [part for part in packed[:3] if part is not None]
        return packed.places()

    def forward(self, token_ids: Tensor, texts: Sequence[Rows], scored: int) -> Tensor:
        """Logits [scored, vocabulary] float32 of the first rows; keys and values go to the caches.

        token_ids: int64 [n], of all texts, those of one after those of the other.
        """
        rows = len(token_ids)
        table = texts[0].table if len(texts) == 1 else np.concatenate([text.table for text in texts])
        longest = max(text.longest for text in texts)
        self.turns(longest)
        x = F.embedding(token_ids, self._embedding).float()
        out = torch.empty(scored, self.vocab_size + -self.vocab_size % at.LANES)
        threads = usual_threads() if self.nbytes * rows > ALONE else 1
        between, own = self._sizes(rows, longest)
        scratch = torch.empty(between + threads * own)
        addresses = self._plan.ctypes.data, rows, x.data_ptr(), table.ctypes.data, out.data_ptr(), scored
        memory = scratch.data_ptr(), scratch.data_ptr() + 4 * between, 4 * own
        call = np.array(addresses + memory)
        self._crew.run(call.ctypes.data, threads, self.kv_shape[0])
        return out[:, : self.vocab_size]

    def _sizes(self, rows: int, longest: int) -> tuple[int, int]:
        """float32 between the phases, and of each thread alone, in whole lines."""
        columns = (self.heads + 2 * self.kv_heads) * self.size
        between = rows * (columns + self.heads * self.size + self.inner)
        own = max(rows * (at.PART + self.width), longest, self.size)
        return _in_lines(between), _in_lines(own)

    @cached_property
    def nbytes(self) -> int:
        """Of the packed weights."""
        return sum(part.nbytes for part in self._held)


def _in_lines(count: int) -> int:
    return -(-count // _LINE) * _LINE
