"""Pairs of models with random weights, of any shape and acceptance, that are as slow as trained models.

The target contains the draft. The target's first layers have the draft's matrices in a corner and zeros
elsewhere, which take as much time as other numbers. The first channels of the target's residual stream are
the draft's. All later layers are random. A factor scales how much the later layers disturb the stream.
Bisection finds the factor with which drafted tokens are accepted as often as requested.

    target layers   [ draft | 0 ]   [ draft | 0 ]   [ noise x factor ]   [ noise x factor ] ...
                    [   0   | 0 ]   [   0   | 0 ]
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor

from specdec import ModelPair
from specdec.checks import real
from specdec.models import HFModel
from specdec.models.kernels.packing import round_matrices
from specdec.models.load import ROUNDED, checked_dtype
from specdec.theory import gsd_acceptance

TEXT = 64  # the number of tokens of the text on which acceptance is measured
STEPS = 14  # how often bisection halves the interval of the factor's logarithm
ENDS = ("bos_token_id", "eos_token_id", "pad_token_id")
SPREAD = 1.3
"""The variance of the draft's logits, divided by log(vocabulary). With this value, the draft's distribution
has about a third of the entropy of a uniform one."""


class LlamaSizes(NamedTuple):
    """The sizes of a Llama model. heads: its query heads. All heads have `head_size` channels."""

    layers: int
    width: int
    inner: int
    heads: int
    kv_heads: int
    head_size: int


class Preset(NamedTuple):
    """The sizes of a target and a draft, the size of their vocabulary, and the acceptance to reach."""

    target: LlamaSizes
    draft: LlamaSizes
    vocab_size: int
    acceptance: float


PRESETS = {
    "66m": Preset(LlamaSizes(12, 640, 1792, 10, 10, 64), LlamaSizes(2, 320, 1024, 5, 5, 64), 4096, 0.75),
    "1b": Preset(LlamaSizes(13, 2048, 8192, 32, 32, 64), LlamaSizes(3, 512, 1408, 8, 8, 64), 49152, 0.75),
    "8b": Preset(
        LlamaSizes(32, 4096, 14336, 32, 8, 128), LlamaSizes(16, 2048, 8192, 16, 8, 128), 128256, 0.78
    ),
    "tiny": Preset(LlamaSizes(3, 64, 96, 4, 2, 16), LlamaSizes(1, 32, 48, 2, 2, 16), 257, 0.7),
}
"""66m: a target of 66 M parameters, and a draft of a twelfth of that. 1b: 1.1 B and 60 M, with SmolLM's
widths. 8b: like Llama's 8B and about 1B, for a GPU. tiny: for tests."""


