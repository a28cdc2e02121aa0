"""Small copies of models: same classes and switches, so small that a check can run over a whole context.

The classes of a model and the integers of its configuration decide which mask, window, chunk or rotary
embedding it uses, not its weights. So a copy has the same classes and switches, a layer of each kind, narrow
matrices and random weights. Every integer that is not the size of a matrix is taken for a length at which
something may change. All lengths are made small; their order is kept, and equal lengths stay equal.

    sliding_window 4096, original_max_position_embeddings 8192, max_position_embeddings 131072
    becomes        18,                                    20,                           22 and some room

The names below only make copies small and buildable. An integer with an unknown name is a length.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel

ENDLESS = 1 << 20
"""Context length of models that name none."""
SMALL = 16
"""Integers up to this one stay as they are: a check from the first token on passes them anyway."""
STEP = 2
"""Distance between one length of a copy and the next; even, because some lengths must be even."""
ROOM = 14
"""Tokens of a copy's context beyond its largest length."""
VOCABULARY = 160
EXPERTS = 16
MLP = 64
"""Largest sizes of a copy."""
SIZES = ((2, 1), (4, 2))
"""Attention heads of a copy and layers of each kind; the second pair is for classes that refuse the first."""
MOST_PARAMETERS = 1 << 28
"""Largest copy that is built."""

KINDS = {
    "vocabulary": r"vocab",
    "layers": r"^(n|num)_(\w+_)?(layers?|blocks)$|^decoder_layers$|^encoder_layers$",
    "index": r"^index(er)?_n_heads$",
    "expert": r"experts$|expert_num$",
    "head": r"heads$|n_head$|heads_per_layer$|query_groups$|o_groups$|n_groups$|ngroups$",
    "length": r"window|chunk|block|context|position|length|seq|index_topk|extent|keep|floor|local",
    "width": r"hidden_size|intermediate|inner|n_embd|d_model|d_?ff|dim_ff|ffn|feed_forward_size|lora_rank"
    r"|lowrank|emb(ed(ding)?)?_dim|embedding_size|lru_width|proj_dim|d_ssm|ple_|dt_rank|step_rank|hidden_dim"
    r"|linear_hidden",
    "other": r"dim|_ids?$|_index$|d_head|head_size|per_tok|topk|top_k|rank|expand|group|kernel|state|width"
    r"|channels|seed|rotary|section|label|LABEL|period|interval|every|pattern|offset|_start|first_k"
    r"|dense_layers|per_attn",
}
"""The kind of an integer by its name: the first pattern that matches, else a length.

index: heads that score tokens for sparse attention; they stay, because with few heads many scores are 0, and
the choice between equal scores depends on the length of a forward.
"""
_KIND = {kind: re.compile(pattern) for kind, pattern in KINDS.items()}
_MLP = re.compile(r"intermediate|d_?ff|ffn|feed_forward|n_inner")
_TOGETHER = re.compile(r"mamba.*heads|linear_num|^num_heads$")
"""Numbers of heads that have to be divisible by the factor of the widths."""
_PERIOD = re.compile(r"period|interval|every|pattern|offset|group_size|per_attn|first_k|dense_layers|_start")
_LAYER_NUMBERS = re.compile(r"layers$|idxs?$|layer_ids$|indices$")
_CHOSEN = re.compile(r"per_tok|moe_(top)?_?k$")
_HEADS = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "attention_heads",
    "decoder_attention_heads",
)
_WIDTH = ("hidden_size", "d_model", "n_embd")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


def context_length(config: PretrainedConfig) -> int:
    """The context length that a configuration states; `ENDLESS` where it states none."""
    return _first_of(_CONTEXT, {name: getattr(config, name, None) for name in _CONTEXT}, ENDLESS)


def lengths(config: PretrainedConfig) -> set[int]:
    """All integers above `SMALL` in a configuration that may be lengths at which something changes."""
    return {v for _, key, v in _entries(config) if _is_length(key, v)}


