"""Three versions make the same decisions: `algorithms` on tables, `simple` on models, and the decoder."""

from functools import cache

import pytest
import torch

import specdec
from specdec import simple
from specdec.topology import Topology, batch, sequence, specinfer
from tests.core.test_algorithms import WIDE
from tests.helpers.tiny_checkpoints import noisy, tiny_model

TOPOLOGIES = [Topology([]), specdec.topology.simple(), sequence(4), batch(5), specinfer(8), WIDE]
PROMPT = [3, 17, 8, 42, 5]


@cache
def models_of(family):
    """A target, and a draft that is the target with noise, in float64."""
    target = tiny_model(family, torch.float64, eos_token_id=None)
    return target, noisy(target, 0.3)


@pytest.fixture
def models():
    return models_of("llama")


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
@pytest.mark.parametrize(("method", "family"), [("gsd", "llama"), ("ersd", "qwen3")])
def test_texts_are_those_of_the_decoder(method, topology, family):
    pair = specdec.ModelPair(*models_of(family))
    for seed, temperature in ((0, 1.0), (1, 0.6)):
        settings = {"method": method, "max_new_tokens": 40, "temperature": temperature, "seed": seed}
        want = specdec.generate(pair, PROMPT, topology=topology, **settings)
        assert want.num_target_calls < 40 or not topology.num_draft_tokens  # some drafts were accepted
        assert simple.decode(*models_of(family), PROMPT, topology, **settings) == want.token_ids


def test_the_comparison_catches_a_cache_that_keeps_the_tree(models, monkeypatch):
    monkeypatch.setattr(simple.DynamicCache, "crop", lambda *_: None)
    want = specdec.generate(specdec.ModelPair(*models), PROMPT, topology=WIDE, max_new_tokens=40, seed=0)
    with pytest.raises((AssertionError, RuntimeError, IndexError, KeyError)):
        assert simple.decode(*models, PROMPT, WIDE, max_new_tokens=40, seed=0) == want.token_ids


def test_a_text_ends_at_an_end_token(models):
    text = simple.decode(*models, PROMPT, WIDE, seed=3)
    end = text[20]
    assert simple.decode(*models, PROMPT, WIDE, seed=3, eos_ids=[end]) == text[: text.index(end) + 1]


def test_another_method_is_named():
    with pytest.raises(ValueError, match="'magic'"):
        simple.decode(None, None, PROMPT, WIDE, method="magic")
