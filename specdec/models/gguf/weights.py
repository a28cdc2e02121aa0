"""A GGUF file's tensors by transformers' names, and the model's configuration.

This module reads Llama, Mistral, Qwen 2 and Qwen 3. `conversion` reads other architectures with transformers'
own reader, which takes ten times as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from transformers import PreTrainedConfig

from specdec.models.gguf.fields import PLAIN, rows_of
from specdec.models.gguf.header import BrokenFileError, Header
from specdec.models.memory import tensor_shapes

CONFIGS = {"llama": "LlamaConfig", "qwen2": "Qwen2Config", "qwen3": "Qwen3Config"}
"""transformers' configuration classes by llama.cpp's architectures; Mistral's architecture is "llama" too."""
_TOKENS = {"bos": "bos", "eos": "eos", "pad": "padding"}
_ROPE_FACTORS = "rope_freqs.weight"
_YARN = {
    "yarn_beta_fast": "beta_fast",
    "yarn_beta_slow": "beta_slow",
    "yarn_attn_factor": "attention_factor",
    "yarn_log_multiplier": "mscale_all_dim",
}
_LLAMA3_CONTEXT, _LLAMA3_FACTORS = 8192, (8.0, 32.0)
"""The context and the factors of Llama 3.1 and 3.2. A GGUF file only has the divisors computed from them."""


