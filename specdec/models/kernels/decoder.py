"""A decoder's weights packed for the compiled forward, and its calls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from specdec.models.kernels import layout as at
from specdec.models.kernels.compiled import crew
from specdec.models.kernels.crew import MOST_LAYERS
from specdec.models.kernels.packing import kind_of, pack, side_by_side

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
ALONE = 1 << 21
"""Bytes of weights up to which waking a helper takes longer than it saves."""
_LINE = 16
"""float32 of a line of the processor's cache: parts of memory that threads write begin with one."""


class Lines(NamedTuple):
    """What pending nodes see of one another: int32 [n, longest], the nodes of each one's line from the end of
    the prefix to itself, in order, and their counts [n]."""

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
        matrices = [m.weight for m in layers.modules() if isinstance(m, nn.Linear)]
        self.kind = kind_of([*matrices, model.lm_head.weight])
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
        header[: at.NUMBERS] = [*sizes, self.heads, self.kv_heads, self.size, self.inner]
        header[at.NUMBERS] = self._float([model.model.norm.variance_epsilon, scaling])
        header[at.NORM] = self._float(model.model.norm.weight)
        header[at.HEAD : at.HEAD + 4] = self._matrix(model.lm_head.weight, model.lm_head.bias)
        return np.array(header + [place for layer in model.model.layers for place in self._layer(layer)])

    def _layer(self, layer: nn.Module) -> list[int]:
        attention, mlp = layer.self_attn, layer.mlp
        q_norm, k_norm = (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
        norms = (layer.input_layernorm, q_norm, k_norm, layer.post_attention_layernorm)
        qkv = (attention.q_proj, attention.k_proj, attention.v_proj)
        gate, up = mlp.gate_proj, mlp.up_proj
        bias = None if gate.bias is None else side_by_side(gate.bias, up.bias)
        return [
            *(0 if norm is None else self._float(norm.weight) for norm in norms),
            *self._matrix(
                torch.cat([m.weight for m in qkv]),
                None if qkv[0].bias is None else torch.cat([m.bias for m in qkv]),
            ),
            *self._matrix(attention.o_proj.weight, attention.o_proj.bias),
            *self._matrix(side_by_side(gate.weight, up.weight), bias),
            *self._matrix(mlp.down_proj.weight, mlp.down_proj.bias),
        ]

    def _float(self, numbers: Tensor | Sequence[float]) -> int:
        tensor = torch.as_tensor(numbers).detach().float().contiguous()
        self._held.append(tensor)
        return tensor.data_ptr()

    def _matrix(self, weight: Tensor, bias: Tensor | None) -> list[int]:
        packed = pack(weight.detach(), None if bias is None else bias.detach(), self.kind)
        self._held += [part for part in packed[:3] if part is not None]
        return packed.places()

    @property
    def nbytes(self) -> int:
        """Of the packed weights."""
        return sum(part.nbytes for part in self._held)


class Calls:
    """Forwards of one run: its memory between the phases, and what a call is about."""

    def __init__(self, decoder: CompiledDecoder):
        self._decoder = decoder
        self._shared = np.zeros(at.shared_words(decoder.kv_shape[0]), dtype=np.int64)
        self._call = np.zeros(at.CALL, dtype=np.int64)
        self._scratch = torch.empty(0)

    def forward(
        self, token_ids: Tensor, kv: Tensor, length: int, first: int, lines: Lines | None, logits: bool
    ) -> Tensor | None:
        """Logits [n, vocabulary] float32 of n new tokens, whose keys and values go to the cache; or None.

        token_ids: int64 [n]. kv: [layers, 2 x key-value heads, capacity, head size] float32. length: of the
        prefix. first: place of the first new token in the cache. lines: what they see behind the prefix;
        None where they go on with the text, each after the one before.
        """
        decoder, rows = self._decoder, len(token_ids)
        x = F.embedding(token_ids, decoder._embedding).float()
        padded = decoder.vocab_size + -decoder.vocab_size % at.LANES
        out = torch.empty(rows, padded) if logits else None
        longest = length + lines.nodes.shape[1] if lines else first + rows
        decoder.turns(length + lines.depth + 1 if lines else longest)
        threads = torch.get_num_threads() if decoder.nbytes * rows > ALONE else 1
        between, own = self._sizes(rows, longest)
        if between + threads * own > len(self._scratch):
            self._scratch = torch.empty(between + threads * own)
        scratch = self._scratch.data_ptr()
        self._call[:] = (
            decoder._plan.ctypes.data,
            rows,
            x.data_ptr(),
            kv.data_ptr(),
            kv.shape[2],
            length,
            first,
            lines.nodes.ctypes.data if lines else 0,
            lines.counts.ctypes.data if lines else 0,
            lines.nodes.shape[1] if lines else 0,
            out.data_ptr() if logits else 0,
            scratch,
            scratch + 4 * between,
            4 * own,
        )
        decoder._crew.run(self._call.ctypes.data, threads, self._shared)
        return out[:, : decoder.vocab_size] if logits else None

    def _sizes(self, rows: int, longest: int) -> tuple[int, int]:
        """float32 between the phases, and of each thread alone, in whole lines."""
        decoder = self._decoder
        columns = (decoder.heads + 2 * decoder.kv_heads) * decoder.size
        between = rows * (columns + decoder.heads * decoder.size + decoder.inner)
        own = max(rows * (at.PART + decoder.width), longest, decoder.size)
        return tuple(-(-count // _LINE) * _LINE for count in (between, own))
