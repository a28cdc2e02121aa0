"""The audit's calls of openvino-genai, with a stand-in for it."""

import sys
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from research.audit.engines import engines
from research.audit.openvino import pipeline
from specdec import ModelPair
from tests.helpers.distributions import markov_pair


class Engine:
    """A stand-in that writes 0, 1, 2, ..."""

    made: ClassVar[list[tuple[tuple, dict]]] = []
    asked: ClassVar[list[tuple[list[int], SimpleNamespace]]] = []

    def __init__(self, *place, **properties):
        self.made.append((place, properties))

    def get_generation_config(self):
        return SimpleNamespace()

    def generate(self, ids, config):
        self.asked.append((ids[0].tolist(), config))
        return SimpleNamespace(tokens=[range(config.max_new_tokens)])


@pytest.fixture
def stand_in(monkeypatch):
    Engine.made, Engine.asked = [], []
    genai, core = ModuleType("openvino_genai"), ModuleType("openvino")
    genai.LLMPipeline, genai.SchedulerConfig = Engine, SimpleNamespace
    genai.draft_model = lambda *place, **properties: (place, properties)
    core.Tensor = np.asarray
    monkeypatch.setitem(sys.modules, "openvino_genai", genai)
    monkeypatch.setitem(sys.modules, "openvino", core)
    return Engine


def test_what_is_asked_reaches_the_engine(stand_in):
    assert pipeline("t", "d", k=2)([5, 6], 7, 4, 0.5, 9, 0.8) == [0, 1, 2, 3]
    place, properties = stand_in.made[0]
    exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "INFERENCE_NUM_THREADS": 1}
    assert place == ("t", "CPU")
    assert properties["draft_model"] == (("d", "CPU"), exact)
    assert properties["scheduler_config"].enable_prefix_caching is False
    assert exact.items() <= properties.items()
    ids, config = stand_in.asked[0]
    assert ids == [5, 6]
    sampling = {"do_sample": True, "temperature": 0.5, "top_k": 9, "top_p": 0.8}
    assert vars(config) == sampling | {"max_new_tokens": 4, "rng_seed": 7, "num_assistant_tokens": 2}
    assert pipeline("t")([5], 0, 3, 0.0, 0, 1.0) == [0, 1, 2]
    assert stand_in.asked[1][1].do_sample is False


def test_a_draft_that_is_missing_is_named():
    with pytest.raises(ValueError, match="openvino-draft: the pair has no draft"):
        engines()["openvino-draft"].start(ModelPair(markov_pair().target))
