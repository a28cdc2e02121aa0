"""Laws of CUDA graphs on a GPU: a replay scores what the eager forward scores. Skipped without one.

What does not need a GPU is in `test_graphs`.
"""

from __future__ import annotations

import random

import pytest
import torch

import specdec
from specdec.models import HFModel, graphs
from specdec.models.graphs import GraphSession
from specdec.models.selfcheck import relative_error
from specdec.models.sessions import LeanSession
from specdec.models.ways import UNWINDOWED
from tests.helpers.tiny_checkpoints import VOCAB_SIZE, tiny_model
from tests.models.test_models import random_line, random_tree

DEVICE = "cuda"
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")

LIMITS = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 0.1}
"""Relative to the logits' spread: eager attention runs over fewer places, and so adds up in another order."""


def model_with_graphs(dtype=torch.float32, **changes):
    model = HFModel(tiny_model("llama", dtype, **changes).to(DEVICE), cuda_graphs=True)
    assert model.graphs is not None, "the self-check refused the graphs"
    return model


class Both:
    """A session with graphs beside an eager one."""

    def __init__(self, model, seed, prefix=5):
        self.rng = random.Random(seed)
        self.sessions = model.session(), LeanSession(model, UNWINDOWED)
        assert type(self.sessions[0]) is GraphSession
        self.prefill(prefix)

    def prefill(self, count):
        tokens = self._tokens(count)
        for session in self.sessions:
            session.prefill(tokens)

    def forward(self, parents):
        """The error of a replay, relative to the logits' spread."""
        tokens = torch.tensor(self._tokens(len(parents)), device=DEVICE)
        have, want = (session.forward(tokens, parents) for session in self.sessions)
        return relative_error(have.double(), want.double())

    def keep(self, nodes):
        for session in self.sessions:
            session.keep(nodes)

    def _tokens(self, count):
        return [self.rng.randrange(3, VOCAB_SIZE) for _ in range(count)]


@pytest.mark.parametrize("dtype", LIMITS)
def test_replays_score_what_the_eager_forward_scores(dtype):
    model = model_with_graphs(dtype)
    both, before = Both(model, seed=1), model.graphs.replays
    for _ in range(40):
        parents = random_tree(both.rng, both.rng.choice([1, 2, 5]))
        assert both.forward(parents) < LIMITS[dtype]
        more = random_tree(both.rng, both.rng.choice([1, 3]), first=len(parents))
        assert both.forward(more) < LIMITS[dtype]
        both.keep(random_line(both.rng, parents + more))
    assert model.graphs.replays - before > 50
    assert model.graphs.fault is None


def test_a_text_grows_through_all_capacities_to_the_end_of_its_context():
    both = Both(model_with_graphs(torch.float64, max_position_embeddings=560), seed=2)
    for length in (250, 505, 550):
        both.prefill(length - both.sessions[0].length)
        for _ in range(4):
            assert both.forward([-1, 0, 0]) < LIMITS[torch.float64]
            both.keep([0, 2])
    shapes = both.sessions[0]._slot._shapes
    assert {capacity for _, capacity in shapes} == {256, 512, 1024}


def test_runs_that_take_turns_do_not_meet():
    model = model_with_graphs(torch.float64)
    several = [Both(model, seed) for seed in range(3, 6)]
    for _ in range(10):
        for both in several:
            assert both.forward([-1, 0, 0, 2]) < LIMITS[torch.float64]
            both.keep([0, 2])


def test_logits_stay_when_others_are_replayed():
    session = model_with_graphs().session()
    tokens = [torch.tensor([token], device=DEVICE) for token in range(10, 20)]
    kept = [session.forward(token, [-1]) for token in tokens]
    copies = [logits.cpu() for logits in kept]
    for token in tokens:
        session.forward(token, [-1])
    assert all(torch.equal(logits.cpu(), copy) for logits, copy in zip(kept, copies, strict=True))


def test_whole_runs_are_the_same_token_for_token():
    texts = []
    for cuda_graphs in (True, False):
        pair = specdec.ModelPair(
            *(
                HFModel(tiny_model("llama", torch.float64, seed).to(DEVICE), cuda_graphs=cuda_graphs)
                for seed in (0, 1)
            )
        )
        pair.eos_ids = frozenset()
        for topology in (specdec.topology.sequence(3), specdec.topology.specinfer(8)):
            run = specdec.generate(pair, [5, 6], topology=topology, max_new_tokens=60, seed=6)
            texts.append(run.token_ids)
    assert texts[:2] == texts[2:]


def test_a_capture_that_is_refused_leaves_a_gpu_that_goes_on(monkeypatch, caplog):
    model = model_with_graphs(torch.float64)
    both, run = Both(model, seed=7), graphs.StaticForward.__call__

    def waiting(forward):
        logits = run(forward)
        logits.sum().item()  # what no capture allows
        return logits

    monkeypatch.setattr(graphs.StaticForward, "__call__", waiting)
    stream = torch.cuda.current_stream()
    for _ in range(4):
        assert both.forward([-1, 0, 1, 2]) < LIMITS[torch.float64]
        both.keep([0, 1])
    assert "a capture failed" in caplog.text
    assert torch.cuda.current_stream() == stream
    assert type(model.session()) is LeanSession


def test_another_stream_does_without():
    model = model_with_graphs(torch.float64)
    both, before = Both(model, seed=8), model.graphs.replays
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        assert type(model.session()) is LeanSession
        for _ in range(5):
            assert both.forward([-1, 0]) < LIMITS[torch.float64]
            both.keep([0])
    torch.cuda.current_stream().wait_stream(stream)
    assert model.graphs.replays == before
