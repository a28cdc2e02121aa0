"""Verification by hand: small trees whose outcome can be computed with a pencil."""

import numpy as np
import pytest
import torch

from specdec.topology import Topology, batch, sequence
from specdec.verify import verify_ersd, verify_gsd

P = torch.tensor([0.1, 0.5, 0.4], dtype=torch.float64)
Q = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
LOG_P, LOG_Q = P.log(), Q.log()


def gsd(tokens, uniforms, last=0.5, log_p=LOG_P, log_q=LOG_Q):
    """The verdict on a batch of these tokens."""
    tree, rows = batch(len(tokens)) if tokens else Topology([]), 1 + len(tokens)
    drafted = tree, [9, *tokens], [log_p] * rows, [log_q] * rows
    return verify_gsd(*drafted, lambda _, child: uniforms[child], lambda _: last)


@pytest.mark.parametrize(
    ("uniforms", "last", "outcome"),
    [
        ([1 / 6 - 1e-9], 0.5, ((1,), 1, "bonus")),
        ([1 / 6 + 1e-9], 1e-17, ((), 1, "residual")),  # the residual is (0, .4, .6)
        ([1 / 6 + 1e-9], 0.4 - 1e-9, ((), 1, "residual")),
        ([1 / 6 + 1e-9], 0.4 + 1e-9, ((), 2, "residual")),
        ([1 / 6 + 1e-9], 1 - 2**-53, ((), 2, "residual")),
        ([0.5, 0.4 / 0.75 - 1e-9], 0.5, ((2,), 1, "bonus")),  # the second child's ratio is .4/.75
        ([0.5, 0.4 / 0.75 + 1e-9], 0.5, ((), 2, "residual")),  # its residual is all on token 2
    ],
)
def test_gsd_decides_as_computed_with_a_pencil(uniforms, last, outcome):
    assert gsd([0, 1][: len(uniforms)], uniforms, last)[:3] == outcome


NEVER = 1 - 2**-53
"""A uniform that rejects every child whose p is below its q."""


def rejecting(tokens, log_p, log_q, last=0.5):
    verdict = gsd(tokens, [NEVER] * len(tokens), last, log_p, log_q)
    assert [attempt.accepted for attempt in verdict.attempts] == [False] * len(tokens)
    return verdict


@pytest.mark.parametrize("vocab_size", [3, 1000, 40_000])  # the last in three parts
@pytest.mark.parametrize("rejections", [0, 1, 2])
def test_a_sample_is_the_token_whose_share_holds_the_uniform(vocab_size, rejections):
    logits = 3 * torch.randn(2, vocab_size, generator=torch.Generator().manual_seed(vocab_size)).double()
    log_p, log_q = logits.log_softmax(-1)
    tokens = (log_p - log_q).argsort()[:rejections].tolist()  # the lowest p/q, so it is certainly rejected
    weights, covered = log_p.exp().numpy(), log_q.exp().numpy()
    for token in tokens:
        excess = np.maximum(weights / weights.sum() - covered / covered.sum(), 0)
        weights = excess if excess.sum() > 0 else weights
        covered[token] = 0
    ends = np.cumsum(weights) / weights.sum()
    likely = np.flatnonzero(weights > weights.max() / 1000)[:: max(1, vocab_size // 600)]
    for token in likely:
        start = ends[token - 1] if token else 0.0
        for share in (0.001, 0.5, 0.999):
            u = start + share * (ends[token] - start)
            assert rejecting(tokens, log_p, log_q, u).token_id == token


def test_a_sample_at_the_very_end_is_a_token_with_a_probability():
    """u * sum may round up to the sum, which belongs to no token's share."""
    log_p = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.float64).log()
    assert [rejecting([], log_p, None, u).token_id for u in (1.0, NEVER)] == [2, 2]


def test_a_sample_of_a_residual_that_is_zero_everywhere_is_one_of_p():
    """By rounding, p is below q everywhere. A rejection leaves p, for a sample and for the next child."""
    log_p, log_q = P.log() - 1e-12, P.log()
    assert [rejecting([0], log_p, log_q, u).token_id for u in (0.05, 0.3, 0.7)] == [0, 1, 2]
    second = rejecting([0, 1], log_p, log_q).attempts[1]
    assert (second.p, second.q) == pytest.approx((0.5, 0.5 / 0.9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gsd_leaves_both_distributions_as_they_were(dtype):
    p, q = P.log().to(dtype), Q.log().to(dtype)
    log_p, log_q = p.clone(), q.clone()
    verify_gsd(batch(3), [9, 0, 1, 2], [log_p] * 4, [log_q] * 4, lambda *_: 0.999, lambda _: 0.5)
    assert torch.equal(log_p, p)
    assert torch.equal(log_q, q)


@pytest.mark.parametrize(
    ("tree", "token_ids", "races", "outcome"),
    [
        (batch(2), [9, 0, 1], [(1.0, 1.0, 1.0), (1.0, 1.0, 0.1)], ((2,), 2, "bonus")),
        (sequence(1), [9, 0], [(1.0, 1.0, 0.1), (1.0, 1.0, 1.0)], ((), 2, "correction")),
        (
            Topology([(0,), (1,), (1, 0), (1, 0, 0)]),
            [9, 0, 1, 0, 1],
            [(1.0, 0.01, 1.0), (0.001, 1.0, 1.0), (1.0, 1.0, 0.01), (1.0, 1.0, 1.0)],
            ((2, 3), 2, "correction"),
        ),
    ],
    ids=["an accepted child", "a winner that was not drafted", "the race of each depth"],
)
def test_ersd_follows_the_winners_under_p(tree, token_ids, races, outcome):
    log_p = P.log().expand(len(tree.parents), 3)
    assert verify_ersd(tree, token_ids, log_p, torch.tensor(races).log())[:3] == outcome
