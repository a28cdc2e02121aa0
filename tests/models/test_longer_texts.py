"""Laws of texts beyond windows, chunks, kept lengths and rotary switches: no text is silently wrong."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
import transformers
from packaging.version import Version

from components.runs import run
from specdec import ModelPair
from specdec.models import HFModel
from specdec.models.base import SessionKind
from specdec.models.long_context import LongContextCheck
from specdec.models.session_kinds import switch_length
from specdec.models.sessions.cached import TreeSession
from specdec.models.sessions.plain import PlainSession
from specdec.models.sessions.switching import SwitchingSession
from specdec.models.shrink import NAMES, ROOM, SMALL, context_length, lengths, shrunken, small_model
from tests.helpers.sessions import Replay
from tests.helpers.tiny_checkpoints import tiny_config, tiny_model
from tests.helpers.zoo import OUT, examine, variations

BEYOND = {
    ("phi3", "longrope"): "tree",
    ("llama4_text", "chunk of 16"): "sequence",
    ("doge", "kept length"): "ar",
    ("deepseek_v32", "default"): "sequence",
    ("falcon_h1", "default"): "sequence",
    ("minimax", "default"): "sequence",
    ("granitemoehybrid", "default"): "sequence",
    ("jamba", "default"): "ar",
    ("llama", "stray sliding_window"): "tree",
    ("gpt_neo", "default"): "sequence",
    ("bamba", "default"): "sequence",
    ("gemma3_text", "default"): "tree",
}
"""Types whose logits change beyond some length, or only seem to, and their capability beyond it."""
FACTORS = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [2.0, 3.0, 4.0, 5.0]}


def longrope_model(switch: int = 24, context: int = 128) -> HFModel:
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "factor": context / switch, **FACTORS}
    rope["original_max_position_embeddings"] = switch
    return HFModel(
        tiny_model("llama", rope_parameters=rope, max_position_embeddings=context), name="longrope"
    )


@pytest.mark.parametrize(("model_type", "variation"), BEYOND)
def test_texts_beyond_every_length_are_those_of_plain_forwards(model_type, variation):
    if model_type == "doge" and Version(transformers.__version__) < Version("5.18"):
        pytest.skip("in this version doge is not causal, and refused")
    row = examine(variations(model_type)[variation].build())
    assert row["capability"] == BEYOND[model_type, variation], row["reason"]
    assert row["tokens"] >= 36
    assert not any(row["deviating_texts"].values()), row
    assert max(row["tokens_per_call"].values()) > 2 or row["capability"] == "ar", "nothing was drafted"


def test_where_its_own_cache_differs_the_user_is_told(caplog):
    model = HFModel(variations("roberta")["default"].build(), name="roberta")
    assert type(model.session()) is PlainSession
    assert "its own cache gives logits that are off by" in model.capability_reason
    assert "a forward pass over all text" in model.capability_reason
    assert "roberta: its own cache" in caplog.text
    assert model.note in run.models(ModelPair(model))[0]["note"], "the page says it, too"
    assert "note" not in run.models(ModelPair(HFModel(tiny_model("llama"))))[0]


def test_a_session_that_forgets_the_switch_fails():
    model = longrope_model()
    assert type(model.session()) is SwitchingSession
    kind = SessionKind("no switch", "tree", TreeSession)
    with torch.inference_mode():
        fault = LongContextCheck(model.module).fault(kind)
    assert "on longer texts" in fault


@pytest.mark.parametrize("tokens", [2, 5, 18])
def test_models_of_few_tokens_are_checked_on_longer_texts_too(tokens):
    module = tiny_model("llama", vocab_size=tokens, bos_token_id=0, eos_token_id=1, pad_token_id=None)
    check = LongContextCheck(module)
    kind = SessionKind("tree", "tree", TreeSession)
    with torch.inference_mode():
        assert check.fault(kind) is None
    assert check.missing is None


@pytest.mark.parametrize("chunk", [5, 1024])
@pytest.mark.parametrize("prefix", [3, 23, 24, 25, 60])
def test_any_tree_around_a_rotary_switch_is_scored_as_plain_forwards_do(prefix, chunk, monkeypatch):
    monkeypatch.setattr("specdec.models.sessions.cached.PREFILL_CHUNK", chunk)
    replay = Replay(longrope_model(), seed=prefix, prefix=prefix)
    assert type(replay.session) is SwitchingSession
    assert replay.largest_error(8) < 2e-5


def test_a_length_in_a_dictionary_is_one_too():
    config = tiny_config("llama", max_position_embeddings=4096)
    config.sliding_window = 300
    config.nested = {"deeper": {"original_max_position_embeddings": 2000, "flag": True}}
    assert lengths(config) == {300, 2000, 4096}
    small = shrunken(config)
    nested = small.nested["deeper"]["original_max_position_embeddings"]
    assert SMALL < small.sliding_window < nested < context_length(small) - ROOM
    assert (config.sliding_window, config.max_position_embeddings) == (300, 4096)


def test_equal_lengths_stay_equal_and_all_keep_their_order():
    rng = random.Random(0)
    for _ in range(20):
        config = tiny_config("llama", max_position_embeddings=rng.randrange(100, 200_000))
        names = NAMES["length"].split()[:12]
        values = {name: rng.choice([5, 64, rng.randrange(2, 300_000)]) for name in names}
        for key, value in values.items():
            setattr(config, key, value)
        small = shrunken(config)
        for one, a in values.items():
            for other, b in values.items():
                assert (a < b) == (getattr(small, one) < getattr(small, other)), (a, b)
            if a <= SMALL:
                assert getattr(small, one) == a


@pytest.mark.parametrize("model_type", ["gemma3_text", "deepseek_v3", "jamba"])
def test_a_copy_of_a_model_of_billions_is_small_and_has_a_layer_of_each_kind(model_type):
    variation = variations(model_type)["default"]
    small = small_model(variation.kind, variation.config)
    assert small.num_parameters() < 20e6
    kinds = [getattr(config, "layer_types", None) or [] for config in (variation.config, small.config)]
    assert set(kinds[0]) == set(kinds[1])


def test_a_model_without_a_small_copy_says_so(monkeypatch, caplog):
    monkeypatch.setattr("specdec.models.long_context.small_model", lambda *_: 1 / 0)
    monkeypatch.setattr("specdec.models.long_context._checks", {})
    model = HFModel(tiny_model("llama"), name="big")
    assert model.capability == "tree"
    assert "unchecked beyond" in model.capability_reason
    assert "ZeroDivisionError" in caplog.text


def test_checks_are_kept_by_shape_not_by_weights(monkeypatch):
    HFModel(tiny_model("gpt2", seed=1))
    monkeypatch.setattr("specdec.models.long_context.small_model", lambda *_: pytest.fail("built again"))
    HFModel(tiny_model("gpt2", seed=2))


def test_a_context_shorter_than_stated_is_found():
    module = variations("roberta")["default"].build()
    model, stated = HFModel(module), module.config.max_position_embeddings
    assert model.context_length == stated - 2  # positions begin after the position of the padding
    with pytest.raises((IndexError, RuntimeError)):
        module(torch.full((1, stated - 1), 5))
    session = model.session()
    session.prefill([5] * (stated - 3))
    session.forward(torch.tensor([5]), [-1])
    session.commit([0])
    with pytest.raises(ValueError, match="which is full"):
        session.forward(torch.tensor([5]), [-1])


def test_a_rotary_switch_is_read_wherever_it_stands():
    long = {"rope_type": "longrope", "original_max_position_embeddings": 64}
    other = long | {"original_max_position_embeddings": 65}
    for parameters, switch in (
        (long, 64),
        ({"full_attention": long, "sliding_attention": {"rope_type": "default"}}, 64),
        ({"full_attention": long, "sliding_attention": other}, None),
        ({"rope_type": "yarn", "original_max_position_embeddings": 64}, None),
        (None, None),
    ):
        config = tiny_config("llama")
        vars(config)["rope_parameters"] = parameters
        assert switch_length(config) == switch


def test_no_text_of_the_committed_zoo_deviates():
    rows = json.loads((Path(__file__).parent.parent.parent / OUT).read_text())["rows"]
    assert {row["capability"] for row in rows if "capability" in row} == {"tree", "sequence", "ar"}
    assert [row["type"] for row in rows if any(row.get("deviating_texts", {}).values())] == []
