"""Exponential races keyed by position."""

import itertools
import math

import numpy as np
import pytest
import torch

from specdec.methods import Drafted, ersd
from specdec.methods.ersd import winners
from specdec.probs import LazyLogProbs, Sampling
from specdec.race import (
    PositionNoise,
    Races,
    Stream,
    checked_seed,
    derived_seed,
    log_exponentials,
    race_of,
    splitmix,
)
from specdec.race import sparse as sparse_race
from specdec.race.keys import key_of
from specdec.race.races import DeviceRace
from specdec.race.sparse import SparseRace
from specdec.topology import Topology


def splitmix64(state, count):
    """The published generator in plain Python integers: an independent computation of the noise."""
    mask, out = (1 << 64) - 1, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out.append(z ^ (z >> 31))
    return out


def test_the_exponentials_of_a_position_are_a_run_of_splitmix64():
    assert splitmix64(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    u = [((bits >> 11) + 0.5) * 2.0**-53 for bits in splitmix64(key_of(3, Stream.RACE, 9), 3000)]
    exponentials = log_exponentials(3, [9], 3000)[0].exp()
    assert exponentials.tolist() == pytest.approx(-np.log1p(-np.array(u)), rel=1e-12)


@pytest.mark.parametrize("count", [5, 3000, 3 * (1 << 14) + 5])  # several keys per block, and several blocks
def test_noise_is_the_same_bits_in_numpy_torch_and_python(count):
    keys = [0, 1, 2**64 - 1, 12345678901234567890, 7, 8, 9]
    uniforms = np.empty((len(keys), count))
    for some, part, u in splitmix.blocks(keys, count):
        uniforms[some, part] = u
    assert np.array_equal(uniforms, splitmix.uniforms_on(torch.device("cpu"), keys, count).numpy())
    for row, key in zip(uniforms, keys, strict=True):
        assert [splitmix.uniform(key, i) for i in (0, 4, count - 1)] == row[[0, 4, count - 1]].tolist()


def key_of_the_largest():
    """A key whose first number comes from 64 bits that are all 1, found by inverting `mix` step by step."""
    z = splitmix.MASK
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        z ^= z >> shift ^ z >> 2 * shift
        z = z * pow(factor, -1, 1 << 64) & splitmix.MASK
    assert splitmix.mix(z) == splitmix.MASK
    return z - splitmix.GOLDEN & splitmix.MASK


def test_the_largest_number_is_below_one():
    key = key_of_the_largest()
    numbers = next(splitmix.blocks([key], 9))[2][0]
    assert numbers[0] == splitmix.uniform(key, 0) == 1 - 2.0**-53
    assert numbers.tolist() == splitmix.uniforms_on(torch.device("cpu"), [key], 9)[0].tolist()


def test_numbers_at_indices_and_below_a_limit_are_those_of_the_whole():
    key, count = 12345, 40_000
    uniforms = splitmix.uniforms_on(torch.device("cpu"), [key], count)[0].numpy()
    some = np.array([0, 7, 1 << 14, count - 1])
    assert np.array_equal(splitmix.at(key, some), uniforms[some])
    assert np.array_equal(splitmix.below(key, count, 1 << 24), np.flatnonzero(uniforms < 2.0**-7))


def sparse_races_differ(vocab_size=20_000):
    """The number of 72 races that differ from the whole race. They are from flat to nearly decided, some with
    little support, half of them under weights that are not normalised."""
    differ = 0
    for seed in range(72):
        generator = torch.Generator().manual_seed(seed)
        scale = (0.0, 0.5, 2.0, 4.0, 10.0, 100.0)[seed % 6]
        log_p = torch.randn(2, vocab_size, generator=generator) * scale
        log_p = log_p + 5 * (seed % 7 - 3) if seed < 36 else torch.log_softmax(log_p, -1)
        if seed % 4 == 0:
            log_p[:, torch.rand(vocab_size, generator=generator) < 0.999] = -math.inf
        dense = race_of(log_exponentials(3, [seed], vocab_size)[0])
        sparse = Races(3, vocab_size).at(seed)
        assert isinstance(sparse, SparseRace)
        assert torch.equal(sparse.exponentials, dense.exponentials)
        same = all(sparse.arrivals(log_p, n) == dense.arrivals(log_p, n) for n in (1, 3, 60))
        differ += not (same and sparse.winner(log_p[1]) == dense.winner(log_p[1]))
    return differ


def test_sparse_races_have_the_arrivals_of_whole_ones(monkeypatch):
    """The control computes too few tokens."""
    assert sparse_races_differ() == 0
    monkeypatch.setattr(sparse_race, "_SLACK", -3.0)
    assert sparse_races_differ() > 3


@pytest.mark.parametrize(
    ("bad", "place"), [(math.nan, 0), (math.inf, 9_999), (-math.inf, 0), (math.nan, 19_999)]
)
@pytest.mark.parametrize("kind", [SparseRace, lambda key, size: race_of(log_exponentials(key, [0], size)[0])])
def test_a_race_under_broken_weights_ends_at_a_broken_one(kind, place, bad):
    """ERSD looks at the winner's weight alone to notice broken logits."""
    log_p = torch.randn(20_000, generator=torch.Generator().manual_seed(0))
    log_p[slice(None) if bad == -math.inf else place] = bad
    race = kind(3, len(log_p))
    assert not math.isfinite(log_p[race.winner(log_p)])
    assert race.arrivals(log_p[None], 1) == [[]]


@pytest.mark.parametrize(("vocab_size", "temperature"), [(50, 0), (20_000, 0), (50, 1), (20_000, 0.3)])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_ersd_notices_broken_logits(vocab_size, bad, temperature):
    logits = torch.zeros(1, vocab_size)
    logits[:, 1 if bad != -math.inf else slice(None)] = bad
    drafted, noise = Drafted(Topology([]), [0], [None]), PositionNoise(Races(0, vocab_size), 1)
    with pytest.raises(ValueError, match="logits hold NaN"):
        ersd.verify(drafted, LazyLogProbs(logits, Sampling(temperature), vocab_size), noise)


KINDS = [race_of, DeviceRace]


@pytest.mark.parametrize("count", [1, 3, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_arrivals_under_several_distributions_are_in_order(kind, count):
    log_q = torch.log_softmax(torch.randn(2, 4000, generator=torch.Generator().manual_seed(0)), -1)
    e = log_exponentials(4, [0], 4000)[0]
    order = (e - log_q).argsort(-1)
    assert [kind(e).winner(row) for row in log_q] == order[:, 0].tolist()
    assert kind(e).arrivals(log_q, count) == order[:, :count].tolist()
    assert kind(e).log_e([7, 3]) == e[[7, 3]].tolist()


def test_winners_that_are_found_together_are_those_of_the_races():
    e = [race_of(row) for row in log_exponentials(4, range(3), 4000)]
    log_p = torch.log_softmax(torch.randn(3, 4000, generator=torch.Generator().manual_seed(0)), -1)
    assert winners(e, log_p) == [race.winner(row) for race, row in zip(e, log_p, strict=True)]
    log_p[1] = math.nan
    with pytest.raises(ValueError, match="logits hold NaN"):
        winners(e, log_p)


@pytest.mark.parametrize("kind", KINDS)
def test_arrivals_stop_at_the_support_and_at_the_vocabulary(kind):
    log_q = torch.tensor([[0.0, -math.inf, 0.0, -math.inf], [0.0, 0.0, 0.0, 0.0]])
    race = kind(log_exponentials(2, [0], 4)[0])
    for count in (4, 5, 9):
        orders = race.arrivals(log_q, count)
        assert [sorted(order) for order in orders] == [[0, 2], [0, 1, 2, 3]]
        assert [order[0] for order in orders] == [race.winner(row) for row in log_q]


def test_streams_seeds_and_positions_differ():
    keys = itertools.product((0, 1), (0, 1), Stream)
    rows = [log_exponentials(seed, [position], 4, stream=stream)[0] for seed, position, stream in keys]
    assert len({tuple(row.tolist()) for row in rows}) == 4 * len(Stream)


def test_races_of_a_run_are_those_of_their_positions():
    races = Races(9, 6)
    for position in (0, 1, 2, 2, 30, 29, 5, 7, 8, 3, 15, 16):
        assert torch.equal(races.at(position).exponentials, log_exponentials(9, [position], 6)[0])
        races.forget(position)


def test_seeds_of_64_bits_are_taken_others_are_named_and_derived_ones_differ():
    for seed in (0, 2**64 - 1):
        assert checked_seed(seed) == seed
        assert torch.isfinite(log_exponentials(seed, [0], 3)).all()
    for wrong in (-1, 2**64, 1.5, "1", True):
        with pytest.raises(ValueError, match="seed = "):
            checked_seed(wrong)
    seeds = {derived_seed(seed, number) for seed in range(4) for number in range(100)}
    assert len(seeds) == 400
    assert all(checked_seed(seed) < 2**63 for seed in seeds)