def shrunken(
    config: PretrainedConfig, heads: int = 2, layers: int = 1, step: int = STEP, room: int = ROOM
) -> PretrainedConfig:
    """A small configuration with the same switches after fewer tokens.

    heads: number of attention heads, where the model's number is divisible by it. layers: how many of each
    kind stay. step: from one length to the next. room: tokens of the context beyond the largest length.
    """
    small = copy.deepcopy(config)
    vars(small).pop("quantization_config", None)
    context = context_length(config.get_text_config(decoder=True))
    ordered = sorted(lengths(small))
    new = {v: SMALL + step * (i + 1) + (room if v >= context else 0) for i, v in enumerate(ordered)}
    for holder, key, v in _entries(small):
        if _is_length(key, v):
            _put(holder, key, new[v])
    for part in _parts(small):
        _narrow(part, heads)
        _shorten(part, layers)
    return small


def small_model(
    kind: type[PreTrainedModel], config: PretrainedConfig, step: int = STEP, room: int = ROOM
) -> PreTrainedModel:
    """A model of this class by a shrunken configuration, in float32 on the CPU; raises what the class raises.

    Its weights are so large that the logits depend strongly on the tokens that are attended to.
    """
    errors = []
    for heads, layers in SIZES:
        try:
            return _random(kind, shrunken(config, heads, layers, step, room))
        except Exception as error:  # the next size may do
            errors.append(error)
    raise errors[0]


@torch.inference_mode()
def _random(kind: type[PreTrainedModel], config: PretrainedConfig) -> PreTrainedModel:
    """A model with random weights that was run once. The global random state stays as it was."""
    if (count := _num_parameters(kind, config)) > MOST_PARAMETERS:
        raise ValueError(f"a small copy of it would have {count:,} parameters")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind(config).to("cpu", torch.float32).eval()  # type: ignore[arg-type]  # a method, decorated
        _enlarge(model)
    tokens = model.get_input_embeddings().weight.shape[0]
    for length in (SMALL, SMALL - 5):
        model(input_ids=(torch.arange(3, 3 + length) % tokens)[None], use_cache=False)
    return model


def _num_parameters(kind: type[PreTrainedModel], config: PretrainedConfig) -> int:
    """Parameters of a model, counted without memory for them; 0 where its class can't be built so."""
    try:
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in kind(copy.deepcopy(config)).parameters())
    except (NotImplementedError, RuntimeError):
        return 0


