"""Channel simulation and Tunstall codes: the receiver gets what was sent, in the expected number of bits."""

import itertools
import math
from functools import cache, partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec import channel, theory
from specdec.channel import (
    TunstallCode,
    decode_indices,
    encode_indices,
    index_distributions,
    simulation,
    zipf_distribution,
)
from specdec.channel.codes import read_elias_gamma
from specdec.methods import Drafted, gsd, specinfer
from specdec.race import log_exponentials, uniform
from specdec.topology import batch
from specdec.verify import verify_ersd
from tests.helpers.distributions import FALSE_ALARM, chi_square_p_value

METHODS, ENCODE, DECODE = channel.METHODS, channel.ENCODERS, channel.DECODERS
BOUNDS = dict(zip(METHODS, (theory.greedy_rejection_entropy_bound, theory.pfr_entropy_bound), strict=True))
P, Q = (0.1, 0.45, 0.05, 0.3, 0.1), (0.4, 0.1, 0.3, 0.1, 0.1)
EXTREME = ((0.01, 0.99), (0.99, 0.01))


@cache
def messages(method, count=3000, p=P, q=Q):
    return [ENCODE[method](p, q, seed=5, position=position) for position in range(count)]


def p_value(indices, probabilities):
    """Of a χ² test. Missing probability is that of one more outcome."""
    law = {(i,): float(x) for i, x in enumerate(probabilities)}
    law["beyond",] = max(0.0, 1 - sum(law.values()))
    return chi_square_p_value(((index,) for index in indices), law)


# Channel simulation


@pytest.mark.parametrize("method", METHODS)
def test_the_index_alone_gives_the_receiver_the_sample(method):
    """Both sides share q, seed and position. The receiver's functions take no p. The control is another
    seed."""
    rng, others = np.random.default_rng(0), 0
    for position in range(100):
        p, q = rng.dirichlet(np.full(7, 0.5)), rng.dirichlet(np.full(7, 2.0))
        index, token_id = ENCODE[method](p, q, 11, position)
        assert DECODE[method](index, q, 11, position) == token_id
        others += DECODE[method](index, q, 6, position) != token_id
    assert others


@pytest.mark.parametrize("method", METHODS)
def test_samples_have_the_distribution_p(method):
    """A χ² test. A false alarm has probability 1e-6. The distribution q fails it."""
    samples = [message.token_id for message in messages(method)]
    assert p_value(samples, Q) < FALSE_ALARM < p_value(samples, P)


class ChannelNoise:
    """The uniforms of greedy rejection sampling at a position."""

    def __init__(self, seed, position):
        self.seed, self.position = seed, position

    def test(self, node, child_index):
        return uniform(self.seed, self.position, child_index, channel.ChannelStream.TEST)

    def last(self, node):
        return 0.5  # the token from the residual is not used


def batch_index(verify, seed, position, proposals):
    """Child index that a rule of independent draws accepts in a batch of these proposals, or None."""
    log_p, log_q = (torch.tensor(distribution, dtype=torch.float64).log() for distribution in (P, Q))
    rows = len(proposals) + 1
    draws = [range(1, rows), *[()] * (rows - 1)]
    drafted = Drafted(batch(rows - 1), [0, *proposals], [log_q] * rows, draws)
    verdict = verify(drafted, [log_p] * rows, ChannelNoise(seed, position))
    return verdict.rows[0] - 1 if verdict.rows else None


def test_greedy_rejection_sampling_is_specinfer_s_rule_and_not_gsd_s():
    """Same seeds, same index, by the decoder's own verification. With GSD's update of q the index is another
    one."""
    children = 40
    runs = []
    for position in range(150):
        proposals = [channel.greedy_rejection_decode(i, Q, 5, position) for i in range(children)]
        runs.append((channel.greedy_rejection_encode(P, Q, 5, position).index, proposals))
    theirs = [index if index < children else None for index, _ in runs]
    for verify in (specinfer.verify, gsd.verify):
        ours = [batch_index(verify, 5, position, proposals) for position, (_, proposals) in enumerate(runs)]
        assert (ours == theirs) == (verify is specinfer.verify)
    assert len(set(theirs)) > 5