def config_of(path: Path, header: Header) -> PreTrainedConfig:
    """The configuration that a file's keys describe. BrokenFileError if a key is missing or not a number."""
    keys, kind = header.keys, header.architecture
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    number = partial(_number, header)
    _check_sizes(header, number)
    heads, width = number("attention.head_count"), number("embedding_length")
    head_size = number("attention.key_length", number("rope.dimension_count", width // heads))
    ids = {f"{name}_token_id": keys.get(f"tokenizer.ggml.{key}_token_id") for name, key in _TOKENS.items()}
    entries: dict[str, Any] = dict(
        vocab_size=shapes["token_embd.weight"][0],
        hidden_size=width,
        intermediate_size=number("feed_forward_length"),
        num_hidden_layers=number("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=number("attention.head_count_kv", heads),
        head_dim=head_size,
        max_position_embeddings=number("context_length"),
        rms_norm_eps=number("attention.layer_norm_rms_epsilon"),
        rope_parameters=_rope(path, header, number, head_size),
        tie_word_embeddings="output.weight" not in shapes,
        architectures=[CONFIGS[kind].replace("Config", "ForCausalLM")],
        dtype=dtype_of(header),
        **ids,
    )
    if kind == "llama":
        entries["attention_bias"] = "blk.0.attn_q.bias" in shapes
    return getattr(transformers, CONFIGS[kind])(**entries)


def _number(header: Header, name: str, default: Any = None) -> Any:
    """The value of key "ARCHITECTURE.name", or `default` without it. BrokenFileError if it is no number."""
    key = f"{header.architecture}.{name}"
    value = header.keys.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BrokenFileError(f"has {key} = {value!r:.40}, where a number belongs")
    return value


def _check_sizes(header: Header, number: Callable[[str], Any]) -> None:
    """BrokenFileError for a file with experts, without an embedding, or with sizes that no model can have."""
    layers, context = number("block_count"), number("context_length")
    heads, width = number("attention.head_count"), number("embedding_length")
    if header.keys.get(f"{header.architecture}.expert_count"):
        raise BrokenFileError("holds a mixture of experts of the Llama kind, which is not supported")
    if all(tensor.name != "token_embd.weight" for tensor in header.tensors):
        raise BrokenFileError("has no embedding (token_embd.weight)")
    if layers > len(header.tensors):
        raise BrokenFileError(f"claims {layers:,} layers, but has only {len(header.tensors):,} tensors")
    if context < 1:
        raise BrokenFileError(f"has a context of {context} tokens")
    if heads < 1 or width < 1 or layers < 1:
        raise BrokenFileError(f"has {layers} layers, {heads} attention heads and the width {width}")
    _check_positive(header, "attention.layer_norm_rms_epsilon", number("attention.layer_norm_rms_epsilon"))


def _check_positive(header: Header, name: str, value: float) -> None:
    """BrokenFileError if this value of the key "ARCHITECTURE.name" is not a finite number above 0."""
    if not 0 < value < math.inf:
        raise BrokenFileError(f"has {header.architecture}.{name} = {value}, where a number above 0 belongs")


def _rope(path: Path, header: Header, number: Any, head_size: int) -> dict[str, Any]:
    """A configuration's entries for its rotary embedding. BrokenFileError if its type is not supported."""
    theta = float(number("rope.freq_base", 10_000.0))
    if not 1 <= theta < math.inf:
        raise BrokenFileError(
            f"has {header.architecture}.rope.freq_base = {theta}, where a number of at least 1 belongs"
        )
    base: dict[str, Any] = {"rope_type": "default", "rope_theta": theta}
    factor = float(number("rope.scaling.factor", number("rope.scale_linear", 1.0))) or 1.0
    _check_positive(header, "rope.scaling.factor", factor)
    # a factor without a kind of scaling means linear scaling
    key = f"{header.architecture}.rope.scaling.type"
    scaling = header.keys.get(key, "linear")
    if scaling not in ("none", "linear", "yarn"):
        raise BrokenFileError(f"has {key} = {scaling!r:.40}; supported: none, linear and yarn")
    factors_at = next((tensor for tensor in header.tensors if tensor.name == _ROPE_FACTORS), None)
    if factors_at is not None and (scaling == "yarn" or factor != 1.0):
        raise BrokenFileError(
            f"scales its positions by {scaling} and by {_ROPE_FACTORS}; only one of them is supported"
        )
    if scaling == "yarn":
        return base | _yarn(number, factor)
    if scaling == "linear" and factor != 1.0:
        return base | {"rope_type": "linear", "factor": factor}
    if factors_at is None:
        return base
    if factors_at.type != "F32" or factors_at.shape != (head_size // 2,):
        raise BrokenFileError(f"has {_ROPE_FACTORS} of type {factors_at.type} and shape {factors_at.shape}")
    factors = np.memmap(path, "<f4", "r", factors_at.start, factors_at.shape)
    return base | _llama3(theta, torch.from_numpy(factors.copy()))


def _yarn(number: Any, factor: float) -> dict[str, Any]:
    """YaRN's entries of a configuration. transformers computes a missing attention factor from `factor`."""
    original = int(number("rope.scaling.original_context_length", number("context_length")))
    entries = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
    for key, name in _YARN.items():
        if value := number(f"rope.scaling.{key}", 0):
            entries[name] = float(value)
    if "mscale_all_dim" in entries:
        entries["mscale"] = 1.0  # transformers uses mscale / mscale_all_dim
    return entries


def _llama3(theta: float, factors: torch.Tensor) -> dict[str, Any]:
    """A configuration's entries for the rotary embedding of Llama 3.1 and 3.2.

    factors: [head size / 2], the file's divisors of frequencies. BrokenFileError if no Llama 3 has them.
    """
    wavelengths = 2 * torch.pi * theta ** (torch.arange(len(factors), dtype=torch.float32) / len(factors))
    low, high = 1.0, 4.0
    for factor in _LLAMA3_FACTORS:
        smooth = ((_LLAMA3_CONTEXT / wavelengths - low) / (high - low)).clamp(0, 1)
        if torch.allclose(1 / ((1 - smooth) / factor + smooth), factors.float(), rtol=1e-3):
            return {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low,
                "high_freq_factor": high,
                "original_max_position_embeddings": _LLAMA3_CONTEXT,
            }
    raise BrokenFileError(f"has factors of its positions ({_ROPE_FACTORS}) that no Llama 3 has")


def dtype_of(header: Header) -> torch.dtype:
    """The dtype of converted matrices: that of the file if all are float32 or all float16, else bfloat16."""
    types = {tensor.type for tensor in header.tensors if len(tensor.shape) > 1}
    own = {"F32": torch.float32, "F16": torch.float16}
    return own.get(next(iter(types)), torch.bfloat16) if len(types) == 1 else torch.bfloat16


def names_of(header: Header, config: PreTrainedConfig) -> dict[str, str]:
    """For each tensor of a model with this configuration: its name in a GGUF file, and transformers' name.

    BrokenFileError if the file has a tensor that is not in the model. `check_shapes` finds missing tensors.
    """
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    kind = next(kind for kind, name in MODEL_ARCH_NAMES.items() if name == header.architecture)
    name_map = get_tensor_name_map(kind, config.num_hidden_layers)
    names = {str(name_map.get_name(name, (".weight", ".bias"))): name for name in tensor_shapes(config)}
    for tensor in header.tensors:
        if tensor.name not in names and tensor.name != _ROPE_FACTORS:
            raise BrokenFileError(
                f"holds {tensor.name!r}; its keys describe a {header.architecture} model without it"
            )
    return names


def check_shapes(have: Mapping[str, tuple[int, ...]], config: PreTrainedConfig) -> None:
    """BrokenFileError if these tensors' names or shapes are not those of a model with this configuration."""
    expected = tensor_shapes(config)
    for name in sorted(expected.keys() | have.keys()):
        if name not in have:
            raise BrokenFileError(f"lacks {name}, which its configuration describes")
        if expected.get(name) != have[name]:
            described = expected.get(name, "no such tensor")
            raise BrokenFileError(
                f"has {name} of shape {have[name]}; its configuration describes a model with {described}"
            )


class Stored(NamedTuple):
    """A tensor as bytes of a GGUF file, or of a safetensors file whose dtype is also a type of GGUF.

    name: transformers' name. type: the GGUF type, such as "F16" or "Q4_K". raw: the bytes of the rows, uint8
    [outputs, bytes of a row]. heads: the number of heads if `rows_in_halves` must reorder rows, else None.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    raw: np.ndarray
    heads: int | None = None

    def values(self) -> torch.Tensor:
        """The tensor's numbers, float32 of shape `shape`, with rows in the order of the file."""
        if self.type in PLAIN:
            return torch.from_numpy(rows_of(self.raw, self.type)).view(self.shape)
        import gguf

        numbers = gguf.quants.dequantize(self.raw, gguf.GGMLQuantizationType[self.type])
        return torch.from_numpy(numbers).view(self.shape)


def stored(path: Path, header: Header, config: PreTrainedConfig) -> Iterator[Stored]:
    """Yields the tensors of a file that the model in transformers has, mapped into memory."""
    names, data = names_of(header, config), np.memmap(path, mode="r")
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for tensor in header.tensors:
        if tensor.name in names:
            raw = data[tensor.start : tensor.start + tensor.nbytes].reshape(tensor.shape[0], -1)
            part = tensor.name.split(".")[-2]
            reordered = heads.get(part) if header.architecture == "llama" else None
            yield Stored(names[tensor.name], tensor.type, tensor.shape, raw, reordered)


def weights_of(path: Path, header: Header, config: PreTrainedConfig) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields (transformers' name, values in the configuration's dtype) for each tensor of a file."""
    for each in stored(path, header, config):
        yield each.name, rows_in_halves(each.values(), each.heads).to(config.dtype).contiguous()


def rows_in_halves(value: torch.Tensor, heads: int | None) -> torch.Tensor:
    """Reorders the rows of each head from llama.cpp's order to that of transformers.

    A rotary embedding rotates pairs of rows. In llama.cpp a pair is two neighbours; in transformers it is row
    i of the first half and row i of the second half. value: [heads x head size, ...]. heads: None leaves the
    rows as they are.
    """
    if heads is None:
        return value
    pairs = value.view(heads, value.shape[0] // heads // 2, 2, *value.shape[1:])
    return pairs.transpose(1, 2).reshape(value.shape)
