"""Three versions make the same decisions: `algorithms` on tables, `simple` on models, and the decoder."""

import copy

import numpy as np
import pytest
import torch

import specdec
from specdec import algorithms, simple
from specdec.race import Stream, log_exponentials, uniform
from specdec.topology import Topology, batch, sequence, specinfer
from tests.helpers.tiny_checkpoints import tiny_model

WIDE = Topology([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (1, 0, 0), (1, 0, 1)])
TOPOLOGIES = [Topology([]), specdec.topology.simple(), sequence(4), batch(5), specinfer(8), WIDE]
PROMPT = [3, 17, 8, 42, 5]


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def models(request):
    """A target, and a draft that is the target with noise, in float64."""
    target = tiny_model(request.param, torch.float64, eos_token_id=None)
    draft = copy.deepcopy(target)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for weight in draft.parameters():
            weight += 0.3 * weight.std() * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    return target, draft


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_texts_are_those_of_the_decoder(method, topology, models):
    pair = specdec.ModelPair(*models)
    for seed, temperature in ((0, 1.0), (1, 0.6), (2, 1.4)):
        settings = {"method": method, "max_new_tokens": 40, "temperature": temperature, "seed": seed}
        want = specdec.generate(pair, PROMPT, topology=topology, **settings)
        assert want.num_target_calls < 40 or not topology.num_draft_tokens  # some drafts were accepted
        assert simple.decode(*models, PROMPT, topology, **settings) == want.token_ids


def test_the_comparison_catches_a_cache_that_keeps_the_tree(models, monkeypatch):
    monkeypatch.setattr(simple.DynamicCache, "crop", lambda *_: None)
    want = specdec.generate(specdec.ModelPair(*models), PROMPT, topology=WIDE, max_new_tokens=40, seed=0)
    with pytest.raises((AssertionError, RuntimeError, IndexError, KeyError)):
        assert simple.decode(*models, PROMPT, WIDE, max_new_tokens=40, seed=0) == want.token_ids


def test_a_text_ends_at_an_end_token(models):
    whole = simple.decode(*models, PROMPT, WIDE, seed=3)
    end = whole[20]
    assert simple.decode(*models, PROMPT, WIDE, seed=3, eos_ids=[end]) == whole[: whole.index(end) + 1]


def test_another_method_is_named():
    with pytest.raises(ValueError, match="'magic'"):
        simple.decode(None, None, PROMPT, WIDE, method="magic")


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
def test_verification_decides_what_the_algorithms_decide(topology):
    tau, position = {(), *topology.paths}, 4
    depths = range(position, position + topology.depth + 1)
    for seed in range(60):
        tables = np.random.default_rng(seed).dirichlet(np.full(6, 0.5), size=(2, 6))
        P, Q = tables
        e = log_exponentials(seed, depths, 6).exp().numpy()
        U = [[uniform(seed, n, i) for i in range(6)] for n in depths]
        u = [uniform(seed, n, 0, Stream.RESIDUAL) for n in depths]
        drafted = {(): 0} | algorithms.draft((0,), Q, tau, e)
        p_rows, q_rows = ({path: table[token] for path, token in drafted.items()} for table in tables)
        assert tuple(simple.ersd(drafted, p_rows, position, seed)) == algorithms.ersd((0,), Q, P, tau, e)
        got = simple.gsd(drafted, p_rows, q_rows, position, seed)
        assert tuple(got) == algorithms.gsd((0,), Q, P, tau, e, U, u)