def test_poisson_functional_representation_is_ersd():
    """Same race, same index, by the decoder's own verification of a batch of all tokens."""
    log_p = torch.tensor(P, dtype=torch.float64).log()
    for position in range(100):
        race = log_exponentials(5, [position], 5, stream=channel.ChannelStream.POISSON)
        drafted = [channel.poisson_functional_decode(i, Q, 5, position) for i in range(5)]
        verdict = verify_ersd(batch(5), [0, *drafted], [log_p] * 6, race.expand(2, -1))
        message = channel.poisson_functional_encode(P, Q, 5, position)
        assert verdict.rows == (message.index + 1,)
        assert drafted[message.index] == message.token_id


def poisson_process_index(rng, p, q):
    """The representation as originally defined: points of a Poisson process, marked with samples of q."""
    time, best, index = 0.0, math.inf, -1
    for number in itertools.count():
        time += rng.exponential()
        if time * (q / p).min() > best:
            return index
        mark = rng.choice(len(q), p=q)
        if time * q[mark] / p[mark] < best:
            best, index = time * q[mark] / p[mark], number
    raise AssertionError


@pytest.mark.parametrize("method", METHODS)
def test_an_index_with_replacement_has_its_distribution_and_not_that_without(method):
    """A χ² test of the Poisson representation of 3,000 simulated processes. A false alarm has probability
    1e-6."""
    rng = np.random.default_rng(2)
    distributions = index_distributions(P, Q, method, 400)
    if method == "greedy_rejection":
        indices = [message.index for message in messages(method)]
    else:
        indices = [poisson_process_index(rng, np.array(P), np.array(Q)) for _ in range(3000)]
    assert p_value(indices, distributions.with_replacement) > FALSE_ALARM
    within = [index for index in indices if index < 5]
    assert p_value(within, distributions.without_replacement) < FALSE_ALARM


@pytest.mark.parametrize("method", METHODS)
def test_only_the_distribution_with_replacement_has_an_entropy_of_at_least_kl(method):
    bound, rng = BOUNDS[method], np.random.default_rng(3)
    pairs = [(rng.dirichlet(np.ones(6)), rng.dirichlet(np.full(6, 5.0))) for _ in range(40)]
    for p, q in pairs:
        laws = index_distributions(p, q, method)
        assert laws.with_replacement[0] == pytest.approx(laws.without_replacement[0], abs=1e-12)
        assert laws.with_replacement.sum() == pytest.approx(1, abs=1e-6)
        assert laws.without_replacement.sum() == pytest.approx(1, abs=1e-12)
        assert laws.kl <= laws.entropy_with + 1e-6 <= bound(laws.kl) + 2e-6
        assert laws.entropy_without <= laws.entropy_with + 1e-6
    extreme = index_distributions(*EXTREME, method)
    assert extreme.kl == pytest.approx(6.4968, abs=1e-4)
    assert extreme.entropy_without == pytest.approx(0.1414, abs=1e-4)
    assert extreme.entropy_with > extreme.kl


@pytest.mark.parametrize("method", METHODS)
def test_equal_distributions_cost_nothing(method):
    assert {message.index for message in messages(method, 100, P, P)} == {0}
    assert index_distributions(P, P, method, 8).entropy_with == pytest.approx(0, abs=1e-9)


# Bits


indices_and_laws = st.tuples(
    st.lists(st.integers(0, 40) | st.integers(0, 2**32 - 1), max_size=40),
    st.lists(st.floats(0, 1), min_size=1, max_size=20).filter(lambda distribution: sum(distribution) > 0),
)


@settings(derandomize=True, deadline=None)
@given(indices_and_laws)
def test_indices_come_back_whatever_the_distribution(case):
    indices, weights = case
    distribution = np.array(weights) / sum(weights)
    assert decode_indices(encode_indices(indices, distribution), len(indices), distribution) == indices


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(0, 40) | st.integers(0, 2**32 - 1), max_size=40))
def test_elias_gamma_gives_the_indices_back_for_the_bits_it_says(indices):
    assert channel.encode_elias_gamma([0, 1, 2, 3]) == "1" + "010" + "011" + "00100"
    bits, start = channel.encode_elias_gamma(indices), 0
    for index in indices:
        begin = start
        value, start = read_elias_gamma(bits, begin)
        assert value == index + 1
        assert start - begin == 2 * ((index + 1).bit_length() - 1) + 1
    assert start == len(bits)


