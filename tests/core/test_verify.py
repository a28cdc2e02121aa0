"""Verification by hand: small trees whose outcome can be computed with a pencil."""

import math

import numpy as np
import pytest
import torch

from specdec.topology import Topology, batch, sequence
from specdec.verify import verify_ersd, verify_gsd

P = torch.tensor([0.1, 0.5, 0.4], dtype=torch.float64)
Q = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)


def gsd(topology, token_ids, uniforms, last=0.5):
    rows = len(topology.parents)
    return verify_gsd(
        topology,
        token_ids,
        P.log().expand(rows, 3),
        [Q.log()] * rows,
        uniform=lambda depth, child_index: uniforms[depth][child_index],
        residual_uniform=lambda depth: last,
    )


def ersd(topology, token_ids, *races):
    rows = len(topology.parents)
    return verify_ersd(topology, token_ids, P.log().expand(rows, 3), torch.tensor(races).log())


def test_gsd_accepts_below_the_ratio_and_emits_a_bonus_at_the_leaf():
    verdict = gsd(sequence(1), [9, 0], [[1 / 6 - 1e-9]])
    assert verdict[:3] == ((1,), 1, "bonus")
    assert verdict.attempts[0][1:5] == pytest.approx((1 / 6 - 1e-9, 0.1, 0.6, True))


@pytest.mark.parametrize(
    ("last", "token_id"), [(1e-17, 1), (0.4 - 1e-9, 1), (0.4 + 1e-9, 2), (1 - 2**-53, 2)]
)
def test_gsd_rejects_above_the_ratio_and_samples_the_residual(last, token_id):
    verdict = gsd(sequence(1), [9, 0], [[1 / 6 + 1e-9]], last=last)
    assert verdict[:3] == ((), token_id, "residual")  # the residual is (0, .4, .6)


def test_gsd_tries_the_next_child_against_the_residual_and_the_renormalised_draft():
    verdict = gsd(batch(2), [9, 0, 1], [[0.5, 0.5]])
    first, second = verdict.attempts
    assert (second.p, second.q) == pytest.approx((0.4, 0.75))
    assert (first.accepted, second.accepted, verdict.rows) == (False, True, (2,))


def test_gsd_after_two_rejections_is_left_with_the_second_residual():
    verdict = gsd(batch(2), [9, 0, 1], [[0.5, 0.6]])
    assert verdict[:3] == ((), 2, "residual")  # max((0,.4,.6) - (0,.75,.25), 0) is all on token 2


NEVER = 1 - 2**-53
"""A uniform that rejects every child whose p is below its q."""


def rejecting(tokens, log_p, log_q, last=0.5):
    """The verdict on a batch of these tokens with the highest uniforms."""
    verdict = verify_gsd(
        batch(len(tokens)) if tokens else Topology([]),
        [9, *tokens],
        [log_p] * (1 + len(tokens)),
        [log_q] * (1 + len(tokens)),
        lambda *_: NEVER,
        lambda _: last,
    )
    assert [attempt.accepted for attempt in verdict.attempts] == [False] * len(tokens)
    return verdict


def test_gsd_conditions_the_draft_where_almost_nothing_is_left():
    """After two rejections q is smaller than float64 allows. A token is still drawn from its rest."""
    log_q = torch.tensor([0.0, -900.0, -2000.0, -2000.0 + math.log(3)], dtype=torch.float64)
    log_p = torch.tensor([0.1, 0.1, 0.1, 0.7], dtype=torch.float64).log()
    attempts = rejecting([0, 1, 2], log_p, log_q).attempts
    assert [attempt.q for attempt in attempts] == pytest.approx([1, 1, 0.25])
    assert [attempt.p for attempt in attempts] == pytest.approx([0.1, 1 / 9, 1 / 8])


def distributions(vocab_size):
    generator = torch.Generator().manual_seed(vocab_size)
    return [
        torch.log_softmax(3 * torch.randn(vocab_size, generator=generator).double(), -1) for _ in range(2)
    ]


