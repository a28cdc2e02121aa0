"""Turning logits into probabilities."""

import math

import numpy as np
import pytest
import torch

from specdec.probs import Sampling, log_probs, log_weights


def probs(logits, vocab_size=None, **settings):
    return log_probs(torch.as_tensor(logits), Sampling(**settings), vocab_size).exp()


def test_temperature_divides_the_logits_and_zero_is_a_one_hot_at_the_first_argmax():
    logits = torch.tensor([1.0, 2.0, 4.0])
    assert torch.allclose(probs(logits, temperature=0.5), torch.softmax(logits * 2, -1))
    assert probs([1.0, 3.0, 3.0], temperature=0).tolist() == [0, 1, 0]
    assert probs([0.0, 3.0, 1.0], temperature=1e-46).tolist() == [0, 1, 0]


@pytest.mark.parametrize("temperature", [1e-30, 1e-6, 100.0])
def test_extreme_temperatures_give_distributions(temperature):
    p = probs([1e4, -1e4, 9.9e3], temperature=temperature)
    assert torch.isfinite(p).all()
    assert p.sum() == pytest.approx(1, abs=1e-6)


def test_padding_is_cut_before_the_softmax_and_top_k_keeps_the_k_most_probable():
    assert torch.allclose(probs([1.0, 2.0, 50.0], vocab_size=2), torch.softmax(torch.tensor([1.0, 2.0]), -1))
    p = probs(torch.tensor([0.1, 0.5, 0.4]).log(), top_k=2)
    assert torch.allclose(p, torch.tensor([0.0, 5 / 9, 4 / 9]))


@pytest.mark.parametrize(("top_p", "count"), [(0.3, 1), (0.5, 1), (0.51, 2), (0.9, 2), (0.95, 3), (1.0, 3)])
def test_top_p_keeps_the_fewest_tokens_whose_mass_reaches_p(top_p, count):
    p = probs(torch.tensor([0.1, 0.5, 0.4], dtype=torch.float64).log(), top_p=top_p)
    assert (p > 0).sum() == count
    assert p.sum() == pytest.approx(1)


def test_top_p_beyond_the_first_guess_equals_a_full_sort():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5000, generator=generator, dtype=torch.float64) * 0.1
    support = probs(logits, top_p=0.9) > 0
    ordered, order = torch.softmax(logits, -1).sort(-1, descending=True)
    expected = torch.zeros_like(support).scatter(-1, order, ordered.cumsum(-1) - ordered < 0.9)
    assert support.sum(-1).min() > 1024
    assert torch.equal(support, expected)


def test_half_precision_logits_keep_the_tail_of_a_large_vocabulary():
    logits = torch.zeros(150_000, dtype=torch.bfloat16)
    logits[0] = 20
    assert (probs(logits) > 0).all()


@pytest.mark.parametrize(("dtype", "place"), [("float32", 0), ("float64", 4097), ("bfloat16", 9999)])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0, 0.5, 1.0])
def test_one_broken_logit_of_many_is_noticed_wherever_it_is(dtype, place, bad, temperature):
    logits = torch.zeros(2, 10_000, dtype=getattr(torch, dtype))
    logits[1, place] = bad
    for broken in (logits, logits.new_full((1, 2), -math.inf)):
        with pytest.raises(ValueError, match="logits"):
            log_probs(broken, Sampling(temperature))
        if temperature:
            assert log_probs(broken, Sampling(temperature), check=False)[-1].isnan().all()


WRONG = {"temperature": (-0.1, math.nan, "hot", 101), "top_k": (-1, 2.5), "top_p": (0, 1.01)}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]])
def test_settings_out_of_range_are_named(name, value):
    with pytest.raises(ValueError, match=f"{name} = {value!r}"):
        Sampling(**{name: value})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("temperature", [1e-40, 1e-7, 3e-6, 1e-3, 0.3, 1.0, 7.0])
def test_weights_of_a_race_are_the_weights_of_the_distribution(dtype, temperature):
    """GSD drafts from the first and verifies with the second, so both must be one distribution."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.randint(0, 5, (20, 50), generator=generator)
    logits = (20 * (1 + torch.finfo(dtype).eps * steps)).to(dtype)  # equal but for a rounding
    sampling = Sampling(temperature)
    from_weights = torch.log_softmax(log_weights(logits, sampling), -1)
    assert torch.equal(from_weights, log_probs(logits, sampling))


def test_what_is_clear_is_taken_for_a_number():
    cases = Sampling(torch.tensor(0.5), None, None), Sampling(np.float32(0.5), np.int64(0), torch.tensor(1.0))
    assert all(sampling == Sampling(0.5) for sampling in cases)
    assert all(type(x) in (int, float) for s in cases for x in (s.temperature, s.top_k, s.top_p))
    for wrong in (None, torch.tensor([0.5, 1.0]), torch.tensor(True), "1"):
        with pytest.raises(ValueError, match="temperature = "):
            Sampling(wrong)