def test_zipf_law_is_a_distribution_with_the_mass_beyond_it_left_out():
    exponent = 1 + 1 / (2.0 + math.log2(math.e) / math.e + 1)
    many = np.arange(1, 2_000_001) ** -exponent
    rest = 2_000_000.5 ** (1 - exponent) / (exponent - 1)
    assert zipf_distribution(2.0, 1000) == pytest.approx(many[:1000] / (many.sum() + rest), rel=1e-6)
    for kl in (1e15, 1e16, 1e17, 2**64, 10**30, 1e300):
        assert 0 < zipf_distribution(kl).sum() < 1e-13


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("p", "q"), [(P, Q), EXTREME])
def test_what_is_sent_lies_between_divergence_entropy_and_bounds(method, p, q):
    """The Zipf code needs at most log(D_KL + 1) + 5 bits more than D_KL. The index's own code needs its
    entropy."""
    indices = [message.index for message in messages(method, 1500, p, q)]
    kl = float(theory.kl_divergence(p, q))
    laws = index_distributions(p, q, method)
    own, entropy = laws.without_replacement, laws.entropy_without
    if method == "greedy_rejection":
        own, entropy = laws.with_replacement, laws.entropy_with
    by_zipf, by_own = (8 * len(encode_indices(indices, code)) / 1500 for code in (zipf_distribution(kl), own))
    assert by_zipf <= kl + math.log2(kl + 1) + 5
    surprise = -np.log2(np.maximum(own, 1e-300))
    spread = math.sqrt(float(own @ (surprise - entropy) ** 2) / 1500)
    assert by_own == pytest.approx(entropy, abs=5.5 * spread + 64 / 1500)
    assert max(by_own, entropy) < BOUNDS[method](kl)
    assert method != "greedy_rejection" or kl <= entropy
    assert (p, q) != EXTREME or laws.entropy_without < kl / 10


HALF = [0.5, 0.5]
CODE = TunstallCode([0.5, 0.3, 0.2], 3)
GREEDY, POISSON = ENCODE.values()
KEYED = [partial(encode, P, Q) for encode in ENCODE.values()]
KEYED += [partial(decode, 0, Q) for decode in DECODE.values()]
MISTAKES = [
    *((partial(encode, HALF, [1.0, 0.0], 1), r"q\[1\] is 0 where p is 0\.5") for encode in (GREEDY, POISSON)),
    *((partial(encode, [0.5, 0.4], HALF, 1), "p is not a distribution") for encode in (GREEDY, POISSON)),
    *((partial(encode, [HALF], HALF, 1), r"p has shape \(1, 2\)") for encode in (GREEDY, POISSON)),
    *((partial(keyed, seed, 0), "^seed = ") for keyed in KEYED for seed in (-1, 1.5, 2**64)),
    *((partial(keyed, 0, position), "^position = ") for keyed in KEYED for position in (-1, None, 2**64)),
    *((partial(index_distributions, "abc", Q, m), "^p = ") for m in METHODS),
    *((partial(index_distributions, P, Q, m, 0), "^count = 0") for m in METHODS),
    *((partial(index_distributions, [1, 0], [5e-324, 1], m), r"q\[0\] = .* where p is 1") for m in METHODS),
    (partial(index_distributions, P, Q, []), r"^method = \[\]"),
    (partial(channel.greedy_rejection_decode, -1, Q, 1), "index = -1"),
    (partial(channel.poisson_functional_decode, 5, Q, 1), "index = 5, but the race under q has 5 arrivals"),
    (partial(encode_indices, [0], [0.9, 0.9]), r"distribution = .* is not a list of probabilities"),
    (partial(encode_indices, [True], HALF), r"^indices\[0\] = True"),
    *((partial(encode_indices, [0], wrong), "^distribution = ") for wrong in ([1j], [[0.5], [0.2, 0.1]])),
    *((partial(zipf_distribution, kl), "kl = ") for kl in (math.inf, math.nan, -1.0, None)),
    (partial(zipf_distribution, 1.0, 0), "^size = 0"),
    (partial(TunstallCode, [1.0], 3), "one symbol"),
    (partial(TunstallCode, HALF, -1), "k = -1"),
    (partial(CODE.encode, 5), "^symbols = 5"),
    (partial(CODE.encode, [0, 3]), "symbol 3 is not an integer from 0 to 2"),
    *((partial(CODE.decode, bits), "bits") for bits in ("", "abc", "000", "0001", "11")),
    (partial(CODE.decode, "11111"), "codeword 15 is not a number from 0 to 8"),
    (partial(CODE.phrase, -1), "codeword -1 is not a number from 0 to 8"),
    *((partial(channel.encode_elias_gamma, wrong), "^ind(ex|ices)") for wrong in ([-1], None)),
]