@pytest.mark.parametrize("vocab_size", [3, 1000, 40_000])  # the last in three parts
@pytest.mark.parametrize("rejections", [0, 1, 2])
def test_a_sample_is_the_token_whose_share_holds_the_uniform(vocab_size, rejections):
    log_p, log_q = distributions(vocab_size)
    tokens = (log_p - log_q).argsort()[:rejections].tolist()  # the lowest p/q, so it is certainly rejected
    weights, covered = log_p.exp().numpy(), log_q.exp().numpy()
    for token in tokens:
        excess = np.maximum(weights / weights.sum() - covered / covered.sum(), 0)
        weights = excess if excess.sum() > 0 else weights
        covered[token] = 0
    ends = np.cumsum(weights) / weights.sum()
    wanted = np.flatnonzero(weights > weights.max() / 1000)[:: max(1, vocab_size // 600)]
    for token in wanted:
        start = ends[token - 1] if token else 0.0
        for share in (0.001, 0.5, 0.999):
            u = start + share * (ends[token] - start)
            assert rejecting(tokens, log_p, log_q, u).token_id == token


def test_a_sample_at_the_very_end_is_a_token_with_a_probability():
    """u * sum may round up to the sum, which belongs to no token's share."""
    log_p = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.float64).log()
    assert [rejecting([], log_p, None, u).token_id for u in (1.0, NEVER)] == [2, 2]


def test_a_sample_of_a_residual_that_is_zero_everywhere_is_one_of_p():
    """p is below q everywhere by rounding. A rejection then leaves p as it was, for a sample and for the next
    child."""
    log_p, log_q = P.log() - 1e-12, P.log()
    assert [rejecting([0], log_p, log_q, u).token_id for u in (0.05, 0.3, 0.7)] == [0, 1, 2]
    second = rejecting([0, 1], log_p, log_q).attempts[1]
    assert (second.p, second.q) == pytest.approx((0.5, 0.5 / 0.9))


def test_gsd_with_equal_models_accepts_everything():
    rows = [P.log()] * 4
    verdict = verify_gsd(sequence(3), [9, 0, 1, 2], rows, rows, lambda *_: 1 - 1e-12, lambda _: 0.5)
    assert verdict.rows == (1, 2, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gsd_leaves_both_distributions_as_they_were(dtype):
    p, q = P.log().to(dtype), Q.log().to(dtype)
    log_p, log_q = p.clone(), q.clone()
    verify_gsd(batch(3), [9, 0, 1, 2], [log_p] * 4, [log_q] * 4, lambda *_: 0.999, lambda _: 0.5)
    assert torch.equal(log_p, p)
    assert torch.equal(log_q, q)


def test_ersd_accepts_the_child_that_wins_under_p():
    verdict = ersd(batch(2), [9, 0, 1], (1.0, 1.0, 1.0), (1.0, 1.0, 0.1))
    assert verdict[:3] == ((2,), 2, "bonus")


def test_ersd_corrects_with_the_winner_nobody_drafted():
    verdict = ersd(sequence(1), [9, 0], (1.0, 1.0, 0.1), (1.0, 1.0, 1.0))
    assert verdict[:3] == ((), 2, "correction")


def test_ersd_walks_down_the_tree_with_the_race_of_each_depth():
    tree = Topology([(0,), (1,), (1, 0), (1, 0, 0)])
    races = [(1.0, 0.01, 1.0), (0.001, 1.0, 1.0), (1.0, 1.0, 0.01), (1.0, 1.0, 1.0)]
    verdict = ersd(tree, [9, 0, 1, 0, 1], *races)
    assert verdict[:3] == ((2, 3), 2, "correction")


def test_ersd_never_emits_a_token_without_probability():
    p = torch.tensor([0.0, 1.0]).log()
    verdict = verify_ersd(sequence(1), [9, 0], [p, p], torch.full((2, 2), -5.0))
    assert verdict[:3] == ((), 1, "correction")
