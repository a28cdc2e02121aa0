"""A model's weights in use: `refresh` follows changes, the model's mode stays, broken weights are named."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import specdec
from specdec.models import HFModel
from specdec.models.selfcheck import relative_error
from tests.helpers import sessions
from tests.helpers.tiny_checkpoints import tiny_model

PROMPT = [3, 4, 5, 6]


def scored(model: HFModel) -> torch.Tensor:
    """Logits after a short text."""
    return sessions.scored(model, PROMPT, [7])


def agree(model: HFModel, limit: float = 2e-5) -> bool:
    """Whether a session's logits are those of the module's own forward passes."""
    return sessions.Replay(model, seed=0, prefix=4).largest_error(1) < limit


@torch.enable_grad()
def trained(module):
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    module(torch.tensor([PROMPT]), labels=torch.tensor([PROMPT])).loss.backward()
    optimiser.step()


def replaced(module):
    module.model.embed_tokens.weight = tiny_model("llama", seed=2).model.embed_tokens.weight


def other_scaling(module):
    for layer in module.model.layers:
        layer.self_attn.scaling *= 3


def forward_of_its_own(module):
    part = module.model.layers[0].mlp
    part.forward = lambda x: 2 * type(part).forward(part, x)


class Adapted(torch.nn.Module):
    """A large and a small matrix in a hand-written layer without a `weight`."""

    def __init__(self, linear):
        super().__init__()
        self.linear, self.down = linear, torch.nn.Linear(linear.in_features, 2, bias=False)
        self.up = torch.nn.Linear(2, linear.out_features, bias=False)

    def forward(self, x):
        return self.linear(x) + self.up(self.down(x))


def adapted(module):
    for layer in module.model.layers:
        layer.self_attn.q_proj = Adapted(layer.self_attn.q_proj)


OTHER_WEIGHTS = tiny_model("llama", seed=1).state_dict()
CHANGES = {
    "of which torch counts no change": lambda m: [each.data.mul_(1.1) for each in m.parameters()],
    "one number": lambda m: m.model.layers[1].mlp.up_proj.weight[0, 0].add_(1.0),
    "one norm": lambda m: m.model.norm.weight.mul_(-1),
    "loaded": lambda m: m.load_state_dict(OTHER_WEIGHTS),
    "replaced": replaced,
    "trained": trained,
    "slower turns": lambda m: m.model.rotary_emb.inv_freq.mul_(3),
    "larger epsilon": lambda m: setattr(m.model.norm, "variance_epsilon", 1.0),
    "other scaling": other_scaling,
}
FOREIGN = {
    "one other scaling": lambda m: setattr(m.model.layers[1].self_attn, "scaling", 3.0),
    "a forward of its own": forward_of_its_own,
    "layers without a weight": adapted,
    "a hook": lambda m: m.model.layers[0].register_forward_hook(lambda module, inputs, output: output * 1.5),
}
"""Changes after which no forward of ours fits the model."""


@pytest.mark.parametrize("change", [*CHANGES, *FOREIGN])
def test_refresh_follows_a_change_and_a_new_wrapper_agrees(change):
    model = HFModel(tiny_model("llama"))
    before = scored(model)
    with torch.no_grad():
        (CHANGES | FOREIGN)[change](model.module)
    model.refresh()
    assert relative_error(scored(model), before) > 1e-4
    for each in (model, HFModel(model.module)):
        assert agree(each)
        assert (each.decoder is None, each.capability) == (change in FOREIGN, "tree")


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "mpt", "mamba", "lfm2"])
def test_another_dtype_is_taken_over(family):
    model = HFModel(tiny_model(family))
    kind = model.capability
    for dtype, limit in ((torch.float64, 1e-6), (torch.bfloat16, 0.1)):
        model.module.to(dtype)
        model.refresh()
        assert agree(model, limit)
        assert (model.dtype, model.capability) == (dtype, kind)


def test_a_pair_that_is_refreshed_decodes_with_what_its_models_are_now():
    pair = specdec.ModelPair(tiny_model("llama"), tiny_model("llama", seed=1))
    pair.measurements["ersd"] = None
    pair.target.module.load_state_dict(OTHER_WEIGHTS)
    pair.refresh()
    assert not pair.measurements
    fresh = specdec.ModelPair(tiny_model("llama", seed=1))
    settings = {"max_new_tokens": 30, "seed": 4}
    for method in ("ar", "ersd"):
        run = specdec.generate(pair, PROMPT, method=method, **settings)
        assert run.token_ids == specdec.generate(fresh, PROMPT, method="ar", **settings).token_ids


def test_weights_made_under_inference_mode_serve():
    with torch.inference_mode():
        model = HFModel(tiny_model("llama"))
    assert (model.capability, agree(model)) == ("tree", True)


def in_training(family):
    """A model with a dropout of one half in training, and a part that is not trained."""
    drops = {"gpt2": ("attn_pdrop", "embd_pdrop", "resid_pdrop"), "llama": ("attention_dropout",)}
    module = tiny_model(family, **dict.fromkeys(drops.get(family, ()), 0.5)).train()
    next(module.base_model.children()).eval()
    return module


@pytest.mark.parametrize("family", ["llama", "gpt2", "mpt", "mamba", "mamba2"])
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
    run = specdec.generate(pair, PROMPT, **settings)
    rounds = []
    for round in specdec.stream(pair, PROMPT, **settings):
        rounds.append(round)
        assert module.training == (len(rounds) > 1)
        module.train()
    assert [token.id for round in rounds for token in round.tokens] == run.token_ids


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "mpt", "mamba", "lfm2"])
def test_models_go_through_pickle_and_copy(family):
    model = HFModel(tiny_model(family), name="own name")
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert copied.module is not model.module
        assert (copied.name, copied.capability) == (model.name, model.capability)
        assert scored(copied).equal(scored(model))


def test_large_sums_of_sound_weights_are_no_fault():
    module = tiny_model("llama", torch.float16)
    with torch.no_grad():
        module.model.layers[0].mlp.up_proj.weight.fill_(100.0)
    assert torch.isinf(module.model.layers[0].mlp.up_proj.weight.sum())
    HFModel(module)


def test_a_head_that_scores_other_tokens_now_is_named():
    model = HFModel(tiny_model("llama"))
    before = scored(model)
    model.module.resize_token_embeddings(70)
    with pytest.raises(ValueError, match=r"scored 61 tokens .* scores 70 now"):
        model.refresh()
    assert scored(model).equal(before)


def test_a_module_that_fails_is_named_and_serves_when_it_is_whole_again():
    model = HFModel(tiny_model("llama"))
    layer = model.module.model.layers[1]
    before, part = scored(model), layer.mlp
    layer.mlp = None
    with pytest.raises(ValueError, match=r"Llama.* can't be run as a causal language model"):
        model.refresh()
    layer.mlp = part
    model.refresh()
    assert model.decoder is not None
    assert agree(model, 1e-3)
    assert relative_error(scored(model), before) < 1e-2


def fill(value):
    return lambda module: module.model.layers[1].mlp.down_proj.weight[3, 2].fill_(value)


def zero(part):
    """Sets all weights to zero whose names contain this part."""
    return lambda module: [weight.zero_() for name, weight in module.named_parameters() if part in name]


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("changes", "spoil", "message"),
    [
        *(
            ({"dtype": dtype}, fill(value), r"not numbers: model\.layers\.1\.mlp\.down_proj\.weight")
            for dtype, value in zip(
                (torch.float32, torch.bfloat16, torch.float16), (NAN, INFINITE, -INFINITE)
            )
        ),
        *(({}, zero(part), "all zero") for part in ("", "embed_tokens", "lm_head")),
        ({}, zero("norm"), "the same logits"),
        ({"rms_norm_eps": INFINITE}, None, "the same logits"),
        ({"vocab_size": 1, "eos_token_id": 0, "bos_token_id": 0}, None, "1 tokens the same logits"),
        ({"rms_norm_eps": NAN}, None, "not numbers"),
        ({"rms_norm_eps": -5.0}, None, "not numbers"),
        ({}, lambda m: m.lm_head.weight.mul_(1e38), "not numbers"),
        ({}, lambda m: m.to(torch.float8_e4m3fn), "Llama"),
        ({}, lambda m: m.to("meta"), "Llama"),
        ({}, lambda m: m.lm_head.half(), "Llama"),
        ({}, lambda m: setattr(m.model.layers[1], "mlp", None), "Llama"),
    ],
)
def test_what_can_not_be_run_or_tells_nothing_is_named(changes, spoil, message):
    module = tiny_model("llama", **changes)
    with torch.no_grad():
        spoil and spoil(module)
    with pytest.raises(ValueError, match=message):
        HFModel(module, name="Llama")