@pytest.mark.parametrize(("use", "message"), MISTAKES)
def test_mistakes_are_named(use, message):
    with pytest.raises(ValueError, match=message):
        use()


# Tunstall codes


@st.composite
def codes(draw):
    weights = draw(st.lists(st.floats(0, 1).map(lambda x: x**2), min_size=2, max_size=6))
    weights = np.array(weights) + (sum(weights) == 0)
    return TunstallCode(weights / weights.sum(), draw(st.integers(0, 30)))


@settings(derandomize=True, deadline=None, max_examples=100)
@given(codes(), st.data())
def test_tunstall_is_lossless_on_every_sequence(code, data):
    symbols = data.draw(st.lists(st.integers(0, code.num_symbols - 1), max_size=50))
    assert code.decode(code.encode(symbols)) == symbols


def test_tunstall_tree_by_hand():
    """The example of the docstring: leaves are numbered node by node."""
    code = TunstallCode([0.7, 0.2, 0.1], 1)
    assert [code.phrase(word) for word in range(5)] == [[1], [2], [0, 0], [0, 1], [0, 2]]
    assert (code.num_codewords, code.codeword_bits) == (5, 3)
    assert code.expected_phrase == pytest.approx(1.7)
    assert code.rate == pytest.approx(3 / 1.7)
    assert code.encode([0, 1, 2]) == "1" + "011" + "001"
    assert code.encode([0]) == "010" + "100"


@settings(derandomize=True, deadline=None, max_examples=100)
@given(codes())
def test_tunstall_phrases_are_complete_and_prefix_free(code):
    """Kraft's sum over the source alphabet is 1, and no phrase is the beginning of another."""
    phrases = [tuple(code.phrase(word)) for word in range(code.num_codewords)]
    assert len(set(phrases)) == code.num_codewords
    assert sum(code.num_symbols ** -len(phrase) for phrase in phrases) == pytest.approx(1)
    prefixes = {phrase[:length] for phrase in phrases for length in range(len(phrase))}
    assert not prefixes & set(phrases)


def test_tunstall_rate_falls_towards_the_entropy_and_never_below():
    """The theorem of the appendix: at most 2% above the entropy with words of 16 bits."""
    distribution = [0.6, 0.2, 0.1, 0.1]
    rates = [TunstallCode(distribution, (2**bits - 4) // 3).rate for bits in (2, 6, 10, 16)]
    entropy = float(theory.entropy(distribution))
    assert all(later < earlier for earlier, later in itertools.pairwise(rates))
    assert entropy <= rates[-1] <= 1.02 * entropy
    for bits in range(2, 12):
        code = TunstallCode(distribution, k := (2**bits - 4) // 3)
        assert code.entropy <= code.rate
        if k:
            assert code.expected_phrase <= theory.tunstall_leaf_bound(distribution, 4, k)


# Damaged bits, and arguments that would take for ever


@settings(derandomize=True, deadline=None, max_examples=100)
@given(codes(), st.text("01", max_size=24))
def test_tunstall_takes_nothing_that_it_does_not_write(code, bits):
    try:
        symbols = code.decode(bits)
    except ValueError:
        return
    assert code.encode(symbols) == bits


def test_a_proposal_that_never_comes_is_given_up(monkeypatch):
    monkeypatch.setattr(simulation, "MOST_PROPOSALS", 500)
    with pytest.raises(ValueError, match=r"none of the first 500 proposals .* p / q = 1e\+09"):
        channel.greedy_rejection_encode([0.0, 1.0], [1 - 1e-9, 1e-9], 0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("least", [1e-5, 1e-40, 1e-200])
def test_the_entropy_of_an_index_is_that_of_all_its_tail(method, least):
    """D_KL <= H for any number of listed indices, and H does not depend on that number."""
    rng = np.random.default_rng(8)
    for _ in range(3):
        p, q = rng.dirichlet(np.full(8, 0.3)), np.maximum(rng.dirichlet(np.full(8, 0.1)), least)
        few, more = (index_distributions(p, q / q.sum(), method, count) for count in (30, 1500))
        assert few.kl <= few.entropy_with + 1e-9
        assert few.entropy_with == pytest.approx(more.entropy_with, abs=1e-4)