def _enlarge(model: PreTrainedModel) -> None:
    """Gives matrices random values of unit gain. A state space model's own parameters keep their scales."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and not any(part in name for part in ("A_log", "x_proj", "dt_proj")):
            gain = 1.0 if "embed" in name or "wte" in name else 1.5 / parameter.shape[-1] ** 0.5
            parameter.normal_(std=gain)


def _kind(key: str) -> str:
    return next((kind for kind, pattern in _KIND.items() if pattern.search(key)), "length")


def _is_length(key: str, value: Any) -> bool:
    return type(value) is int and value > SMALL and _kind(key) == "length"


def _first_of(names: Sequence[str], entries: dict[str, Any], default: int) -> int:
    values = (entries.get(name) for name in names)
    return next((value for value in values if type(value) is int and value > 0), default)


def _parts(config: PretrainedConfig) -> Iterator[PretrainedConfig]:
    """The configuration and all configurations in it."""
    yield config
    for value in vars(config).values():
        if isinstance(value, PretrainedConfig):
            yield from _parts(value)


def _entries(holder: Any, deep: bool = True) -> Iterator[tuple[Any, str, Any]]:
    """(holder, key, value) for a configuration and the dictionaries in it.

    deep: also for configurations in it.
    """
    items = vars(holder) if isinstance(holder, PretrainedConfig) else holder
    for key, value in list(items.items()):
        if isinstance(value, dict):
            yield from _entries(value, deep)
        elif isinstance(value, PretrainedConfig):
            yield from _entries(value) if deep else ()
        else:
            yield holder, str(key), value


def _put(holder: Any, key: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[key if key in holder else int(key)] = value
    else:
        setattr(holder, key, value)


def _narrow(config: PretrainedConfig, heads: int) -> None:
    """Divide heads and widths by one number; cut vocabulary, experts and token ids."""
    entries = list(_entries(config, deep=False))
    factor = _factor(vars(config), heads)
    chosen = max((v for _, key, v in entries if type(v) is int and _CHOSEN.search(key)), default=1)
    width = _first_of(_WIDTH, vars(config), 0)
    inner = {width * getattr(config, key, 1) for key in ("expand", "mamba_expand")}
    for holder, key, v in entries:
        if type(v) is int and v > 0:
            _put(holder, key, _narrowed(key, v, factor, max(EXPERTS, chosen), tied=v in inner))
        elif type(v) is list and all(type(each) is int for each in v):
            _put(holder, key, [_narrowed(key, each, factor, EXPERTS, tied=False) for each in v])


def _narrowed(key: str, value: int, factor: int, experts: int, tied: bool) -> int:
    """The small value of a configuration's integer, by its name: head count, width, vocabulary, ...

    tied: whether it is a width that follows from another one.
    """
    kind = _kind(key)
    if kind == "head":
        return max(1, value // factor)
    if kind == "width":
        # some kernels want rows of 16 bytes
        small = -(-value // factor // 8) * 8 if value >= 8 * factor else max(1, value // factor)
        return min(small, MLP) if _MLP.search(key) and not tied else small
    if kind == "expert":
        return min(value, experts)
    if kind == "vocabulary":
        return min(value, VOCABULARY)
    return value % 97 if key.endswith("_id") and value >= VOCABULARY else value


def _factor(own: dict[str, Any], heads: int) -> int:
    """The number by which heads and widths are divided."""
    count = _first_of(_HEADS, own, 0)
    if not count:
        return max(1, _first_of(_WIDTH, own, 1) // 128)
    factor = count // next(few for few in (heads, 2, 1) if count % few == 0)
    for key, v in own.items():
        if _TOGETHER.search(key) and type(v) is int and v > 1:
            factor = gcd(factor, v)
    return max(1, factor)


def _shorten(config: PretrainedConfig, copies: int) -> None:
    """Keeps `copies` layers of each kind and shortens all lists with an entry for each layer."""
    own = dict(vars(config))
    counts = {k: v for k, v in own.items() if _kind(k) == "layers" and type(v) is int and v > 0}
    count = next(iter(counts.values()), 0)
    if count < 2:
        return
    shared = own.get("num_kv_shared_layers") or 0
    all_lists = {k: v for k, v in own.items() if isinstance(v, (list, tuple)) and v}
    numbers = {k: v for k, v in all_lists.items() if _LAYER_NUMBERS.search(k) and _numbers(v)}
    lists = {k: v for k, v in all_lists.items() if len(v) == count and k not in numbers}
    of_layers = [*lists.values(), *([i in v for i in range(count)] for v in numbers.values())]
    if of_layers:
        layers = _of_each_kind([*of_layers, [i >= count - shared for i in range(count)]], copies)
    else:
        layers = list(range(min(count, _period(own, count) + 1)))
    for k, v in own.items():
        if k in lists:
            setattr(config, k, [v[i] for i in layers])
        elif k in numbers:
            setattr(config, k, [layers.index(i) for i in v if i in layers])
        elif k in counts:
            setattr(config, k, min(v, len(layers)))
    if shared:
        config.num_kv_shared_layers = sum(i >= count - shared for i in layers)


def _numbers(values: Sequence[Any]) -> bool:
    """Whether these values may be numbers of layers: whole numbers in rising order."""
    return all(type(v) is int for v in values) and list(values) == sorted(set(values))


def _period(own: dict[str, Any], count: int) -> int:
    """The longest period of layer kinds, for a configuration without a list of the kinds of all layers."""
    periods = [v for k, v in own.items() if _PERIOD.search(k) and type(v) is int and v < count]
    patterns = [len(v) for k, v in own.items() if k.endswith("_types") and isinstance(v, (list, tuple))]
    return max(periods + [length for length in patterns if length < count], default=1)


def _of_each_kind(lists: Sequence[Sequence[Any]], copies: int) -> list[int]:
    """The first `copies` layers of each kind, at least two in all.

    lists: each has an entry for each layer.
    """
    rows: dict[str, list[int]] = {}
    for i, row in enumerate(zip(*lists, strict=True)):
        rows.setdefault(repr(row), []).append(i)
    most = max(copies, 2) if len(rows) == 1 else copies
    return sorted(i for same in rows.values() for i in same[:most])
