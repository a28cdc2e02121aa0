"""Where one token is left, the rules of others write on real architectures what transformers writes."""

from __future__ import annotations

from functools import cache

import pytest
import torch

import specdec
from specdec.topology import Topology, batch
from tests.helpers.laws import OTHER_RULES
from tests.helpers.tiny_checkpoints import tiny_model

TREES = {
    "default": None,
    "batch": batch(3),
    "tree": Topology([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]),
}
SAMPLING = {
    "temperature 0": {"temperature": 0},
    "temperature 0, top-p 0.9": {"temperature": 0, "top_p": 0.9},
    "top-p of one token": {"top_p": 1e-6},
    "top-k of one token": {"top_k": 1},
}
PROMPT = [7, 8, 9, 10]


@cache
def greedy(family):
    """A pair that no token ends, and what transformers writes after the prompt."""
    target = tiny_model(family)
    target.generation_config.eos_token_id = None
    pair = specdec.ModelPair(target, tiny_model("llama", seed=3))
    pair.eos_ids = frozenset()
    ids = target.generate(torch.tensor([PROMPT]), do_sample=False, max_new_tokens=40, pad_token_id=0)
    return pair, ids[0, len(PROMPT) :].tolist()


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen3", "gemma3"])
@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("rule", OTHER_RULES)
def test_a_rule_writes_what_transformers_writes(rule, tree, sampling, family):
    pair, expected = greedy(family)
    settings = {"topology": TREES[tree], "max_new_tokens": 40, "seed": 0} | SAMPLING[sampling]
    g = specdec.generate(pair, PROMPT, method=rule, **settings)
    assert g.token_ids == expected


@pytest.mark.parametrize("rule", OTHER_RULES)
def test_a_rule_accepts_all_of_a_draft_that_is_the_target(rule):
    """As sure as greedy texts are: five tokens a target call of the default tree."""
    target = tiny_model("llama")
    pair = specdec.ModelPair(target, tiny_model("llama"))
    pair.eos_ids = frozenset()
    g = specdec.generate(pair, PROMPT, method=rule, temperature=0, max_new_tokens=40, seed=0)
    assert len(g.rounds) == 8