def synthetic_pair(
    preset: Preset,
    dtype: torch.dtype,
    draft_dtype: torch.dtype | str | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> tuple[ModelPair, float]:
    """A pair without a tokenizer, and the acceptance that it has: GSD's, of the first drafted token.

    draft_dtype: by default the target's; `ROUNDED` as for `load_pair`. ValueError if the target can't contain
    the draft, or if the acceptance can't be reached.
    """
    _check(preset)
    torch.manual_seed(seed)
    draft = _random_llama(preset.draft, preset.vocab_size, dtype, device)
    with torch.no_grad():
        draft.lm_head.weight.mul_(math.sqrt(SPREAD * math.log(preset.vocab_size)))
    target = _random_llama(preset.target, preset.vocab_size, dtype, device)
    _contain(target, draft, preset)
    later = target.model.layers[preset.draft.layers :]
    outputs = [part.weight for layer in later for part in (layer.self_attn.o_proj, layer.mlp.down_proj)]
    first = torch.zeros(1, 1, dtype=torch.int64, device=draft.device)
    sampling: dict[str, Any] = {"do_sample": True, "top_k": 0, "max_new_tokens": TEXT - 1, "pad_token_id": 0}
    text: Any = draft.generate(first, attention_mask=torch.ones_like(first), **sampling)
    measured = calibrate(target, draft, outputs, text, preset.acceptance)
    if abs(measured - preset.acceptance) > 0.05:
        raise ValueError(f"acceptance {preset.acceptance} can't be reached: {measured:.3f} is the nearest")
    draft.to(checked_dtype(draft_dtype or dtype))
    if draft_dtype == ROUNDED:
        round_matrices(draft)
    return ModelPair(*(HFModel(model) for model in (target, draft))), measured


def _check(preset: Preset) -> None:
    target, draft = preset.target, preset.draft
    if min(*target, *draft, preset.vocab_size) < 1:
        raise ValueError(f"{target}, {draft}, vocabulary {preset.vocab_size}: all sizes must be at least 1")
    fits = all(small <= large for small, large in zip(draft, target)) and draft.layers < target.layers
    if not fits or draft.head_size != target.head_size:
        raise ValueError(
            f"{draft} does not fit into {target}: the target contains the draft, so it needs more "
            "layers, heads of the same size, and all other sizes at least as large"
        )
    for shape in (target, draft):
        if shape.heads % shape.kv_heads:
            raise ValueError(f"heads = {shape.heads} is not a multiple of kv_heads = {shape.kv_heads}")
    if draft.heads // draft.kv_heads > target.heads // target.kv_heads:
        raise ValueError("the draft has more query heads for a key head than the target")
    checked_acceptance(preset.acceptance)


def checked_acceptance(acceptance: float) -> float:
    """The requested acceptance as a number; ValueError if it is not between 0 and 1."""
    number = real(acceptance)
    if number is None or not 0 < number < 1:
        raise ValueError(f"acceptance = {acceptance!r} is not a number between 0 and 1")
    return number


def _random_llama(shape: LlamaSizes, vocab_size: int, dtype: torch.dtype, device: str) -> Any:
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads")
    sizes: dict[str, Any] = dict(zip((*names, "num_key_value_heads", "head_dim"), shape, strict=True))
    sizes |= {"vocab_size": vocab_size, "max_position_embeddings": 4096, "tie_word_embeddings": False}
    with torch.device(device):
        return random_model("Llama", dtype, **sizes, **dict.fromkeys(ENDS))


def random_model(family: str, dtype: torch.dtype, **sizes: Any) -> Any:
    """A model with random matrices, whose outputs have the same scale as their inputs.

    family: the beginning of the names of transformers' classes. sizes: the entries of the configuration.
    """
    config = getattr(transformers, f"{family}Config")(**sizes)
    kind = getattr(transformers, f"{family.removesuffix('Text')}ForCausalLM")
    model = kind._from_config(config, dtype=dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and "A_log" not in name:
                parameter.normal_(std=1.0 if "embed" in name else parameter.shape[1] ** -0.5)
    return model.eval()


@torch.no_grad()
def _contain(target: Any, draft: Any, preset: Preset) -> None:
    """Writes the draft into the first layers, channels and heads of the target, and zeros everywhere else."""
    big, small = preset.target, preset.draft
    # RMSNorm divides by a smaller number in the wider stream, which is mostly zeros.
    gain = math.sqrt(small.width / big.width)
    query, key = (_head_rows(big, small, heads).to(target.device) for heads in (big.heads, big.kv_heads))
    rows = {"q_proj": query, "k_proj": key, "v_proj": key}
    for name, value in draft.named_parameters():
        into, part = target.get_parameter(name).zero_(), name.split(".")[-2]
        if value.dim() == 1:
            into[: len(value)] = value * gain
        elif part == "o_proj":
            into[: len(value), query] = value
        else:
            into[rows.get(part, slice(len(value))), : value.shape[1]] = value


def _head_rows(big: LlamaSizes, small: LlamaSizes, heads: int) -> Tensor:
    """The rows of the target's matrix for the draft's heads: head i of group g becomes head i of group g."""
    per_group = 1 if heads == big.kv_heads else small.heads // small.kv_heads
    group = heads // big.kv_heads
    head_numbers = [g * group + i for g in range(small.kv_heads) for i in range(per_group)]
    starts = torch.tensor(head_numbers)[:, None] * big.head_size
    return (starts + torch.arange(big.head_size)).flatten()


@torch.inference_mode()
def calibrate(target: Any, draft: Any, outputs: Sequence[Tensor], ids: Tensor, acceptance: float) -> float:
    """Scale the matrices `outputs` of the target until drafted tokens are accepted as often as requested.

    ids: a text [1, tokens], on which acceptance is measured. Returns the acceptance in the end.
    """
    q = draft(ids).logits[0].float().softmax(-1)
    low, high, factor = math.log(1e-4), math.log(10.0), 1.0
    for _ in range(STEPS):
        next_factor = math.exp((low + high) / 2)
        for weight in outputs:
            weight.mul_(next_factor / factor)
        factor = next_factor
        measured = gsd_acceptance(target(ids).logits[0].float().softmax(-1), q).mean().item()
        low, high = (math.log(factor), high) if measured > acceptance else (low, math.log(factor))
    return measured
