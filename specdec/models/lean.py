"""The lean forward pass: that of Llama-like decoders in fewer calls, with the same mathematics and weights.

A forward pass of a small model over a few tokens spends most of its time in calls of modules. `LeanDecoder`
takes the weights of a Llama, Mistral, Qwen 2 or Qwen 3 of transformers and scores pending nodes with about
twenty operations per layer. The self-check compares its logits with those of the model itself. If a
`LeanDecoder` can't be built or fails the check, sessions call the model itself.

On a CPU the matrices are packed for oneDNN; those of query, key and value become one matrix. Five tokens then
cost little more than one. A call of oneDNN takes some 15 microseconds for a matrix of any size, so small
float32 matrices are only transposed. These copies take as much memory as the weights, and are not made if
there is no room. On a GPU, query, key and value may become parts of one matrix, and so may gate and up.
Copies and joined matrices miss later changes of the weights; `HFModel.refresh` makes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from specdec.models import free_memory
from specdec.models.attention import Attention, TextRows
from specdec.models.partial_head import PartialHead, spread

KNOWN = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
"""Names of the classes in transformers that `LeanDecoder` can replace."""
FIXED_ROPE = {"default", "linear", "llama3", "yarn"}
"""Types of rotary embeddings whose angles depend on the position alone, not on the length of the text."""
PACKED_DTYPES = ("float32", "bfloat16")
"""Dtypes whose matrices are packed for oneDNN; bfloat16 only if the processor can multiply it."""
LARGEST_TRANSPOSED = 1 << 20
"""Matrices of at most this many entries are transposed, not packed: they are faster without oneDNN's call."""

Project = Callable[[Tensor], Tensor]


class LeanLayer(NamedTuple):
    """One decoder layer as functions, in the order of their use. Only Qwen 3 has query and key norms."""

    attention_norm: Project
    qkv: Project
    q_norm: Project | None
    k_norm: Project | None
    out: Project
    mlp_norm: Project
    gate_up: Project
    act: Callable[[Tensor], Tensor]
    down: Project


