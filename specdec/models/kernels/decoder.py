"""`CompiledDecoder`, a decoder whose weights are packed for the compiled forward pass, and its inputs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from specdec.devices import one_thread, usual_threads
from specdec.models.kernels import layout as at
from specdec.models.kernels.compiled import crew
from specdec.models.kernels.crew import MOST_LAYERS
from specdec.models.kernels.packing import Packed, kind_of, pack
from specdec.models.lean import check_known, has_room
from specdec.models.partial_head import spread

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
ALONE = 1 << 23
"""A pass runs on one thread if bytes of weights x tokens are at most this, because two are no faster then."""
_LINE = 16
"""float32 numbers in a cache line of the processor. Each thread's own memory is rounded up to whole lines."""


class RowTable(NamedTuple):
    """The n new tokens of one text, as input of the compiled forward pass.

    table: one `layout.ROW` record per token, [n], with the addresses of its cache and its ancestors. longest:
    the largest number of tokens to which a row attends. owners: the objects whose memory is at these
    addresses; the table holds them so that their memory is not freed.
    """

    table: np.ndarray
    longest: int
    owners: tuple


class Ancestors(NamedTuple):
    """For each of n nodes, the pending nodes to which it attends.

    nodes: int32 [n, most]; a row holds the numbers of a node's ancestors, from the root down, then the node's
    own number. counts: int32 [n], the used entries of each row. depth: the largest depth of a node.
    """

    nodes: np.ndarray
    counts: np.ndarray
    depth: int


@lru_cache(maxsize=256)
def ancestors_of(parents: tuple[int, ...], first: int, ancestors_only: bool = True) -> Ancestors:
    """Ancestors of the pending nodes first, first + 1, ... of a tree given by its parents.

    ancestors_only=False gives each node all nodes before it: a wrong mask, which the self-check must find.
    """
    lines: list[list[int]] = []
    for node, parent in enumerate(parents):
        assert -1 <= parent < node, f"node {node} has parent {parent}; parents come before children"
        lines.append([*(lines[parent] if parent >= 0 else ()), node])
    depth = max(map(len, lines[first:])) - 1
    if not ancestors_only:
        lines = [list(range(node + 1)) for node in range(len(parents))]
    counts = np.array([len(line) for line in lines[first:]], dtype=np.int32)
    nodes = np.zeros((len(counts), counts.max()), dtype=np.int32)
    for row, line in enumerate(lines[first:]):
        nodes[row, : len(line)] = line
    return Ancestors(nodes, counts, depth)


def tree_rows(kv: Tensor, length: int, first: int, ancestors: Ancestors) -> RowTable:
    """The `RowTable` of pending nodes behind a prefix of `length` tokens.

    kv: the cache, [layers, 2 x key-value heads, capacity, head size] float32. The nodes' keys and values are
    written to its places `first`, first + 1, ...
    """
    nodes = ancestors.nodes
    table = _table(kv, first, len(ancestors.counts))
    table["prefix"] = length
    table["line"] = np.arange(0, nodes.nbytes, nodes.strides[0]) + nodes.ctypes.data
    table["count"] = ancestors.counts
    return RowTable(table, length + nodes.shape[1], (kv, ancestors))


def prompt_rows(kv: Tensor, first: int, count: int) -> RowTable:
    """The `RowTable` of `count` prompt tokens at places from `first` on; each attends to all up to itself."""
    table = _table(kv, first, count)
    table["prefix"] = np.arange(first + 1, first + 1 + count)
    return RowTable(table, first + count, (kv,))


def _table(kv: Tensor, first: int, count: int) -> np.ndarray:
    table = np.zeros(count, dtype=at.ROW)
    table["cache"] = kv.data_ptr()
    table["capacity"] = kv.shape[2]
    table["place"] = np.arange(first, first + count)
    return table


