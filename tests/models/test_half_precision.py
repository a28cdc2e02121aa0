"""Models in half precision are checked against their own code in float32, so less rounding is not a fault."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import product

import pytest
import torch

from specdec.models import HFModel, selfcheck
from specdec.models.base import PreparedModel
from specdec.models.kernels import CompiledDecoder
from specdec.models.selfcheck import LIMITS, Check, PlainForwards, short_check
from specdec.models.session_kinds import COMPILED, LEAN, unchecked
from specdec.models.widened import Widened
from tests.helpers.tiny_checkpoints import tiny_model

pytest.importorskip("numba")

SHAPES = ((12, 64, 1.5), (2, 64, 4.0), (2, 256, 4.0))
"""Layers, width and gain of the matrices. In bfloat16 torch rounds the logits by 3 to 12% of their spread."""


@torch.no_grad()
def rounding_model(family, layers, width, gain, dtype=torch.bfloat16):
    """A model with matrices of this gain, which amplifies the rounding of each layer."""
    sizes = {"hidden_size": width, "intermediate_size": 3 * width, "head_dim": width // 4}
    model = tiny_model(family, vocab_size=500, num_hidden_layers=layers, **sizes)
    torch.manual_seed(3)  # with some other seeds rounding is smaller
    for name, weight in model.named_parameters():
        if weight.dim() == 2 and "embed" not in name:
            weight.normal_(std=gain / weight.shape[1] ** 0.5)
    return model.to(dtype)


@torch.inference_mode()
def checked(module) -> Check:
    """The check on the model itself."""
    plain = PlainForwards(module, torch.device("cpu"))
    return short_check(unchecked(module, "model", plain.device, plain.vocab_size), plain)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3", "lfm2"])
def test_the_reference_is_the_model_in_float32(family):
    """The logits are equal to the bit. The control is the same forward pass in bfloat16."""
    module, ids = tiny_model(family, torch.bfloat16), torch.arange(3, 15)[None]
    exact = copy.deepcopy(module).float()
    with torch.inference_mode():
        want = exact(input_ids=ids, use_cache=False).logits
        with Widened():
            have = module(input_ids=ids, use_cache=False).logits
        rounded = module(input_ids=ids, use_cache=False).logits
    assert torch.equal(have, want)
    assert not torch.equal(rounded.float(), want)
    assert {parameter.dtype for parameter in module.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize(("family", "shape"), [*product(["llama"], SHAPES), *product(["qwen3"], SHAPES[1:])])
def test_the_compiled_forward_runs_where_torch_rounds_by_more_than_three_percent(family, shape):
    module = rounding_model(family, *shape)
    own, always = checked(module).limit / 3, LIMITS[torch.bfloat16][0]
    model = HFModel(module, "model")
    assert isinstance(model.decoder, CompiledDecoder), model.capability_reason
    assert model.note == ""
    if family == "llama":
        assert own > always


@pytest.mark.parametrize(("kind", "dtype"), [(COMPILED, torch.bfloat16), (LEAN, torch.float16)])
def test_a_wrong_mask_fails_where_much_rounding_is_allowed(kind, dtype):
    with torch.inference_mode():
        check = checked(rounding_model("llama", *SHAPES[0], dtype))
        assert isinstance(check.tried(kind), PreparedModel)
        assert "off by" in check.tried(replace(kind, open=kind.control, control=None))


def test_a_refused_forward_is_named(monkeypatch, caplog):
    """The control is the model above, which has no note."""
    forward = CompiledDecoder.forward
    monkeypatch.setattr(CompiledDecoder, "forward", lambda *args: forward(*args).neg())
    model = HFModel(rounding_model("llama", *SHAPES[0]), "model")
    assert not isinstance(model.decoder, CompiledDecoder)
    fault = "a slower forward pass is used (its compiled forward pass gives logits that are off by"
    assert model.note.startswith(fault)
    assert model.note in model.capability_reason
    assert model.note in caplog.text


def test_code_that_can_t_run_in_float32_is_compared_with_itself(monkeypatch):
    """The limit of earlier versions: four times the error of the model's own cached decoding."""

    class Half(Widened):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise RuntimeError("this kernel takes bfloat16 alone")

    monkeypatch.setattr(selfcheck, "Widened", Half)
    module = rounding_model("llama", *SHAPES[0])
    with torch.inference_mode():
        check = checked(module)
        want = module(input_ids=torch.tensor([[5, 6, 7]]), use_cache=False).logits[0].float()
        assert not check.plain.in_float32
        assert torch.equal(check.plain.last_rows([(5, 6, 7)])[0], want[-1])
        assert check.limit >= LIMITS[torch.bfloat16][0]
