"""Pairs with random weights whose target has a recurrent or convolution state.

A target of about 65 M parameters contains the embedding and the head of a small Llama draft. The outputs of
the target's layers are scaled until drafted tokens are accepted as often as requested.
"""

import math
from dataclasses import replace
from typing import Any

import torch
from transformers import PreTrainedModel

from research.bench.synthetic import SPREAD, TEXT, calibrate, random_model
from specdec import ModelPair
from specdec.models import HFModel

ACCEPTANCE = 0.75  # the default probability with which GSD accepts the first drafted token
WIDTH, DRAFT_WIDTH, VOCABULARY = 640, 320, 16384
_SIZES = {
    "vocab_size": VOCABULARY,
    "num_attention_heads": 10,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
_TARGET = _SIZES | {"hidden_size": WIDTH, "intermediate_size": 1792, "num_key_value_heads": 5}
_DRAFT = {"hidden_size": DRAFT_WIDTH, "intermediate_size": 1024, "num_hidden_layers": 2, "head_dim": 32}
_LINEAR = {"linear_num_key_heads": 10, "linear_num_value_heads": 10}
_LINEAR |= {"linear_key_head_dim": 64, "linear_value_head_dim": 64}
_MAMBA = {"mamba_d_ssm": 1280, "mamba_n_heads": 20, "mamba_d_head": 64, "mamba_d_state": 64}
_LAYERS = {
    "lfm2": ["conv", "conv", "full_attention"] * 3,
    "qwen3_5": (["linear_attention"] * 3 + ["full_attention"]) * 2,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "lfm2": ("Lfm2", {"layer_types": _LAYERS["lfm2"], "block_auto_adjust_ff_dim": False}),
    "qwen3_5": ("Qwen3_5Text", {"layer_types": _LAYERS["qwen3_5"], "head_dim": 64} | _LINEAR),
    "falcon_h1": ("FalconH1", {"num_hidden_layers": 7} | _MAMBA),
}
"""For each family, the prefix of its class names and the sizes of its target."""
OUTPUTS = ("out_proj", "o_proj", "down_proj", "w2")  # matrices whose output is added to the residual stream


def hybrid_pair(
    family: str, dtype: torch.dtype, acceptance: float = ACCEPTANCE, device: str = "cpu"
) -> tuple[ModelPair, float]:
    """A pair with a target of this family, and the acceptance that it has."""
    torch.manual_seed(0)
    prefix, entries = FAMILIES[family]
    entries = _TARGET | {"num_hidden_layers": len(entries.get("layer_types", ()))} | entries
    target = random_model(prefix, torch.float32, **entries)
    draft = random_model("Llama", torch.float32, **_SIZES, **_DRAFT)
    with torch.no_grad():
        for weight in _outputs(draft):
            weight.mul_(0.1)
        draft.lm_head.weight.mul_(math.sqrt(SPREAD * math.log(VOCABULARY)))
        for name in ("get_input_embeddings", "get_output_embeddings"):
            wide, narrow = getattr(target, name)().weight, getattr(draft, name)().weight
            wide.zero_()[:, :DRAFT_WIDTH] = narrow
        # The norm before the head divides by a smaller number in the wider stream, half of which is zeros.
        target.get_output_embeddings().weight.mul_(math.sqrt(DRAFT_WIDTH / WIDTH))
    token_ids = torch.randint(1, VOCABULARY, (1, TEXT))
    measured = calibrate(target, draft, _outputs(target), token_ids, acceptance)
    target.to(device)
    wrapped = HFModel(target, f"{family}, {target.num_parameters() / 1e6:.0f} M parameters")
    if wrapped.capability == "ar":
        raise ValueError(wrapped.capability_reason)
    # In half precision the self-check would prove nothing, because these logits depend little on any token
    # but the last.
    target.to(dtype)
    wrapped._prepared = replace(wrapped._prepared, dtype=dtype)
    draft.to(device, dtype)
    return ModelPair(wrapped, HFModel(draft, "draft")), measured


def _outputs(model: PreTrainedModel) -> list[torch.nn.Parameter]:
    return [weight for name, weight in model.named_parameters() if name.split(".")[-2] in OUTPUTS]
