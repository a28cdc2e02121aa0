"""The modules of a model whose matrices stay in a file, made without transformers' modelling code.

Importing that code takes two seconds. The self-check compares the logits with those of transformers' modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from specdec.models.lean import check_rope

TYPES = ("llama", "mistral", "qwen2", "qwen3")
"""The `model_type` of the classes in `lean.KNOWN`."""


class Outline(nn.Module):
    """The modules of a Llama, Mistral, Qwen 2 or Qwen 3. It can't be called: its matrices are on "meta".

    small: weights of norms and biases, by their names. ValueError for other models.
    """

    def __init__(self, config: PretrainedConfig, small: Mapping[str, Tensor]):
        super().__init__()
        if config.model_type not in TYPES:
            raise ValueError(f"a {config.model_type} is no Llama, Mistral, Qwen 2 or Qwen 3")
        check_rope(config)
        self.config = config
        with torch.device("meta"):
            # `empty`, because drawing random numbers on "meta" would import torch's compiler
            rows = torch.empty(config.vocab_size, config.hidden_size)
            parts = {
                "embed_tokens": nn.Embedding.from_pretrained(rows),
                "layers": nn.ModuleList(_layer(config) for _ in range(config.num_hidden_layers)),
                "norm": _norm(config),
            }
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.model = nn.ModuleDict(parts | {"rotary_emb": _Rotary(config)})
        for name, tensor in small.items():
            part, _, kind = name.rpartition(".")
            setattr(self.get_submodule(part), kind, nn.Parameter(tensor, requires_grad=False))
        self.eval()

    def get_input_embeddings(self) -> nn.Module:
        """The embedding module. Its matrix is on "meta", so only its shape is known."""
        return self.model["embed_tokens"]


def _layer(config: PretrainedConfig) -> nn.Module:
    width, inner, size = config.hidden_size, config.intermediate_size, head_size(config)
    queries, keys = config.num_attention_heads * size, config.num_key_value_heads * size
    attention: Any = _linears(
        q_proj=(width, queries), k_proj=(width, keys), v_proj=(width, keys), o_proj=(queries, width)
    )
    if config.model_type == "qwen3":
        attention.update({"q_norm": _norm(config), "k_norm": _norm(config)})
    attention.head_dim, attention.scaling = size, size**-0.5
    mlp = _linears(gate_proj=(width, inner), up_proj=(width, inner), down_proj=(inner, width))
    norms = {name: _norm(config) for name in ("input_layernorm", "post_attention_layernorm")}
    return nn.ModuleDict({"self_attn": attention, "mlp": mlp, **norms})


def _linears(**shapes: tuple[int, int]) -> nn.ModuleDict:
    return nn.ModuleDict({name: nn.Linear(*shape, bias=False) for name, shape in shapes.items()})


def _norm(config: PretrainedConfig) -> nn.Module:
    norm: Any = nn.Module()
    norm.variance_epsilon = config.rms_norm_eps
    return norm


class _Rotary(nn.Module):
    """Computes cosines and sines of rotary angles, bit for bit as transformers does."""

    def __init__(self, config: PretrainedConfig):
        super().__init__()
        rope, size = config.rope_parameters, head_size(config)
        if rope["rope_type"] == "default":
            exponents = torch.arange(0, size, 2, dtype=torch.float32) / size
            self.frequencies, self.factor = 1.0 / rope["rope_theta"] ** exponents, 1.0
        else:
            self.frequencies, self.factor = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config)

    def forward(self, _: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [1, n, head size], float32, of positions [1, n]."""
        angles = (positions[..., None].float() * self.frequencies).repeat(1, 1, 2)
        return angles.cos() * self.factor, angles.sin() * self.factor


def head_size(config: PretrainedConfig) -> int:
    """The size of an attention head; 0 for a configuration without sizes."""
    heads = getattr(config, "num_attention_heads", None) or 1
    return getattr(config, "head_dim", None) or getattr(config, "hidden_size", 0) // heads