class LeanDecoder:
    """A decoder's weights, and its forward pass over nodes of a tree under a mask.

    kv_shape: (layers, 2 x key-value heads, head size), the shape of a token in the cache. packed: whether it
    has copies of the weights, in oneDNN's order or transposed. joins: whether linear layers with the same
    input become parts of one matrix, which moves the module's own weights in memory. embedding: [ids,
    width]. blocks: the model's own layers. layers: their parts as functions. graphs: CUDA graphs of the
    forward pass, which the module `graphs` adds on a GPU; if None, kernels are launched one by one.
    Raises the errors of `check_known`.
    """

    def __init__(self, model: transformers.PreTrainedModel, joins: bool = False):
        check_known(model)
        config = model.config
        decoder: Any = model.model  # a class of `KNOWN`, whose parts have no types
        attention = decoder.layers[0].self_attn
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.size, self.scale = attention.head_dim, attention.scaling
        self.kv_shape = (config.num_hidden_layers, 2 * self.kv_heads, self.size)
        self.embedding: Tensor = decoder.embed_tokens.weight
        self._rotary = decoder.rotary_emb
        self._rotation = self.embedding.new_empty(0, 2, 1, self.size)
        pack = self.packed = _packs(model)
        self._norm = _norm(decoder.norm, pack)
        self.blocks: Sequence[Any] = decoder.layers
        self.layers = [_lean_layer(layer, pack, joins) for layer in decoder.layers]
        self._output = model.lm_head
        self._head = _projection([model.lm_head], pack)
        self.graphs: Any = None  # a `graphs.Graphs`; that module imports this one

    def hidden(self, token_ids: Tensor, rotation: Tensor, texts: Sequence[TextRows]) -> Tensor:
        """Hidden states [n, width] of the new tokens of several texts, one text after the other.

        All tokens share each matrix product; each text has its own attention. Keys and values are written to
        the caches. token_ids: [n]. rotation: [n, 2, 1, head size], from the method `rotation`.
        """
        n, width = len(token_ids), self.heads + self.kv_heads
        cos, sin = rotation.unbind(1)
        x = F.embedding(token_ids, self.embedding)
        attention = Attention(self.heads, self.kv_heads, self.scale, texts)
        for number, layer in enumerate(self.layers):
            qkv = layer.qkv(layer.attention_norm(x)).view(n, -1, self.size)
            normed = _normed(layer, qkv, self.heads, width)
            # Rotation by halves: the first half of the sines carries the minus sign.
            torch.addcmul(normed * cos, normed.roll(self.size // 2, -1), sin, out=qkv[:, :width])
            x = x + layer.out(attention(number, qkv.transpose(0, 1)).reshape(n, -1))
            gate, up = layer.gate_up(layer.mlp_norm(x)).chunk(2, -1)
            x = x + layer.down(layer.act(gate) * up)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [n, vocabulary] from the last layer's hidden states [n, width]."""
        return spread(self._head(self._norm(hidden)), self._output)

    def rotation(self, positions: Tensor, last: int) -> Tensor:
        """The rows of `rotations` for these positions, int64 [n], none above `last`: [n, 2, 1, head size]."""
        return self.rotations(last).index_select(0, positions)

    def rotations(self, last: int) -> Tensor:
        """Cosines and sines (first half negated) of positions 0 to at least `last`, [t, 2, 1, head size]."""
        table = self._rotation
        if last >= len(table):
            # Another thread may replace the table by a shorter one, so the attribute is not read again.
            self._rotation = table = self._all_rotations(max(512, 1 << last.bit_length()))
        return table

    def _all_rotations(self, count: int) -> Tensor:
        device = self.embedding.device
        cos, sin = self._rotary(self.embedding[:1], torch.arange(count, device=device)[None])
        sign = torch.ones(self.size, dtype=sin.dtype, device=device)
        sign[: self.size // 2] = -1
        return torch.stack([cos[0], sin[0] * sign], 1)[:, :, None]


def _norm(module: Any, pack: bool) -> Project:
    """A function that computes this RMSNorm with as few operations as possible."""
    weight, eps = module.weight, module.variance_epsilon
    if weight.dtype == torch.float64:
        return module  # the model's own norm, which rounds to float32
    if not pack or weight.dtype != torch.float32:
        return lambda x: F.rms_norm(x, weight.shape, weight, eps)
    # x / sqrt(mean of squares + eps) by way of the norm of x: on a CPU, rms_norm takes three times as long
    width = weight.shape[-1]
    scaled, floor = weight.detach() * width**0.5, torch.tensor((width * eps) ** 0.5, dtype=torch.float32)
    return lambda x: (x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).hypot_(floor)).mul_(scaled)


def is_known(model: nn.Module) -> bool:
    """Whether a model's class is in `KNOWN`. A subclass does not count, as it may compute something else."""
    name = type(model).__name__
    return name in KNOWN and type(model) is getattr(transformers, name)


def has_window(config: transformers.PretrainedConfig) -> bool:
    """Whether a model of `KNOWN` has a sliding window that hides tokens from other tokens of the context."""
    if config.model_type == "llama":  # its class ignores windows
        return False
    window = getattr(config, "use_sliding_window", True) and getattr(config, "sliding_window", None)
    slides = "sliding_attention" in (getattr(config, "layer_types", None) or ["sliding_attention"])
    return bool(window) and slides and window < config.max_position_embeddings


def check_known(model: transformers.PreTrainedModel) -> None:
    """ValueError for unknown classes or rotary types, changed modules, and several devices or dtypes."""
    if not is_known(model):
        raise ValueError(f"{type(model).__name__} has no lean forward pass")
    check_rope(model.config)
    matrices = [m for m in model.modules() if getattr(getattr(m, "weight", None), "ndim", 0) == 2]
    strange = [m for m in matrices if type(m) not in (nn.Linear, nn.Embedding, PartialHead)]
    # Hooks change the computation, and so does a `forward` that was set on one module.
    changed = any({"_hf_hook", "forward"} & vars(m).keys() or m._forward_hooks for m in model.modules())
    if strange or changed or len({layer.self_attn.scaling for layer in model.model.layers}) != 1:
        raise ValueError("the model has modules that are not its class's own")
    if len({(p.device, p.dtype) for p in model.parameters()}) != 1:
        raise ValueError("the model lies on several devices or in several dtypes")


def check_rope(config: transformers.PretrainedConfig) -> None:
    """ValueError for a rotary embedding that is not in `FIXED_ROPE`."""
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rope not in FIXED_ROPE:
        raise ValueError(f"rotary embedding {rope!r} changes with the length of the text")


def _packs(model: transformers.PreTrainedModel) -> bool:
    """Whether the weights are copied and packed for oneDNN."""
    weight = model.lm_head.weight
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    if str(weight.dtype).removeprefix("torch.") not in PACKED_DTYPES:
        return False
    return has_room(model)


def has_room(model: transformers.PreTrainedModel) -> bool:
    """Whether a second copy of a model's weights fits into main memory, with half its size to spare."""
    return 1.5 * sum(p.numel() * p.itemsize for p in model.parameters()) <= free_memory.free("cpu")


def _lean_layer(layer: Any, pack: bool, joins: bool) -> LeanLayer:
    attention, mlp = layer.self_attn, layer.mlp
    q_norm, k_norm = (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
    return LeanLayer(
        attention_norm=_norm(layer.input_layernorm, pack),
        qkv=_projection([attention.q_proj, attention.k_proj, attention.v_proj], pack, joins),
        q_norm=q_norm and _norm(q_norm, pack),
        k_norm=k_norm and _norm(k_norm, pack),
        out=_projection([attention.o_proj], pack),
        mlp_norm=_norm(layer.post_attention_layernorm, pack),
        gate_up=_projection([mlp.gate_proj, mlp.up_proj], pack, joins),
        act=mlp.act_fn,
        down=_projection([mlp.down_proj], pack),
    )


def _projection(linears: Sequence[nn.Linear], pack: bool, joins: bool = False) -> Project:
    """A function that applies all these layers to one input and concatenates their outputs."""
    first, *others = linears
    if not pack and not others:  # no `first(x)`: a `PartialHead` would return all ids' logits
        return lambda x: F.linear(x, first.weight, first.bias)
    if not pack and not joins:
        return lambda x: torch.cat([F.linear(x, each.weight, each.bias) for each in linears], -1)
    with torch.inference_mode(False), torch.no_grad():  # joined weights can be trained
        weight = torch.cat([each.weight for each in linears])
        bias = None if first.bias is None else torch.cat([each.bias for each in linears])
        if pack:
            return (_transposed if better_transposed(weight.shape, weight.dtype) else _packed)(weight, bias)
        _share(linears, "weight", weight)
        if bias is not None:
            _share(linears, "bias", bias)
    return lambda x: F.linear(x, weight, bias)


def _share(linears: Sequence[nn.Linear], name: str, joined: Tensor) -> None:
    """Makes these parameters parts of the joined tensor, so that they take no memory of their own."""
    for each, part in zip(linears, joined.split([len(each.weight) for each in linears]), strict=True):
        parameter = getattr(each, name)
        if not parameter.is_inference():  # the data of an inference tensor can't be replaced
            # DLPack gives each part its own storage; a shared storage would be saved as if weights were tied.
            parameter.data = torch.from_dlpack(part)


def better_transposed(shape: Sequence[int], dtype: torch.dtype) -> bool:
    """Whether it is faster for a few tokens to transpose a matrix of this shape than to pack it for oneDNN.

    Only shape and dtype decide: a choice by measurement would vary, and with it the last bits of the logits.
    Measured with AVX2 and AVX-512, on one thread and two, for 1 and 5 tokens: transposing is 0.9 to 12 times
    as fast in float32 up to `LARGEST_TRANSPOSED`, and 0.3 to 1 times in bfloat16 (64 x 64: 1.5 times).
    """
    return dtype == torch.float32 and shape[0] * shape[1] <= LARGEST_TRANSPOSED


def _packed(weight: Tensor, bias: Tensor | None) -> Project:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    run = torch.ops.mkldnn._linear_pointwise.default
    return lambda x: run(x, packed, bias, "none", [], "")


def _transposed(weight: Tensor, bias: Tensor | None) -> Project:
    transposed = weight.t().contiguous()
    if bias is None:
        return lambda x: torch.mm(x, transposed)
    return lambda x: torch.addmm(bias, x, transposed)


def _normed(layer: LeanLayer, qkv: Tensor, heads: int, width: int) -> Tensor:
    """Queries and keys [n, heads, head size], normalised if the model has query and key norms (Qwen 3)."""
    if layer.q_norm is None or layer.k_norm is None:
        return qkv[:, :width]
    return torch.cat([layer.q_norm(qkv[:, :heads]), layer.k_norm(qkv[:, heads:width])], 1)
