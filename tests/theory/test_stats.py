"""Statistics of decoding, compared with counts by hand, scipy's intervals, simulation and the theory."""

import math

import pytest
from scipy import stats as scipy_stats

import specdec
from research.estimates import quotient
from specdec import theory
from specdec.stats import IndexAcceptance, acceptance_by_index
from specdec.topology import Topology, batch, sequence
from specdec.trace import Acceptance, Node, Round, Seconds, Token
from tests.helpers.distributions import pair_of

P, Q = (0.5, 0.3, 0.15, 0.05), (0.2, 0.2, 0.2, 0.4)
Z = 5.5
"""Width of intervals in tests that must not fail by chance: 4e-8 for each."""


def block_efficiency(runs):
    """Tokens per target call of independent runs, each given as the rounds of one text."""
    rows = [
        {"prompt": i, "tokens": sum(len(round.tokens) for round in run), "rounds": len(run)}
        for i, run in enumerate(map(list, runs))
    ]
    return quotient(rows, "tokens", "rounds")


def round_of(tokens, nodes=()):
    """A round of that many tokens, with nodes given as {path: status}."""
    emitted = (*(Token(0, "", "accepted"),) * (tokens - 1), Token(0, "", "bonus"))
    drafted = tuple(Node(path, 0, "", status) for path, status in dict(nodes).items())
    return Round(0, 0, emitted, drafted, (), Seconds(), "")


def rounds_of(method, topology, seed, tokens=4000):
    settings = {"method": method, "topology": topology, "max_new_tokens": tokens, "seed": seed}
    return specdec.generate(pair_of(P, Q), [0], **settings).rounds


def test_acceptance_counts_verified_nodes_by_index_and_rounds_by_position():
    paths, statuses = [(0,), (1,), (0, 0), (1, 0)], {"a": "accepted", "r": "rejected", "u": "unvisited"}
    both, second, neither = (
        round_of(tokens, zip(paths, map(statuses.get, status), strict=True))
        for tokens, status in ((2, "arru"), (2, "raur"), (1, "rruu"))
    )
    assert acceptance_by_index([both, second]) == [IndexAcceptance(0, 1, 4), IndexAcceptance(1, 1, 2)]
    assert acceptance_by_index([]) == []
    deep = round_of(3, {(0,): "accepted", (0, 0): "accepted", (0, 0, 0): "rejected"})
    plain = round_of(1)
    assert Acceptance.of([both, second, neither, deep, plain]) == Acceptance(
        mean_length=9 / 5,
        rate_by_position=(3 / 4, 1 / 4, 0.0),
        rate_by_index=(3 / 8, 1 / 3),
        histogram=(1, 2, 1),
        num_drafted=15,
        num_accepted=4,
    )
    assert Acceptance.of([]) == Acceptance(0.0, (), (), (), 0, 0)


@pytest.mark.parametrize(("accepted", "offered"), [(0, 7), (7, 7), (3, 10), (4000, 9000)])
@pytest.mark.parametrize("z", [1.96, 4.0])
def test_intervals_are_wilsons(accepted, offered, z):
    confidence = 1 - 2 * scipy_stats.norm.sf(z)
    interval = scipy_stats.binomtest(accepted, offered).proportion_ci(confidence, method="wilson")
    low, high = IndexAcceptance(0, accepted, offered).interval(z)
    assert (low, high) == pytest.approx((interval.low, interval.high), abs=1e-9)
    assert low <= accepted / offered <= high


def test_nothing_offered_says_nothing():
    nothing = IndexAcceptance(0, 0, 0)
    assert math.isnan(nothing.rate)
    assert nothing.interval() == (0.0, 1.0)


@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_acceptance_from_sequence_and_batch_runs_equals_the_theory(method):
    rounds = [*rounds_of(method, sequence(3), 1), *rounds_of(method, batch(4), 2)]
    intervals = [index.interval(Z) for index in acceptance_by_index(rounds)]
    for name in ("gsd", "ersd"):
        exact = getattr(theory, f"{name}_acceptance_by_index")(P, Q, 4).tolist()
        inside = all(low <= rate <= high for (low, high), rate in zip(intervals, exact, strict=True))
        assert inside == (name == method)


@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_block_efficiency_of_decoding_equals_expected_tokens(method):
    by_index = getattr(theory, f"{method}_acceptance_by_index")
    tree = Topology([(0,), (1,), (0, 0), (0, 1), (0, 0, 0)])
    rounds = rounds_of(method, tree, 3)[:-6]  # without the rounds that the end of the text cuts
    efficiency = block_efficiency([round] for round in rounds)
    low, high = (efficiency.value + sign * Z * efficiency.standard_error for sign in (-1, 1))
    assert low <= theory.expected_tokens(by_index(P, Q, 2), tree) <= high
    assert not low <= theory.expected_tokens(by_index(Q, Q, 2), tree) <= high


def test_block_efficiency_by_hand():
    runs = [[round_of(2), round_of(3)], [round_of(1)]]
    efficiency = block_efficiency(runs)
    # the ratio is 6 / 3; the runs exceed it by 5 - 4 = 1 and 1 - 2 = -1
    assert (efficiency.value, efficiency.standard_error) == pytest.approx((2, math.sqrt(2 * 2) / 3))
    assert efficiency.interval == pytest.approx((2 - 1.96 * 2 / 3, 2 + 1.96 * 2 / 3))
    assert math.isnan(block_efficiency([[round_of(2)]]).standard_error)
