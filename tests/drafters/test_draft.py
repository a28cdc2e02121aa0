"""Drafting without a softmax gives the same first arrivals and the same errors as with one."""

import math

import pytest
import torch

import specdec
from specdec.drafters.model import ModelDrafter
from specdec.models import HFModel
from specdec.models.requests import Request, answered
from specdec.probs import Sampling, log_probs
from specdec.race import PositionNoise, Races
from specdec.topology import Topology, batch, sequence
from tests.helpers.distributions import markov_pair
from tests.helpers.sessions import scored
from tests.helpers.tiny_checkpoints import tiny_model

SAMPLINGS = [*map(Sampling, (1, 0.3, 1e-40, 0)), Sampling(top_k=3), Sampling(top_p=0.7)]
TREE = Topology([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])


def drafted(model, sampling, topology, seed=0):
    drafter = ModelDrafter(model, 8, sampling)
    return answered(drafter.draft([3], topology, topology.depth, PositionNoise(Races(seed, 8), 1)))


@pytest.mark.parametrize("topology", [sequence(3), batch(6), TREE], ids=str)
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_children_are_the_first_arrivals_under_q(topology, sampling):
    model = markov_pair(8).draft
    for seed in range(20):
        tree, tokens, log_q, *_ = drafted(model, sampling, topology, seed)
        races = Races(seed, 8)
        for row, children in enumerate(tree.children):
            if not children:
                continue
            distribution = log_probs(model.log_table[tokens[row]][None], sampling)
            assert torch.equal(log_q[row], distribution[0])
            first = races.at(1 + tree.depths[row]).arrivals(distribution, len(topology.children[0]))[0]
            assert [tokens[child] for child in children] == first[: len(children)]


@pytest.mark.parametrize("count", [2, 6], ids=["few", "many"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_broken_logits_are_an_error_and_no_lack_of_support(bad, count):
    model = markov_pair(8).draft
    model.log_table[3, 5 if bad != -math.inf else slice(None)] = bad
    with pytest.raises(ValueError, match="logits hold NaN"):
        drafted(model, Sampling(), batch(count))


@pytest.mark.parametrize(
    "wrong", [lambda x: x[:, :4], lambda x: x.repeat(2, 1), lambda x: x[0], lambda _: "x"]
)
def test_logits_of_a_wrong_shape_are_named(wrong, monkeypatch):
    pair = markov_pair(8)
    session = type(pair.target.session())
    right = session.forward
    monkeypatch.setattr(session, "forward", lambda *arguments: wrong(right(*arguments)))
    with pytest.raises(ValueError, match=r"gave .* (logits|tokens)"):
        specdec.generate(pair, [1], seed=0, max_new_tokens=4)


@pytest.mark.parametrize("lag", [5, 257, 258, 600])
def test_a_draft_that_lags_far_behind_reads_the_text_in_pieces(lag, monkeypatch):
    model = HFModel(tiny_model("llama", max_position_embeddings=1024))
    text_ids = [1 + place % 50 for place in range(lag)]
    pieces, answer = [], Request.answer

    def noted(request):
        pieces.append(len(request.token_ids))
        return answer(request)

    monkeypatch.setattr(Request, "answer", noted)
    logits = answered(ModelDrafter(model, 61, Sampling()).score_root(text_ids))
    assert (sum(pieces), pieces[-1]) == (lag, 1)
    assert max(pieces) <= 256
    assert torch.allclose(logits, scored(model, text_ids[:-1], text_ids[-1:]), atol=1e-5)