class CompiledDecoder:
    """A Llama, Mistral, Qwen 2 or Qwen 3 whose forward pass is one compiled call.

    Sums, cache and logits are float32, whatever the type of the weights. kv_shape: see `LeanDecoder`. kind:
    the type of the packed weights. stored: the `packed_tensors` of this model from an earlier run; None packs
    its weights now. ValueError if the compiled forward pass is missing or does not support the model.
    """

    def __init__(self, model: transformers.PreTrainedModel, stored: Mapping[str, Tensor] | None = None):
        check_known(model)
        if stored is None and not has_room(model):
            raise ValueError("there is no memory for a packed copy of the weights")
        embedding = model.get_input_embeddings().weight
        if embedding.device.type != "cpu" or embedding.dtype not in DTYPES:
            raise ValueError("the compiled forward pass needs weights on a CPU, of at most 32 bits each")
        matrices = [m.weight.detach() for m in model.modules() if isinstance(m, nn.Linear)]
        self.kind = kind_of(matrices)
        even = not any(matrix.shape[1] % 2 for matrix in matrices)
        if self.kind == "bfloat16" and embedding.dtype == torch.bfloat16 and even:
            self.kind = at.PAIRS
        self._embedding, self._stored_weights, self._matrices = embedding, stored, list[Packed]()
        self._set_up(model)

    def _set_up(self, model: Any) -> None:
        """Take sizes and rotary angles from a model or an `Outline`, and pack its matrices."""
        config, layers, attention = model.config, model.model.layers, model.model.layers[0].self_attn
        if len(layers) > MOST_LAYERS:
            raise ValueError(f"the compiled forward pass has at most {MOST_LAYERS} layers, not {len(layers)}")
        if config.hidden_act != "silu":
            raise ValueError(f"the compiled forward pass supports only silu, not {config.hidden_act!r}")
        threads = crew()
        if threads is None:
            raise ValueError("the compiled forward pass is not available")
        self._crew = threads
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.size = attention.head_dim
        self.kv_shape = (len(layers), 2 * self.kv_heads, self.size)
        self.width, self.inner = model.model.norm.weight.shape[0], layers[0].mlp.gate_proj.weight.shape[0]
        self._output, self.scored_ids = model.lm_head, model.lm_head.weight.shape[0]
        self._rotary = model.model.rotary_emb
        self._owners: list[Tensor | np.ndarray] = []
        self._plan = self._planned(model, attention.scaling)
        self._rotation, self._growing = _floats(0), threading.Lock()

    def _extend_rotation(self, count: int) -> None:
        """Make sure that the rotary table (cosines and sines) covers at least the first `count` positions."""
        with self._growing:  # of tables that two threads make, the larger one must stay
            if count <= len(self._rotation):
                return
            count = max(512, 1 << (count - 1).bit_length())
            cos, sin = self._rotary(_floats(1), torch.arange(count)[None])
            sign = torch.tensor([-1.0, 1.0], dtype=torch.float32).repeat_interleave(self.size // 2)
            # A forward pass in another thread may still read the former table.
            self._owners.append(self._rotation)
            self._rotation = torch.stack([cos[0], sin[0] * sign], 1).contiguous()
            self._plan["rotation"] = self._rotation.data_ptr()

    def _planned(self, model: Any, scaling: float) -> np.ndarray:
        layers = np.array([self._layer(layer) for layer in model.model.layers], dtype=at.LAYER)
        self._owners.append(layers)
        return _record(
            at.PLAN,
            width=self.width,
            heads=self.heads,
            kv_heads=self.kv_heads,
            size=self.size,
            inner=self.inner,
            scale=self._float([scaling]),
            attend=self._crew.attend(self.size),
            layers=len(layers),
            layer_table=layers.ctypes.data,
            norm=self._norm(model.model.norm),
            head=self._product([model.lm_head]),
        )

    def _layer(self, layer: Any) -> tuple:
        """The values of a `layout.LAYER` record."""
        attention, mlp = layer.self_attn, layer.mlp
        q_norm, k_norm = (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
        norms = (layer.input_layernorm, q_norm, k_norm, layer.post_attention_layernorm)
        return (
            *map(self._norm, norms),
            self._product([attention.q_proj, attention.k_proj, attention.v_proj]),
            self._product([attention.o_proj]),
            self._product([mlp.gate_proj, mlp.up_proj], gated=True),
            self._product([mlp.down_proj]),
        )

    def _norm(self, norm: Any) -> int:
        return 0 if norm is None else self._float([*norm.weight.tolist(), norm.variance_epsilon])

    def _float(self, numbers: Sequence[float]) -> int:
        tensor = torch.tensor(numbers, dtype=torch.float32)
        self._owners.append(tensor)
        return tensor.data_ptr()

    def _product(self, linears: Sequence[nn.Linear], gated: bool = False) -> int:
        """The address of the first `layout.MATRIX` record for the product with these linear layers.

        gated: whether the layers are a gate and an up projection, combined as silu(gate) * up.
        """
        return self._records([self._matrix(linear) for linear in linears], gated)

    def _records(self, matrices: Sequence[tuple[Packed, str, int]], gated: bool) -> int:
        """The address of a product's first `layout.MATRIX`. matrices: (matrix, type of weights, `limit`)."""
        records = np.zeros(len(matrices), dtype=at.MATRIX)
        column = 0
        for record, (packed, kind, limit) in zip(records, matrices, strict=True):
            fields = packed.record(kind, self._crew.multiply(kind))
            fields |= {"column": column, "limit": limit, "strips": -(-packed.outputs // at.STRIP)}
            for name, value in fields.items():
                record[name] = value
            column += limit
            self._owners += [part for part in packed if part is not None]
        records["next"][:-1] = records.ctypes.data + np.arange(1, len(records)) * records.itemsize
        records["all_strips"] = records["strips"][:1] if gated else records["strips"].sum()
        self._owners.append(records)
        return records.ctypes.data

    def _matrix(self, linear: nn.Linear) -> tuple[Packed, str, int]:
        """A linear layer's matrix, the type of its weights, and the `limit` of its record."""
        if self._stored_weights is None:
            bias = None if linear.bias is None else linear.bias.detach()
            packed = pack(linear.weight.detach(), bias, self.kind)
        else:
            number = len(self._matrices)
            packed = Packed(*(self._stored_weights.get(f"{number}.{part}") for part in Packed._fields))
        self._matrices.append(packed)
        return packed, self.kind, self._limit(linear, packed)

    def _limit(self, linear: nn.Linear, packed: Packed) -> int:
        """How many outputs are written to the result: those without padding; for the output layer, all."""
        return packed.outputs if linear is self._output else linear.weight.shape[0]

    def packed_tensors(self) -> dict[str, Tensor]:
        """The tensors of all packed matrices, named by matrix number and part, such as "0.weights"."""
        return {
            f"{number}.{name}": part
            for number, packed in enumerate(self._matrices)
            for name, part in packed._asdict().items()
            if part is not None
        }

    @one_thread()  # torch's threads would take processors from the compiled call's helper threads
    def forward(self, token_ids: Tensor, texts: Sequence[RowTable], scored: int) -> Tensor:
        """Logits [scored, vocabulary] float32 of the first `scored` tokens; keys and values go to the caches.

        token_ids: int64 [n], the new tokens of all texts, one text after the other.
        """
        table = texts[0].table if len(texts) == 1 else np.concatenate([text.table for text in texts])
        longest = max(text.longest for text in texts)
        self._extend_rotation(longest)
        x = self._embedded(token_ids)
        return self._logits(x, self._run(self._plan, x, scored, self._columns, table, longest))

    def _run(
        self, plan: np.ndarray, x: Tensor, scored: int, columns: int, table: np.ndarray, longest: int
    ) -> Tensor:
        """Run the compiled forward pass on embeddings x [rows, width]; return logits [scored, columns].

        Afterwards x is the output of the last layer. plan: a `layout.PLAN`. table, longest: see `RowTable`.
        """
        rows = len(x)
        out = _floats(scored, columns)
        threads = usual_threads() if self.nbytes * rows > ALONE else 1
        between, own = self._sizes(rows, longest)
        scratch = _floats(between + threads * own)
        call = _record(
            at.CALL,
            plan=plan.ctypes.data,
            rows=rows,
            x=x.data_ptr(),
            table=table.ctypes.data,
            logits=out.data_ptr(),
            scored=scored,
            scratch=scratch.data_ptr(),
            own=scratch.data_ptr() + 4 * between,
            own_bytes=4 * own,
            threads=threads,
        )
        self._crew.run(call.ctypes.data, threads, self.kv_shape[0])
        return out

    @property
    def _columns(self) -> int:
        """The number of logits that a call writes for a token: `scored_ids`, rounded up to whole blocks."""
        return self.scored_ids + -self.scored_ids % at.LANES

    def _logits(self, x: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002  # `FrequentFirst` needs x
        """Logits [scored, vocabulary]. x [rows, width], logits [scored, columns]: the results of `_run`."""
        return spread(logits[:, : self.scored_ids], self._output)

    def _embedded(self, token_ids: Tensor) -> Tensor:
        """Embeddings of tokens, float32 [n, width], in new memory, which the forward pass overwrites."""
        return F.embedding(token_ids, self._embedding).float()

    def _sizes(self, rows: int, longest: int) -> tuple[int, int]:
        """Sizes of scratch memory, in float32 numbers: the shared part, and each thread's own part."""
        columns = (self.heads + 2 * self.kv_heads) * self.size
        between = rows * (columns + self.heads * self.size + self.inner)
        # room for a norm's results and their rounded copy, or for another product's rounded inputs
        inputs = max(2 * self.width, self.heads * self.size, self.inner)
        own = max(rows * (2 * at.PART + inputs), longest, self.size)
        return _in_lines(between), _in_lines(own)

    @property
    def rounded(self) -> str:
        """The types of the numbers in matrix products, in words."""
        return "bfloat16 weights and inputs" if self.kind == at.PAIRS else f"{self.kind} weights"

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the packed weights, of the norms, and of the records that describe them."""
        return sum(part.nbytes for part in self._owners)


def _floats(*shape: int) -> Tensor:
    """Uninitialised memory for float32 numbers. The dtype is stated, because transformers changes torch's
    default dtype for the whole process while another thread loads a model."""
    return torch.empty(*shape, dtype=torch.float32)


def _record(dtype: np.dtype, **fields: Any) -> np.ndarray:
    """An array of one record [1] with these values; its other fields are 0."""
    record = np.zeros(1, dtype=dtype)
    for name, value in fields.items():
        record[name] = value
    return record


def _in_lines(count: int) -> int:
    return -(-count // _LINE) * _LINE
