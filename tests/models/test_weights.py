"""A model's weights while it is used: changes are followed, its mode is left alone, broken ones are named."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest
import torch

import specdec
from specdec.models import HFModel
from specdec.models.selfcheck import relative_error
from specdec.models.weights import Weights, evaluating
from tests.helpers.tiny_checkpoints import FAMILIES, tiny_model

PROMPT = [3, 4, 5, 6]


def scored(model: HFModel) -> torch.Tensor:
    """Logits of a session of two branches behind a short text."""
    session = model.session()
    session.prefill(PROMPT)
    if model.capability == "tree":
        return session.forward(torch.tensor([7, 8]), [-1, -1])
    return session.forward(torch.tensor([7]), [-1])


def plainly(model: HFModel) -> torch.Tensor:
    """The same by forwards of the module, in evaluation mode."""
    with torch.inference_mode(), evaluating(model.module):
        lines = [[*PROMPT, 7], [*PROMPT, 8]][: 2 if model.capability == "tree" else 1]
        return torch.cat([model.module(torch.tensor([line])).logits[:, -1] for line in lines])


def agree(model: HFModel, limit: float = 2e-5) -> bool:
    return relative_error(scored(model).float(), plainly(model).float()) < limit


def uncounted(module):
    for parameter in module.parameters():
        parameter.data.mul_(1.1)


@torch.no_grad()
def counted(module):
    module.model.layers[1].mlp.up_proj.weight[0, 0] += 1.0


@torch.no_grad()
def one_norm(module):
    module.model.norm.weight.mul_(-1)


def loaded(module):
    module.load_state_dict(tiny_model("llama", seed=1).state_dict())


def replaced(module):
    module.model.embed_tokens.weight = tiny_model("llama", seed=2).model.embed_tokens.weight


def trained(module):
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    module(torch.tensor([PROMPT]), labels=torch.tensor([PROMPT])).loss.backward()
    optimiser.step()


@pytest.mark.parametrize("change", [uncounted, counted, one_norm, loaded, replaced, trained])
def test_a_change_of_the_weights_is_followed(change):
    model = HFModel(tiny_model("llama"))
    before, lean = scored(model), model.lean
    assert scored(model).equal(before)
    assert model.lean is lean  # nothing was packed again
    change(model.module)
    assert relative_error(scored(model), before) > 1e-4
    assert agree(model)
    assert model.lean is not None


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "mpt", "mamba"])
def test_another_dtype_is_taken_over(family):
    model = HFModel(tiny_model(family))
    kind = model.capability
    model.module.to(torch.float64)
    assert agree(model, 1e-6)
    assert (model.dtype, model.capability) == (torch.float64, kind)
    model.module.to(torch.bfloat16)
    assert agree(model, 0.1)
    assert (model.dtype, model.capability) == (torch.bfloat16, kind)


def test_a_hook_that_is_added_is_obeyed():
    model = HFModel(tiny_model("llama"))
    assert model.lean is not None
    model.module.model.layers[0].register_forward_hook(lambda module, inputs, output: output * 1.5)
    assert agree(model)
    assert model.lean is None


def test_weights_of_other_shapes_are_named():
    model = HFModel(tiny_model("llama"))
    model.module.resize_token_embeddings(70)
    for _ in range(2):
        with pytest.raises(ValueError, match="other shapes"):
            model.session()


def test_a_pair_whose_target_changed_decodes_with_what_it_is_now():
    pair = specdec.ModelPair(tiny_model("llama"), tiny_model("llama", seed=1))
    loaded(pair.target.module)
    fresh = specdec.ModelPair(tiny_model("llama", seed=1))
    settings = {"max_new_tokens": 30, "seed": 4}
    for method in ("ar", "ersd"):
        run = specdec.generate(pair, PROMPT, method=method, **settings)
        assert run.token_ids == specdec.generate(fresh, PROMPT, method="ar", **settings).token_ids


def test_weights_made_under_inference_mode_serve_and_are_followed():
    with torch.inference_mode():
        module = tiny_model("llama")
    model = HFModel(module)
    assert (model.capability, agree(model)) == ("tree", True)
    with torch.inference_mode():
        for parameter in module.parameters():
            parameter.mul_(1.1)
    assert agree(model)


def in_training(family):
    """A model that drops out half of everything in training, one part of which is not being trained."""
    drops = {"gpt2": ("attn_pdrop", "embd_pdrop", "resid_pdrop"), "llama": ("attention_dropout",)}
    module = tiny_model(family, **dict.fromkeys(drops.get(family, ()), 0.5)).train()
    next(module.base_model.children()).eval()
    return module


@pytest.mark.parametrize("family", ["llama", "gpt2", "mpt", "mamba"])
def test_the_mode_stays_as_it_was_found_and_nothing_is_dropped(family):
    module = in_training(family)
    modes = [part.training for part in module.modules()]
    model = HFModel(module)
    assert agree(model)
    assert scored(model).equal(scored(model))
    assert [part.training for part in module.modules()] == modes
    assert any(modes)
    assert not all(modes)
    pair = specdec.ModelPair(model)
    specdec.generate(pair, PROMPT, method="ar", max_new_tokens=5, seed=0)
    assert [part.training for part in module.modules()] == modes


def test_a_run_that_training_interrupts_drops_nothing():
    module = tiny_model("gpt2", attn_pdrop=0.5, embd_pdrop=0.5, resid_pdrop=0.5)
    pair = specdec.ModelPair(module)
    settings = {"method": "ar", "max_new_tokens": 12, "seed": 0}
    whole = specdec.generate(pair, PROMPT, **settings)
    rounds = []
    for round in specdec.stream(pair, PROMPT, **settings):
        rounds.append(round)
        assert module.training == (len(rounds) > 1)
        module.train()
    assert [token.id for round in rounds for token in round.tokens] == whole.token_ids


def test_two_threads_leave_the_mode_as_the_first_found_it():
    module = tiny_model("llama").train()
    inside, leave = threading.Event(), threading.Event()

    def first():
        with evaluating(module):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(10)
    with evaluating(module):
        leave.set()
        thread.join()
        assert not module.training
    assert module.training


@pytest.mark.parametrize("family", FAMILIES)
def test_models_go_through_pickle_and_copy(family):
    model = HFModel(tiny_model(family), name="own name")
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert again.module is not model.module
        assert (again.name, again.capability) == (model.name, model.capability)
        assert scored(again).equal(scored(model))


def test_a_pair_goes_through_pickle_with_its_text():
    pair = specdec.load_pair()
    again = pickle.loads(pickle.dumps(pair))
    runs = [specdec.generate(each, "Once upon a time", max_new_tokens=20, seed=3) for each in (pair, again)]
    assert runs[0].text == runs[1].text != ""


@torch.no_grad()
def spoil(module, value):
    module.model.layers[1].mlp.down_proj.weight[3, 2] = value


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")], ids=str)
def test_weights_that_are_no_numbers_are_named(value, dtype):
    module = tiny_model("llama", dtype)
    spoil(module, value)
    with pytest.raises(ValueError, match=r"not numbers: model\.layers\.1\.mlp\.down_proj\.weight"):
        HFModel(module)


@pytest.mark.parametrize("which", ["all", "embed_tokens", "lm_head"])
def test_weights_that_are_zero_are_named(which):
    module = tiny_model("llama")
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if which == "all" or which in name:
                parameter.zero_()
    with pytest.raises(ValueError, match="all zero"):
        HFModel(module)


def test_large_sums_of_sound_weights_are_no_fault():
    module = tiny_model("llama", torch.float16)
    with torch.no_grad():
        module.model.layers[0].mlp.up_proj.weight.fill_(100.0)
    assert torch.isinf(module.model.layers[0].mlp.up_proj.weight.sum())
    HFModel(module)


def test_a_glance_sees_each_part():
    module = tiny_model("llama")
    first = Weights.of(module)
    assert Weights.of(module).same(first)
    for change in (one_norm, counted, uncounted):
        before = Weights.of(module)
        change(module)
        assert not Weights.of(module).same(before)
        assert Weights.of(module).same_kind(before)
