"""Laws of the lean forward pass: it gives the model's own logits, and runs only for models that it knows."""

from __future__ import annotations

import json
import random
import time

import pytest
import torch
import transformers

import specdec
from specdec.models import HFModel, free_memory, lean
from specdec.models.kernels import compiled
from specdec.models.lean import LeanDecoder
from specdec.models.selfcheck import relative_error
from specdec.models.sessions.cached import TreeSession
from specdec.models.sessions.own_forward import LeanSession
from tests.helpers.sessions import Replay, scored
from tests.helpers.tiny_checkpoints import tiny_config, tiny_model

YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 2.0, "original_max_position_embeddings": 256}


def qwen2() -> transformers.PreTrainedModel:
    sizes = tiny_config("llama").to_dict()
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    config = transformers.Qwen2Config(**{name: sizes[name] for name in names}, num_key_value_heads=2)
    torch.manual_seed(0)
    model = transformers.Qwen2ForCausalLM(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # its biases start at zero
    return model.eval()


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch):
    """Without this, sessions would take the compiled forward pass, which has its own tests."""
    monkeypatch.setenv(compiled.SWITCH, "0")


MODELS = {
    "llama": lambda: tiny_model("llama"),
    "qwen3": lambda: tiny_model("qwen3"),
    "mistral": lambda: tiny_model("mistral", sliding_window=None),
    "qwen2, with biases": qwen2,
    "as many keys as queries": lambda: tiny_model("llama", num_key_value_heads=4),
    "a window that its class ignores": lambda: tiny_model("llama", sliding_window=40),
    "yarn": lambda: tiny_model("llama", rope_parameters=YARN),
    "float64": lambda: tiny_model("llama", torch.float64),
    "biases everywhere": lambda: tiny_model("llama", attention_bias=True, mlp_bias=True),
}


@pytest.mark.parametrize("name", MODELS)
def test_it_scores_what_the_models_own_forward_scores(name):
    model = HFModel(MODELS[name]())
    assert type(model.session()) is LeanSession, model.capability_reason
    assert Replay(model, seed=0, prefix=40).largest_error(2) < (1e-10 if name == "float64" else 2e-5)


def test_a_model_with_a_window_keeps_its_own_forward_without_a_warning(caplog):
    model = HFModel(tiny_model("mistral", sliding_window=10))
    assert type(model.session()) is TreeSession
    assert not caplog.messages


def test_a_long_text_needs_more_angles_than_the_first():
    model = HFModel(tiny_model("llama", max_position_embeddings=2048))
    assert Replay(model, seed=0, prefix=1200).largest_error(1) < 5e-5


def test_a_shorter_table_of_angles_from_another_thread_does_no_harm(monkeypatch):
    decoder = LeanDecoder(tiny_model("llama"))
    places = torch.tensor([3, 700])
    want, short = decoder.rotation(places, 700), decoder._all_rotations(512)
    # Each value that this thread assigns, another thread overwrites right after.
    monkeypatch.setattr(LeanDecoder, "_rotation", property(lambda _: short, lambda *_: None), raising=False)
    assert torch.equal(decoder.rotation(places, 700), want)


@pytest.mark.parametrize("make", [qwen2, lambda: tiny_model("qwen3")], ids=["biases", "more norms"])
def test_packed_and_transposed_weights_score_what_plain_ones_do(make, monkeypatch):
    rows = []
    for room, transposed in ((0, False), (1 << 30, False), (1 << 30, True)):
        monkeypatch.setattr(free_memory, "free", lambda _, room=room: room)
        monkeypatch.setattr(lean, "better_transposed", lambda *_, transposed=transposed: transposed)
        model = HFModel(make())
        assert type(model.session()) is LeanSession
        rows.append(scored(model, [3, 4, 5], [6, 7], [-1, -1]))
    for other in rows[1:]:
        # the two paths use different operations; otherwise nothing would be compared
        assert not torch.equal(rows[0], other)
        assert relative_error(rows[0], other) < 1e-5


def test_the_record_of_a_run_says_how_its_logits_were_computed():
    pair = specdec.ModelPair(tiny_model("llama"), tiny_model("gpt2"))
    run = specdec.generate(pair, [3], max_new_tokens=4, seed=0)
    assert "target: lean forward, packed, float32, cpu; draft: transformers' forward" in run.arithmetic
    assert f"torch {torch.__version__}" in run.arithmetic
    assert specdec.Generation.from_json(run.to_json()) == run
    record = json.loads(run.to_json())
    del record["arithmetic"]
    assert specdec.Generation.from_json(json.dumps(record)).arithmetic == ""


def logits() -> list[float]:
    """Sums of logits of both models of the embedded pair."""
    pair, sums = specdec.load_pair("stories"), []
    for model in (pair.target, pair.draft):
        for count in (1, 2, 5):
            rows = scored(model, [3, 4, 5], range(6, 6 + count), [-1] * count)
            sums += rows.double().sum(1).tolist()
    return sums


def test_no_choice_between_ways_to_multiply_depends_on_a_clock(monkeypatch):
    """Other work on the machine changes no bit."""
    want, clock = logits(), time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + random.random() / 1000)
    assert logits() == want


class Own(transformers.LlamaForCausalLM):
    """A subclass that might do anything."""


class Quantised(torch.nn.Linear):
    """A layer that does not multiply with its `weight`."""


DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
CHANGES = {
    "a subclass": lambda m: setattr(m, "__class__", Own),
    "a hook": lambda m: m.model.layers[0].register_forward_hook(lambda module, inputs, output: output),
    "a strange matrix": lambda m: setattr(m.model.layers[0].mlp.up_proj, "__class__", Quantised),
    "two dtypes": lambda m: m.lm_head.to(torch.bfloat16),
    "stretched by length": lambda m: setattr(m.config, "rope_parameters", DYNAMIC),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_what_is_not_as_its_class_makes_it_is_refused(change):
    model = tiny_model("llama")
    change(model)
    with pytest.raises(ValueError, match=r"no lean forward|not its class's|several|changes with"):
        LeanDecoder(model)


def test_a_forward_that_differs_is_not_used(monkeypatch):
    right = LeanDecoder.hidden
    monkeypatch.setattr("specdec.models.long_context._checks", {})  # which keeps faults for later models
    monkeypatch.setattr(LeanDecoder, "hidden", lambda *args: right(*args) * 1.001 + 0.1)
    model = HFModel(tiny_model("llama"))
    assert type(model.session()) is TreeSession
    assert (model.capability, model.decoder) == ("tree", None)
