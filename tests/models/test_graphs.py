"""Forwards that are captured as CUDA graphs give the logits of forwards that are launched kernel by kernel.

On a machine without a GPU nothing is captured, and the same forward over fixed tensors runs itself.
"""

import gc
import logging
import os
from random import Random

import pytest
import torch

import specdec
from specdec.models import HFModel, graphs
from specdec.models.graphs import GraphedCache, GraphedCaches
from specdec.models.kernels import compiled
from specdec.models.selfcheck import relative_error
from specdec.topology import Topology, sequence
from tests.helpers.tiny_checkpoints import tiny_model

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CLOSE = 2e-5
"""The relative error of float32: products over other numbers of rows add in another order."""


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch):
    monkeypatch.setenv(compiled.SWITCH, "0")


def model_of(family="llama", captures=True, dtype=torch.float32, **changes):
    model = HFModel(tiny_model(family, dtype, **changes).to(DEVICE))
    weights = list(model.module.parameters())
    model.decoder.graphs = GraphedCaches(model.decoder, weights) if captures else None
    if captures and os.environ.get("TRITON_INTERPRET"):  # runs the fused kernels without a GPU
        from specdec.models.fused import FusedForward

        model.decoder.graphs.fused = FusedForward(model.decoder)
    return model


def played(model, seed, rounds=12):
    """The logits of rounds with random trees, each grown in two forwards, after a prompt of random length."""
    random, session, found = Random(seed), model.session(), []
    session.prefill([random.randrange(50) for _ in range(random.choice((1, 17, 250, 300)))])
    for _ in range(rounds):
        parents = [random.randrange(-1, i) if i else -1 for i in range(random.choice((1, 2, 5, 9, 40)))]
        cut = random.randrange(1, len(parents) + 1)
        for part in (parents[:cut], parents[cut:]):
            if part:
                ids = torch.tensor([random.randrange(50) for _ in part], device=DEVICE)
                found.append(session.forward(ids, part))
        node, path = random.randrange(len(parents)), []
        while node >= 0:
            path, node = [node, *path], parents[node]
        session.commit(path)
    return session, torch.cat(found)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", ["llama", "qwen3", "mistral"])
def test_random_trees_have_the_logits_of_launched_kernels(family, seed):
    changes = {"sliding_window": None} if family == "mistral" else {}
    session, have = played(model_of(family, **changes), seed)
    assert isinstance(session._cache, GraphedCache)
    assert session._cache._graphs
    _, want = played(model_of(family, captures=False, **changes), seed)
    assert relative_error(have.cpu(), want.cpu()) < CLOSE


def test_a_prefix_that_is_counted_one_token_short_would_be_noticed(monkeypatch):
    """Negative control."""
    model, launched, right = model_of(), model_of(captures=False), graphs.GraphedForward.__call__

    def short(self, token_ids, masks, length):
        return right(self, token_ids, masks, length - 1)

    monkeypatch.setattr(graphs.GraphedForward, "__call__", short)
    _, want = played(launched, 0)
    assert relative_error(played(model, 0)[1].cpu(), want.cpu()) > 100 * CLOSE


def test_a_cache_is_lent_again_without_the_numbers_of_the_text_before():
    model = model_of()
    session, want = played(model, 1)
    cache = session._cache
    with torch.inference_mode():
        cache.buffer.fill_(float("nan"))
    del session
    gc.collect()
    again, have = played(model, 1)
    assert again._cache is cache
    assert torch.equal(have, want)


def test_sessions_beyond_the_lent_caches_launch_kernel_by_kernel(monkeypatch):
    monkeypatch.setattr(graphs, "MOST_CACHES", 2)
    model = model_of()
    sessions = [model.session() for _ in range(3)]
    assert [isinstance(each._cache, GraphedCache) for each in sessions] == [True, True, False]
    del sessions[0]
    gc.collect()
    assert isinstance(model.session()._cache, GraphedCache)


def test_where_a_capture_fails_forwards_are_launched_and_one_warning_says_so(monkeypatch, caplog):
    def refused(forward, device):
        raise RuntimeError("operation not permitted when stream is capturing")

    model = model_of()
    model.decoder.graphs.fused = None
    monkeypatch.setattr(graphs, "captured", refused)
    with caplog.at_level(logging.WARNING):
        have = played(model, 2)[1]
    (record,) = caplog.records
    assert "stream is capturing" in record.message
    assert torch.equal(have.cpu(), played(model_of(captures=False), 2)[1].cpu())


def test_where_triton_fails_torchs_own_kernels_are_captured(caplog):
    model = model_of()

    class Broken:
        most_places = 1 << 14

        def hidden(self, *_):
            raise RuntimeError("Failed to find C compiler")

    model.decoder.graphs.fused = Broken()
    with caplog.at_level(logging.WARNING):
        session, have = played(model, 2)
    (record,) = caplog.records
    assert "Failed to find C compiler" in record.message
    assert session._cache._graphs
    assert relative_error(have.cpu(), played(model_of(captures=False), 2)[1].cpu()) < CLOSE


def test_texts_decoded_together_have_graphs_of_their_own():
    """A forward over several texts has no graph, and is slower on a GPU than one graph after the other."""
    pair = specdec.ModelPair(model_of(), model_of())
    settings = {"method": "ersd", "topology": sequence(2), "max_new_tokens": 12}
    together = specdec.generate_many(pair, [[3, 4]] * 3, seeds=range(3), **settings)
    assert len([cache for cache in pair.target.decoder.graphs._idle if cache._graphs]) == 3
    for seed, run in enumerate(together):
        assert run.token_ids == specdec.generate(pair, [3, 4], seed=seed, **settings).token_ids


@pytest.mark.parametrize("method", ["ar", "ersd", "gsd", "traversal"])
def test_a_text_is_that_of_launched_kernels(method):
    """In float64, where rounding changes no token."""
    texts = []
    for captures in (True, False):
        models = [model_of(captures=captures, dtype=torch.float64) for _ in range(2)]
        pair = specdec.ModelPair(*models)
        for topology in (sequence(4), Topology([(0,), (1,), (0, 0), (0, 1), (1, 0)])):
            run = specdec.generate(
                pair, [3, 4, 5], method=method, topology=topology, max_new_tokens=40, seed=1, temperature=2.0
            )
            texts.append((captures, run.token_ids))
    assert [ids for captures, ids in texts if captures] == [ids for captures, ids in texts if not captures]
