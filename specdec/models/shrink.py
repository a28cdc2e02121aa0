"""Small copies of models, with contexts so short that a check can run over a whole context.

The classes of a model and the integers of its configuration decide which mask, window, chunk or rotary
embedding it uses; its weights do not. So a copy has the same classes, a layer of each kind, narrow matrices
and random weights. Text lengths at which the computation changes, such as a sliding window, are made small.
They keep their order, and equal lengths stay equal. The context has `ROOM` tokens more than the other
lengths.

    sliding_window 4096, original_max_position_embeddings 8192, max_position_embeddings 131072
    becomes        18,                                    20,                           22 (+ ROOM)

`NAMES` says what each integer counts. Integers that it does not list stay as they are; if one of them is a
large length, the check does not reach it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

import torch
import transformers
from transformers import PretrainedConfig

ENDLESS = 1 << 20
"""The context length of models whose configuration states none."""
SMALL = 16
"""Lengths up to this number stay as they are, because a check from the first token on exceeds them anyway."""
STEP, ROOM = 2, 14
"""The difference between successive lengths of a copy (even, because some lengths must be even), and the
number of tokens of its context beyond the largest length."""
VOCABULARY, EXPERTS, MLP = 160, 16, 64
"""A copy's largest vocabulary, number of experts and MLP width; `_narrow` makes a few exceptions."""

