"""The paper's algorithms as tables: they are exact, and the fast ones make the same decisions.

Algorithm 4 (GSD) has its test beside the rules of other papers, in `tests/rules/test_other_rules.py`, and
Algorithm 3 (the optimal tree) in `tests/theory/test_optimal.py`.
"""

import itertools
import math
from collections import defaultdict
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

import specdec
from specdec import algorithms
from specdec.race import Stream, log_exponentials, uniform
from specdec.topology import Topology, batch, sequence, simple, specinfer
from specdec.verify import verify_gsd
from tests.helpers.distributions import TREE, adversarial, pair_of, random_table

WIDE = Topology([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (1, 0, 0), (1, 0, 1)])


def tau_of(topology):
    return {(), *topology.paths}


# ---------------------------------------------------------------- the distribution, in rationals


def rational_table(weights):
    table = np.array(weights, dtype=object)
    return np.array([[Fraction(x) / sum(row) for x in row] for row in table], dtype=object)


TABLES = {
    "full": (
        rational_table([[5, 2, 1], [1, 3, 3], [2, 1, 6]]),
        rational_table([[1, 2, 4], [3, 1, 1], [1, 1, 1]]),
    ),
    "support": (
        rational_table([[0, 2, 1], [1, 3, 3], [2, 0, 6]]),
        rational_table([[1, 2, 0], [3, 0, 1], [0, 1, 1]]),
    ),
    "equal": (rational_table([[5, 2, 1], [1, 3, 3], [2, 1, 6]]),) * 2,
}


class Undecided:
    """A uniform number of which only its comparisons are decided, each by a choice."""

    def __init__(self, chances):
        self.chances, self.low, self.high = chances, Fraction(0), Fraction(1)

    def __lt__(self, limit):
        share = (min(max(limit, self.low), self.high) - self.low) / (self.high - self.low)
        below = self.chances.pick({True: share, False: 1 - share})
        if below:
            self.high = min(limit, self.high)
        else:
            self.low = max(limit, self.low)
        return below


def completed(distribution, P, length):
    """A distribution of longer texts: short texts continue with P, as further exact rounds would."""
    masses = defaultdict(int)
    for y, mass in distribution.items():
        for rest in itertools.product(range(P.shape[-1]), repeat=max(length - len(y), 0)):
            text = (0, *y, *rest)
            steps = (algorithms.given(P, text[:n])[text[n]] for n in range(1 + len(y), len(text)))
            masses[text[1 : length + 1]] += math.prod(steps, start=mass)
    return {text: mass for text, mass in masses.items() if mass}


KINDS = 7


def random_pair(seed, vocab_size=6, order=1):
    """Tables [|Ω|, ..., |Ω|] of a target and a draft, of the seed's kind: similar, adversarial, sparse,
    independent, without a common token, with a sure draft, or equal."""
    P, Q = random_table(vocab_size, order, seed), random_table(vocab_size, order, seed + 1000)
    kind, is_even = seed % KINDS, torch.arange(vocab_size) % 2 == 0
    if kind == 0:
        Q = 0.8 * P + 0.2 * Q
    if kind == 1:
        Q = adversarial(P)
    if kind == 2:
        Q = Q.where(Q.gt(Q.median(-1, keepdim=True).values), 0.0)
        P = P.where(P.gt(P.amin(-1, keepdim=True)), 0.0)
    if kind == 4:
        P, Q = P.where(is_even, 0.0), Q.where(~is_even, 0.0)
    if kind == 5:
        Q = Q.where(Q.eq(Q.amax(-1, keepdim=True)), 0.0)
    if kind == 6:
        Q = P
    P, Q = (table / table.sum(-1, keepdim=True) for table in (P, Q))
    return P.numpy(), Q.numpy()


def randomness(seed, position, topology, vocab_size):
    depths = range(position, position + topology.depth + 1)
    most = max(map(len, topology.children), default=0)
    e = log_exponentials(seed, depths, vocab_size).exp().numpy()
    U = [[uniform(seed, n, i) for i in range(most)] for n in depths]
    return e, U, [uniform(seed, n, 0, Stream.RESIDUAL) for n in depths]


