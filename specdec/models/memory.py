"""The memory that a model needs, computed from its config before it is loaded, and the memory that is free.

weights    every parameter once, in its dtype
packed     on a CPU, the second copy of the matrices that `lean` packs for oneDNN
run        twice the keys and values of `TOKENS` tokens, because a buffer that grows is copied; twice the
           recurrent and convolution states, because a forward pass runs on a copy; and logits, probabilities
           and noise of a forward pass over `ROWS` tokens
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import torch
import transformers
from torch import nn
from transformers import PreTrainedConfig

from specdec.checks import cause_of
from specdec.models import free_memory, lean
from specdec.models.kernels import CompiledDecoder
from specdec.models.outline import head_size
from specdec.models.sessions.states import own_cache, state_tensors

if TYPE_CHECKING:
    from specdec.models.hf import HFModel

TOKENS = 2048
"""There must be room for this many tokens of a prompt and its answer together."""
ROWS = 65
"""The most tokens of one target forward pass on the page: the root and 64 drafted tokens."""
BYTES_PER_LOGIT = 36
"""Measured bytes per logit: the logit in two dtypes, its probability, and the race's float64 numbers."""
ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}
"""Types of layers whose caches hold only keys and values."""


class Sizes(NamedTuple):
    """The sizes of a model from which its memory is computed.

    parameters: their number; shared ones count once. matrices: how many parameters `lean` packs on a CPU; 0
    for a model that it does not support. cached: how many numbers the keys and values of a token have in all
    layers. states: bytes of a run's recurrent and convolution states.
    """

    parameters: int
    matrices: int
    cached: int
    vocab_size: int
    context_length: int
    states: int = 0


class Need(NamedTuple):
    """Bytes of memory that a model takes: for weights, for packed copies of them, and for one run."""

    weights: int
    packed: int
    run: int

    @property
    def total(self) -> int:
        """The sum of all three parts, in bytes."""
        return sum(self)

    @property
    def least(self) -> int:
        """Bytes that the model takes without packed copies of its weights."""
        return self.total - self.packed


class Placement(NamedTuple):
    """A model that is to be loaded. dtype: the name of the dtype. device: "auto", "cpu", "cuda", "cuda:1"."""

    name: str
    dtype: str
    device: str
    need: Need


def shape_of(config: PreTrainedConfig) -> Sizes:
    """The sizes of a causal language model, which is built without memory for its weights.

    ValueError if transformers does not know the model, or its config contradicts itself.
    """
    try:
        model = without_weights(config)
        vocab_size = model.get_output_embeddings().weight.shape[0]
        sizes = sizes_of_run(config)
    except Exception as error:  # each architecture fails in its own way
        cause = cause_of(error)
        raise ValueError(
            f"config.json describes no causal language model of transformers: {cause}"
        ) from error
    linear = [module.weight.numel() for module in model.modules() if type(module) is nn.Linear]
    return sizes._replace(
        parameters=sum(tensor.numel() for tensor in model.parameters()),
        matrices=sum(linear) if lean.is_known(model) else 0,
        vocab_size=vocab_size,
        states=_state_bytes(model),
    )


def sizes_of_run(config: PreTrainedConfig) -> Sizes:
    """The `Sizes` that a run of a model with only attention layers needs; parameters and matrices stay 0."""
    text = config.get_text_config(decoder=True)
    context = max(getattr(text, "max_position_embeddings", None) or 0, 0) or TOKENS
    return Sizes(0, 0, _cached_per_token(text), getattr(text, "vocab_size", 0), context)


def tensor_shapes(config: PreTrainedConfig) -> dict[str, tuple[int, ...]]:
    """Shapes of the tensors in a model's files, by transformers' names. A tied output matrix is left out."""
    shapes = {name: tuple(value.shape) for name, value in without_weights(config).state_dict().items()}
    if config.tie_word_embeddings:
        shapes.pop("lm_head.weight", None)
    return shapes


def without_weights(config: PreTrainedConfig) -> transformers.PreTrainedModel:
    """A causal language model on the device "meta", in torch's default dtype.

    The config's dtype is ignored: to use it, transformers would change the default dtype of all threads.
    """
    with torch.device("meta"):
        # a copy, because transformers writes the dtype into the config that it gets
        return transformers.AutoModelForCausalLM.from_config(
            copy.deepcopy(config), dtype=None, trust_remote_code=False
        )