NAMES = {
    "context": "max_position_embeddings n_positions max_seq_len seq_length",
    "length": "sliding_window sliding_window_size attention_window_size window_size local_attention "
    "original_max_position_embeddings n_ctx model_max_length max_target_positions attention_chunk_size "
    "mamba_chunk_size chunk_size block_size index_block_size index_topk keep_window_size floor_scale "
    "rel_extent log_scaling_n_floor mem_len heavily_compressed_attention max_inference_chunksize "
    "local_attention_window_len context_length initial_context_length",
    "layers": "num_hidden_layers n_layer n_layers num_layers num_blocks decoder_layers encoder_layers "
    "num_dense_layers num_nextn_predict_layers num_mem_blocks",
    "layer numbers": "attn_layer_indices hybrid_layer_ids moe_layers mlp_only_layers "
    "cross_attention_layers full_attn_idxs",
    "period": "sliding_window_pattern _sliding_window_pattern no_rope_layer_interval attn_layer_period "
    "attn_layer_offset expert_layer_period expert_layer_offset global_attn_every_n_layers layer_group_size "
    "moe_layer_interval moe_layer_start_index first_k_dense_replace",
    "heads": "num_attention_heads n_head n_heads num_heads attention_heads decoder_attention_heads "
    "encoder_attention_heads num_key_value_heads num_kv_heads swa_num_attention_heads "
    "swa_num_key_value_heads num_attention_heads_per_layer num_query_groups mamba_n_groups mamba_ngroups "
    "n_groups o_groups",
    "inner heads": "mamba_n_heads mamba_num_heads n_mamba_heads linear_num_key_heads "
    "linear_num_value_heads linear_num_heads",
    "width": "hidden_size hidden_size_global d_model n_embd embedding_size embedding_dim emb_dim "
    "input_embedding_size output_embedding_size word_embed_proj_dim attention_hidden_size "
    "router_hidden_size hidden_size_per_layer_input lru_width mamba_d_ssm mamba_dt_rank time_step_rank "
    "q_lora_rank kv_lora_rank o_lora_rank block_dim conv_dim conv_dim_out n_embed",
    "mlp": "intermediate_size n_inner d_inner dff ffn_dim decoder_ffn_dim encoder_ffn_dim ffn_hidden_size "
    "expert_ffn_hidden_size moe_intermediate_size intermediate_size_mlp dense_intermediate_size "
    "shared_intermediate_size shared_expert_intermediate_size shared_experts_intermediate_size "
    "moe_shared_expert_intermediate_size block_ff_dim",
    "vocabulary": "vocab_size vocab_size_per_layer_input decoder_vocab_size unpadded_vocab_size "
    "encoder_hash_byte_group_vocab org_vocab_size",
    "experts": "num_experts n_routed_experts num_local_experts moe_num_experts zero_expert_num",
    "chosen": "num_experts_per_tok num_experts_per_token moe_topk moe_top_k moe_k experts_per_token",
}
"""Names of a configuration's integers, grouped by what they count.

The heads that choose tokens for sparse attention are left out, so that a copy has as many as the model. With
few heads many scores are 0, and the choice among equal scores depends on the length of a forward pass."""
KINDS = {name: kind for kind, names in NAMES.items() for name in names.split()}
TOKENS = ("_id", "_ids", "_token_index")
"""Names of entries that hold token ids end with one of these."""
IGNORED = ("quantization_config", "id2label", "label2id", "task_specific_params")
AFTER_PADDING = (
    *("roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "camembert"),
    *("data2vec-text", "xmod"),
)
"""Model types whose positions start after the id of the padding token."""


def context_length(config: PretrainedConfig) -> int:
    """The most tokens that a text may have by a configuration; `ENDLESS` if it states no number."""
    stated = _first("context", {name: getattr(config, name, None) for name in NAMES["context"].split()})
    if stated and config.model_type in AFTER_PADDING:
        stated -= (config.pad_token_id or 0) + 1
    return stated or ENDLESS


def lengths(config: PretrainedConfig) -> set[int]:
    """All text lengths above `SMALL` in a configuration, at which the model's computation may change."""
    return {v for part in _parts(config) for _, key, v in _entries(part) if _is_length(key, v)}


def shrunken(config: PretrainedConfig) -> PretrainedConfig:
    """A small configuration with the same kinds of layers, whose windows and other lengths are short."""
    small = copy.deepcopy(config)
    vars(small).pop("quantization_config", None)
    context = _first("context", vars(config.get_text_config(decoder=True))) or ENDLESS
    old = enumerate(sorted(lengths(small)), start=1)
    new = {v: SMALL + STEP * i + (ROOM if v >= context else 0) for i, v in old}
    for part in _parts(small):
        _narrow(part, new)
        _shorten(part)
    return small


def small_model(
    kind: type[transformers.PreTrainedModel], config: PretrainedConfig
) -> transformers.PreTrainedModel:
    """A model of this class with a shrunken configuration, in float32 on the CPU. Raises the class's errors.

    The global random state stays as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: Any = kind(shrunken(config))
        model = model.to("cpu", torch.float32).eval()
        draw_matrices(model)
    return model


@torch.no_grad()
def draw_matrices(model: transformers.PreTrainedModel) -> None:
    """Draws matrices large enough that logits depend strongly on the tokens that are attended to."""
    for name, parameter in model.named_parameters():
        # a state space model's own parameters keep their scales
        if parameter.dim() == 2 and not any(part in name for part in ("A_log", "x_proj", "dt_proj")):
            gain = 1.0 if "embed" in name or "wte" in name else 1.5 / parameter.shape[-1] ** 0.5
            parameter.normal_(std=gain)


def _is_length(key: str, value: Any) -> bool:
    return type(value) is int and value > SMALL and KINDS.get(key) in ("context", "length")


def _first(kind: str, entries: dict[str, Any]) -> int:
    """The first positive integer among the entries that `NAMES` lists for this kind; 0 if there is none."""
    values = (entries.get(name) for name in NAMES[kind].split())
    return next((v for v in values if type(v) is int and v > 0), 0)


def _parts(config: PretrainedConfig) -> Iterator[PretrainedConfig]:
    """Yields the configuration and all configurations inside it."""
    yield config
    for value in vars(config).values():
        if isinstance(value, PretrainedConfig):
            yield from _parts(value)


def _entries(holder: PretrainedConfig | dict) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Yields (dictionary of the entry, key, value) for all entries of a configuration, also nested ones."""
    items = vars(holder) if isinstance(holder, PretrainedConfig) else holder
    for key, value in list(items.items()):
        if isinstance(value, dict) and key not in IGNORED:
            yield from _entries(value)
        elif not isinstance(value, (dict, PretrainedConfig)):
            yield items, str(key), value


def _narrow(config: PretrainedConfig, new_lengths: dict[int, int]) -> None:
    """Replaces lengths, divides heads and widths by one number, and reduces vocabulary, experts and token
    ids. new_lengths: for each length, the small length that replaces it."""
    own, entries = vars(config), list(_entries(config))
    factor = _factor(config)
    chosen = max((v for _, key, v in entries if type(v) is int and KINDS.get(key) == "chosen"), default=1)
    inner = {_first("width", own) * own.get(key, 1) for key in ("expand", "mamba_expand")}

    def narrowed(key: str, value: int) -> int:
        kind = KINDS.get(key)
        if _is_length(key, value):
            return new_lengths[value]
        if kind in ("heads", "inner heads"):
            return max(1, value // factor)
        if kind in ("width", "mlp"):
            small = -(-value // factor // 8) * 8  # some kernels want rows of 16 bytes
            return small if kind == "width" or value in inner else min(small, MLP)
        if key.endswith(TOKENS):
            return value % 97 if value >= VOCABULARY else value
        most = {"vocabulary": VOCABULARY, "experts": max(EXPERTS, chosen)}
        return min(value, most.get(kind or "", value))

    for holder, key, value in entries:
        if type(value) is int and value > 0:
            holder[key] = narrowed(key, value)
        elif type(value) is list and all(type(each) is int and each > 0 for each in value):
            holder[key] = [narrowed(key, each) for each in value]


def _factor(config: PretrainedConfig) -> int:
    """The number by which the heads and widths of a configuration are divided."""
    own, heads = vars(config), 4 if config.model_type == "codegen" else 2  # CodeGen has four groups of heads
    count = _first("heads", own)
    if not count:
        return max(1, _first("width", own) // 128)
    inner = [own.get(name) for name in NAMES["inner heads"].split()]
    return gcd(count // gcd(count, heads), *(v for v in inner if type(v) is int and v > 0))


def _shorten(config: PretrainedConfig) -> None:
    """Keeps one layer of each kind, at least two layers, and shortens lists that have an entry per layer."""
    own = vars(config)
    count, shared = _first("layers", own), own.get("num_kv_shared_layers") or 0
    if count < 2:
        return
    entries = {k: v for k, v in own.items() if isinstance(v, (list, tuple)) and v}
    numbers = {k: v for k, v in entries.items() if KINDS.get(k) == "layer numbers"}
    lists = {k: v for k, v in entries.items() if len(v) == count and k not in numbers}
    flags = [[i in v for i in range(count)] for v in numbers.values()]
    if lists or numbers:
        layers = _of_each_kind([*lists.values(), *flags, [i >= count - shared for i in range(count)]])
    else:
        patterns = [len(v) for k, v in entries.items() if k.endswith("_types")]
        periods = [v for k, v in own.items() if KINDS.get(k) == "period" and type(v) is int]
        layers = list(range(1 + max((n for n in patterns + periods if n < count), default=1)))
    for k, v in own.items():
        if k in lists:
            own[k] = [v[i] for i in layers]
        elif k in numbers:
            own[k] = [layers.index(i) for i in v if i in layers]
        elif KINDS.get(k) == "layers" and type(v) is int:
            own[k] = min(v, len(layers))
    if shared:
        own["num_kv_shared_layers"] = sum(i >= count - shared for i in layers)


def _of_each_kind(lists: Sequence[Sequence[Any]]) -> list[int]:
    """The index of the first layer of each kind; [0, 1] if there is only one kind.

    lists: the configuration's lists with an entry for each layer. Layers with equal entries are of one kind.
    """
    first: dict[str, int] = {}
    for i, row in enumerate(zip(*lists, strict=True)):
        first.setdefault(repr(row), i)
    return sorted(first.values()) if len(first) > 1 else [0, 1]