# ---------------------------------------------------------------- the fast ones, on the same randomness


def exact_softmax(logits):
    """Probabilities in rationals, accurate to 80 digits even if they are 1e-3000."""
    context = Context(prec=80, Emin=-(10**6), Emax=10**6)
    weights = [Fraction(context.exp(Decimal(float(x)))) for x in logits]
    return np.array([weight / sum(weights) for weight in weights], dtype=object)


@pytest.mark.parametrize("broken", ["log_p", "log_q"])
def test_verification_refuses_nan(broken):
    rows = {name: [torch.zeros(5).log_softmax(0)] * 2 for name in ("log_p", "log_q")}
    rows[broken] = [rows[broken][0] * math.nan] * 2
    with pytest.raises(ValueError, match="holds NaN"):
        verify_gsd(batch(1), [0, 1], **rows, uniform=lambda *_: 0.5, residual_uniform=lambda _: 0.5)


@pytest.mark.parametrize("seed", range(60))
def test_gsd_tests_by_the_book_at_temperature_0_01(seed):
    """Compared with Algorithm 4 in rationals. The rest of Q may be 1e-1000, or all of Q but 1e-12."""
    generator = torch.Generator().manual_seed(seed)
    spread = (0.1, 1.0, 10.0)[seed % 3]
    logits = spread * torch.randn(2, 5, generator=generator, dtype=torch.float64) / 0.01
    log_p, log_q = torch.log_softmax(0.1 * logits[0], -1), torch.log_softmax(logits[1], -1)
    token_ids = [0, *(log_q + log_exponentials(seed, [0], 5)[0].neg()).argsort(descending=True).tolist()]
    rows = [log_p] * 5, [log_q] * 5
    verdict = verify_gsd(batch(4), token_ids[:5], *rows, lambda *_: 1 - 2**-53, lambda _: 0.5)
    P, Q = exact_softmax(log_p), exact_softmax(log_q)
    for attempt in verdict.attempts:
        token = token_ids[attempt.row]
        assert attempt.q == pytest.approx(float(Q[token]), rel=1e-9)
        assert attempt.p == pytest.approx(float(P[token]), rel=1e-9, abs=1e-13)
        P, Q = algorithms.residual(P, Q), algorithms.without(Q, token)
    assert len(verdict.attempts) > 1 or verdict.rows


@pytest.mark.parametrize(
    ("topology", "order"),
    [(sequence(3), 1), (batch(5), 1), (TREE, 2), (WIDE, 1), (WIDE, 2), (specinfer(8), 1)],
)
@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_rounds_of_the_decoder_are_those_of_the_algorithms(method, topology, order):
    """Drafting, evaluation and verification of whole runs, keyed by (seed, position)."""
    for seed in range(KINDS):
        P, Q = random_pair(seed, vocab_size=5, order=order)
        pair = pair_of(P, Q)
        x, length = (1, 2), 60
        settings = {"method": method, "topology": topology, "max_new_tokens": length, "seed": seed}
        for round in specdec.stream(pair, x, **settings):
            room = topology.limited(max(2 + length - len(x) - 1, 0))
            e, U, u = randomness(seed, len(x), topology, 5)
            x_draft = algorithms.draft(x, Q, tau_of(room), e)
            assert {node.path: node.token_id for node in round.nodes} == x_draft
            noise = (e, U, u) if method == "gsd" else (e,)
            y = getattr(algorithms, method)(x, Q, P, tau_of(room), *noise)
            assert tuple(token.id for token in round.tokens) == y
            x += y
        assert len(x) == 2 + length


def test_algorithms_1_and_2_are_4_and_5_on_one_drafted_token():
    for seed in range(200):
        P, Q = random_pair(seed)
        e, U, u = randomness(seed, 0, simple(), 6)
        assert algorithms.simple_gsd((0,), Q, P, e, U[0][0], u) == algorithms.gsd((0,), Q, P, {(0,)}, e, U, u)
        assert algorithms.simple_ersd((0,), Q, P, e) == algorithms.ersd((0,), Q, P, {(0,)}, e)