def need_of(shape: Sizes, dtype: str, on_cpu: bool) -> Need:
    """Bytes that a model of these sizes takes. dtype: the name of the dtype."""
    size = getattr(torch, dtype).itemsize
    weights = shape.parameters * size
    run = _of_run(shape.cached, shape.states, shape.vocab_size, shape.context_length, size)
    packs = on_cpu and dtype in lean.PACKED_DTYPES
    return Need(weights, shape.matrices * size if packs else 0, run)


def need_of_run(model: HFModel, vocab_size: int) -> int:
    """Bytes that one more run of a loaded model takes for its cache, and for `vocab_size` logits a token."""
    cached = _cached_per_token(model.config)
    states = 0
    if model.capability == "sequence":
        with suppress(ValueError):  # a class of the user's own, which transformers can't build
            states = shape_of(model.module.config).states
    size = torch.float32.itemsize if isinstance(model.decoder, CompiledDecoder) else model.dtype.itemsize
    return _of_run(cached, states, vocab_size, model.context_length, size)


def _of_run(cached: int, states: int, vocab_size: int, context_length: int, size: int) -> int:
    """Bytes of a run's cache and of the logits of its rounds.

    cached: numbers in the cache per token. size: bytes per number. states: bytes of the model's states.
    """
    return 2 * min(TOKENS, context_length) * cached * size + 2 * states + ROWS * vocab_size * BYTES_PER_LOGIT


def _state_bytes(model: transformers.PreTrainedModel) -> int:
    """Bytes of one run's recurrent states. The model is on "meta"; 0 if it has no states or can't run there.

    It is an upper bound: every number of a state counts four bytes.
    """
    layer_types = getattr(model.config.get_text_config(decoder=True), "layer_types", None) or ()
    if not getattr(model, "_is_stateful", False) and ATTENTION.issuperset(layer_types):
        return 0
    try:
        with torch.inference_mode():
            model = model.eval().to(torch.bfloat16)  # on "meta", torch multiplies experts in this dtype only
            token_ids = torch.zeros(1, 2, dtype=torch.int64, device="meta")
            cache = own_cache(model(input_ids=token_ids, use_cache=True))
    except Exception:  # each architecture fails in its own way
        return 0
    return sum(state.numel() * torch.float32.itemsize for state in state_tensors(cache))


def stored_dtype(config: PreTrainedConfig) -> str:
    """The name of the dtype that "auto" loads: the one in the config, else float32."""
    return str(config.dtype or torch.float32).removeprefix("torch.")


def check_fits(plans: Iterable[Placement]) -> None:
    """Raise a ValueError with the amounts if these models together need more memory than is free.

    A packed copy of the weights is not counted: if there is no room for it (`lean.has_room`), none is made.
    """
    by_place: dict[str, list[Placement]] = {}
    for plan in plans:
        by_place.setdefault(free_memory.place(plan.device), []).append(plan)
    for where, models in by_place.items():
        need, free = sum(model.need.least for model in models), free_memory.free(where)
        if need > free:
            each = " and ".join(_need_in_words(model) for model in models)
            raise ValueError(
                f"not enough memory: {each}; {gigabytes(free)} are free{_where(where)}. Nothing was loaded"
            )


def gigabytes(number: int) -> str:
    """A number of bytes in words, such as "1.5 GB" (of 10^9 bytes) or "20 MB"."""
    return f"{number / 1e9:,.1f} GB" if number >= 1e8 else f"{number / 1e6:,.0f} MB"


def _need_in_words(plan: Placement) -> str:
    total, weights = gigabytes(plan.need.least), gigabytes(plan.need.weights)
    return f"{plan.name} needs about {total} in {plan.dtype} (weights {weights})"


def _where(where: str) -> str:
    return {"cpu": "", "auto": " on the GPUs and in main memory"}.get(where, f" on {where}")


def _cached_per_token(config: PreTrainedConfig) -> int:
    """Numbers in the cache per token. Layers with a window or a constant state count like full attention."""
    if getattr(config, "is_heterogeneous", False):  # layers have different sizes, as in Gemma 4
        return sum(_cached_per_layer(layer) for layer in config.per_layer_config)
    return getattr(config, "num_hidden_layers", 0) * _cached_per_layer(config)


def _cached_per_layer(config: PreTrainedConfig) -> int:
    heads = getattr(config, "num_attention_heads", None) or 1
    return 2 * (getattr(config, "num_key_value_heads", None) or heads) * head_size(config)
