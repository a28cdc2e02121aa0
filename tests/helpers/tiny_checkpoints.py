"""Tiny models of many families with random weights, in memory or as Hugging Face folders."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import torch
import transformers

from specdec.models.shrink import draw_matrices

VOCAB_SIZE = 61
WINDOW = 8
"""Sliding window of the families that have one; tests use longer prefixes."""

_LLAMA_LIKE = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "pad_token_id": None,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GPT_LIKE = {"vocab_size": VOCAB_SIZE, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
_SMALL = _GPT_LIKE | {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
}
_ALTERNATING = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}

FAMILIES: dict[str, tuple[str, dict]] = {
    "llama": ("Llama", _LLAMA_LIKE),
    "qwen3": ("Qwen3", _LLAMA_LIKE),
    "mistral": ("Mistral", _LLAMA_LIKE | {"sliding_window": WINDOW}),
    "phi3": ("Phi3", {k: v for k, v in _LLAMA_LIKE.items() if k != "head_dim"}),
    "gemma2": ("Gemma2", _LLAMA_LIKE | _ALTERNATING | {"query_pre_attn_scalar": 8}),
    "gemma3": ("Gemma3Text", _LLAMA_LIKE | _ALTERNATING | {"query_pre_attn_scalar": 8}),
    "gpt2": ("GPT2", _GPT_LIKE | {"n_positions": 512, "n_embd": 32, "n_layer": 3, "n_head": 4}),
    "opt": ("OPT", _SMALL | {"word_embed_proj_dim": 32, "ffn_dim": 48, "pad_token_id": 0}),
    "gpt_neox": ("GPTNeoX", _SMALL),
    "gpt_neo": (
        "GPTNeo",
        _GPT_LIKE
        | {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 512}
        | {"attention_types": [[["global", "local"], 1]], "window_size": WINDOW},
    ),
    "mpt": ("Mpt", _GPT_LIKE | {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 512}),
    "bloom": ("Bloom", _GPT_LIKE | {"hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "lfm2": (
        "Lfm2",
        _LLAMA_LIKE
        | {
            "pad_token_id": 0,
            "block_auto_adjust_ff_dim": False,
            "layer_types": ["conv", "full_attention", "conv"],
        },
    ),
    "qwen3_next": (
        "Qwen3Next",
        _LLAMA_LIKE
        | {
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "num_experts": 0,
            "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        },
    ),
    "mamba2": (
        "Mamba2",
        _GPT_LIKE
        | {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_heads": 8,
            "head_dim": 8,
            "n_groups": 2,
            "state_size": 8,
            "chunk_size": 16,
            "pad_token_id": 0,
        },
    ),
    "mamba": (
        "Mamba",
        _GPT_LIKE | {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "pad_token_id": 0},
    ),
}
"""Name -> the family's class prefix in transformers and the sizes of its tiny model."""


def tiny_config(family: str, **changes) -> transformers.PreTrainedConfig:
    """The configuration of a tiny model. `changes` replace its entries."""
    prefix, entries = FAMILIES[family]
    return getattr(transformers, f"{prefix}Config")(**(entries | changes))


def tiny_model(
    family: str, dtype: torch.dtype = torch.float32, seed: int = 0, **changes
) -> transformers.PreTrainedModel:
    """A model with weights so large that its logits depend strongly on the tokens that it attends to."""
    config = tiny_config(family, **changes)
    prefix = FAMILIES[family][0].removesuffix("Text")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _causal_class(prefix)(config)
        draw_matrices(model)
    return model.to(dtype).eval()


@torch.no_grad()
def noisy(model: transformers.PreTrainedModel, noise: float) -> transformers.PreTrainedModel:
    """A draft for a model: its copy with normal noise in the matrices, as a share of their spread."""
    draft, generator = copy.deepcopy(model), torch.Generator().manual_seed(0)
    for weight in draft.parameters():
        if weight.dim() >= 2:
            normal = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
            weight.add_(normal * weight.std() * noise)
    return draft


def save_checkpoint(
    folder: Path, family: str, dtype: torch.dtype = torch.float32, seed: int = 0, tokenizer=None, **changes
) -> Path:
    """Save a model as a folder for `from_pretrained`, also its tokenizer if one is given, whose size is then
    that of the vocabulary. Returns the folder."""
    if tokenizer is not None:
        changes = {"vocab_size": len(tokenizer)} | changes
        tokenizer.save_pretrained(folder)
    tiny_model(family, dtype, seed, **changes).save_pretrained(folder)
    return folder


def change_config(folder: Path, **changes) -> None:
    """Change entries of a saved model's config.json."""
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))


def _causal_class(prefix: str) -> type[transformers.PreTrainedModel]:
    name = "GPT2LMHeadModel" if prefix == "GPT2" else f"{prefix}ForCausalLM"
    return getattr(transformers, name)
