"""Checks that a model's configuration has all that a GGUF file's keys say about positions and attention.

These are the keys that begin with `rope.` or `attention.`, and a few others that change logits. A key is
accepted in three cases: the configuration has its value (`ENTRIES`), this value has no effect (`NEUTRAL`), or
the key never has an effect (`IGNORED`). So neither our code nor transformers' reader drops a key silently.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from transformers import PreTrainedConfig

from specdec.models.config_entries import all_entries
from specdec.models.gguf.header import BrokenFileError, Header

_EPSILONS = ("layer_norm_epsilon", "layer_norm_eps", "norm_epsilon", "norm_eps", "rms_norm_eps")
_HEAD = ("head_dim", "global_head_dim", "d_kv")
ENTRIES: dict[str, tuple[str, ...]] = {
    "attention.head_count": ("num_attention_heads", "n_head"),
    "attention.head_count_kv": ("num_key_value_heads", "num_kv_heads"),
    "attention.key_length": _HEAD,
    "attention.value_length": ("v_head_dim", *_HEAD),
    "attention.key_length_swa": ("swa_head_dim", "head_dim"),
    "attention.value_length_swa": ("swa_head_dim", "head_dim"),
    "attention.layer_norm_epsilon": _EPSILONS,
    "attention.layer_norm_rms_epsilon": _EPSILONS,
    "attention.scale": ("attention_multiplier",),
    "attention.clamp_kqv": ("clip_qkv",),
    "attention.sliding_window": ("sliding_window",),
    "attention.shared_kv_layers": ("num_kv_shared_layers",),
    "attention.relative_buckets_count": ("relative_attention_num_buckets",),
    "rope.freq_base": ("rope_theta",),
    "rope.freq_base_swa": ("rope_theta",),
    "rope.dimension_sections": ("mrope_section",),
    "rope.scaling.type": ("rope_type",),
    "rope.scaling.factor": ("factor",),
    "rope.scale_linear": ("factor",),
    "rope.scaling.original_context_length": ("original_max_position_embeddings",),
    "rope.scaling.yarn_beta_fast": ("beta_fast",),
    "rope.scaling.yarn_beta_slow": ("beta_slow",),
    "rope.scaling.yarn_attn_factor": ("attention_factor",),
    "rope.scaling.yarn_log_multiplier": ("mscale_all_dim",),
    "attn_logit_softcapping": ("attn_logit_softcapping",),
    "final_logit_softcapping": ("final_logit_softcapping",),
    "logit_scale": ("logit_scale",),
    "residual_scale": ("residual_multiplier",),
    "embedding_scale": ("embedding_multiplier",),
}
"""For each GGUF key, the names of configuration entries that may hold the key's value."""
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "attention.causal": (True,),
    "attention.head_count": (0,),  # in files of models without attention
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "attention.shared_kv_layers": (0,),
    "rope.scaling.type": ("none",),
    "rope.scaling.factor": (0.0, 1.0),
    "rope.scale_linear": (0.0, 1.0),
    "rope.scaling.alpha": (0.0,),
    "rope.scaling.attn_factor": (1.0,),
    "rope.scaling.yarn_beta_fast": (32.0,),
    "rope.scaling.yarn_beta_slow": (1.0,),
    "rope.scaling.yarn_ext_factor": (1.0,),
    "rope.scaling.yarn_log_multiplier": (0.0,),
}
"""For each GGUF key, the values that have no effect: the model computes as if the key were missing."""
IGNORED = {"rope.scaling.finetuned": "says how the model was trained, not how it computes"}
"""Keys that never change what the model computes, each with the reason."""
_OTHERS = tuple(key for key in ENTRIES if not key.startswith(("rope.", "attention.")))


def check_keys(header: Header, config: PreTrainedConfig) -> None:
    """Raise BrokenFileError for the first key that affects the computation and is not in `config`."""
    entries = [each for each in all_entries(config.to_dict()) if not isinstance(each[1], dict)]
    if not any(name == "head_dim" and value for name, value in entries):
        width, heads = getattr(config, "hidden_size", 0), getattr(config, "num_attention_heads", 0)
        entries += [("head_dim", width // heads)] if heads else []
    start = f"{header.architecture}."
    for name, value in header.keys.items():
        key = name.removeprefix(start)
        if key == name or not (key.startswith(("rope.", "attention.")) or key in _OTHERS):
            continue
        if key in IGNORED or any(_same(value, neutral) for neutral in NEUTRAL.get(key, ())):
            continue
        if not _is_in_config(key, value, entries, config, header):
            raise BrokenFileError(
                f"has {name} = {_text(value)}, which a {config.model_type} model of transformers can't have"
            )


def _is_in_config(
    key: str, value: Any, entries: list[tuple[str, Any]], config: PreTrainedConfig, header: Header
) -> bool:
    """Whether the configuration has an entry with the value of this GGUF key."""
    if key == "attention.sliding_window" and value >= config.max_position_embeddings:
        return True  # no text is longer than such a window
    if key == "attention.sliding_window_pattern":
        kinds = getattr(config, "layer_types", None) or []
        return np.array_equal(np.ravel(value), [kind == "sliding_attention" for kind in kinds])
    if key in ("rope.dimension_count", "rope.dimension_count_swa"):
        return value in _rotary_sizes(entries)
    if key == "attention.scale":
        scales = [entry for name, entry in entries if name in ENTRIES[key]]
        usual = [0.0, *(size**-0.5 for name, size in entries if name == "head_dim" and size)]
        return any(_same(value, scale) for scale in scales or usual)
    scaling = header.keys.get(f"{header.architecture}.rope.scaling.type", "none")
    if key == "rope.scaling.original_context_length" and scaling in ("none", "linear"):
        return True  # only yarn and similar scalings use this length
    names = ENTRIES.get(key, ())
    have = [entry for name, entry in entries if name in names]
    have += [getattr(config, name) for name in names if hasattr(config, name)]
    return any(_same(value, entry) for entry in have)


def _rotary_sizes(entries: list[tuple[str, Any]]) -> set[int]:
    """The numbers of rotated dimensions per head that follow from these entries of a configuration."""
    shares = {entry for name, entry in entries if name == "partial_rotary_factor" and entry} or {1.0}
    heads = {entry for name, entry in entries if name == "head_dim" and entry}
    sizes = {entry for name, entry in entries if name in ("rotary_dim", "global_head_dim") and entry}
    return {int(head * share) for head in heads for share in shares} | sizes


def _same(value: Any, entry: Any) -> bool:
    """Whether the value of a GGUF key equals that of a configuration's entry, up to rounding to 32 bits.

    A list equals a number if all its elements that are not zero equal it. Zeros do not count, because lists
    are padded with them, and LFM2's layers without attention have 0 heads.
    """
    if isinstance(value, np.ndarray | list):
        numbers = [number for number in np.ravel(value).tolist() if number]
        if isinstance(entry, list | tuple):
            return numbers == [number for number in entry if number]
        return bool(numbers) and all(_same(number, entry) for number in numbers)
    if isinstance(value, bool | str) or isinstance(entry, bool | str):
        return type(value) is type(entry) and value == entry
    numeric = isinstance(value, int | float) and isinstance(entry, int | float)
    return numeric and math.isclose(value, entry, rel_tol=1e-6, abs_tol=1e-30)


def _text(value: Any) -> str:
    return " ".join(repr(value.tolist() if isinstance(value, np.ndarray) else value).split())[:40]
