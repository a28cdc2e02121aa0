"""The race laboratory shows the same results as the decoder and the theory."""

import json
import math
from collections import Counter

import pytest
import torch

from components.race_lab import panel as race_lab
from specdec import theory
from specdec.exactness.losslessness import chi_square
from specdec.figures import drafts
from specdec.methods import METHODS
from specdec.race import Stream, log_exponentials, race_of
from specdec.theory.trials import ersd_accepted_indices, gsd_accepted_indices
from specdec.topology import batch
from specdec.verify import verify_ersd, verify_gsd
from tests.helpers.distributions import FALSE_ALARM

PRESETS = {preset["name"]: preset for preset in race_lab.presets().values()}


def tensors(preset):
    return torch.tensor(preset["p"], dtype=torch.float64), torch.tensor(preset["q"], dtype=torch.float64)


def noise(races, size, seed=3):
    log_e = log_exponentials(seed, range(races), size)
    uniforms = torch.exp(-log_exponentials(seed, range(races), size, stream=Stream.ACCEPT).exp())
    return log_e, uniforms


def verified(method, p, q, log_e, uniforms):
    """The accepted child index of one race, decided by the decoder's own verification."""
    drafted = race_of(log_e).arrivals(q.log()[None], len(p))[0]
    tree = batch(len(drafted)), [-1, *drafted], [p.log()] * (1 + len(drafted))
    if method == "ersd":
        verdict = verify_ersd(*tree, torch.stack([log_e, torch.zeros_like(log_e)]))
    else:
        log_q = [q.log()] * (1 + len(drafted))
        # the token from the residual is not used
        verdict = verify_gsd(*tree, log_q, lambda _, index: float(uniforms[index]), lambda _: 0.5)
    return verdict.rows[0] - 1 if verdict.rows else len(p)


@pytest.mark.parametrize("name", PRESETS)
def test_vectorised_verification_decides_as_the_decoder_does(name):
    p, q = tensors(PRESETS[name])
    log_e, uniforms = noise(200, len(p))
    ersd = ersd_accepted_indices(p, q, log_e).tolist()
    gsd = gsd_accepted_indices(p, q, log_e, uniforms).tolist()
    assert ersd == [verified("ersd", p, q, log_e[i], uniforms[i]) for i in range(200)]
    assert gsd == [verified("gsd", p, q, log_e[i], uniforms[i]) for i in range(200)]


@pytest.mark.parametrize("method", ["ersd", "gsd"])
@pytest.mark.parametrize("name", PRESETS)
def test_measured_acceptance_by_index_is_the_exact_one(name, method):
    """A χ² test over 200,000 races, with a false alarm of one in a million."""
    p, q = tensors(PRESETS[name])
    exact = race_lab.exact({"p": p.tolist(), "q": q.tolist()})["by_index"][method]
    counts = Counter(race_lab.accepted_indices(p, q, 200_000, 5)[method].tolist())
    distribution = dict(enumerate([*exact, max(0.0, 1 - math.fsum(exact))]))
    assert chi_square(counts, distribution).p_value > FALSE_ALARM


def test_gsd_with_the_draft_s_own_noise_fails_the_same_test():
    """Negative control: uniforms must not come from the drafting race."""
    p, q = tensors(PRESETS["Adversarial, q ∝ 1 / p"])
    log_e, _ = noise(100_000, len(p))
    shared = gsd_accepted_indices(p, q, log_e, torch.exp(-log_e.exp()))
    exact = float(theory.gsd_acceptance(p, q))
    assert abs((shared == 0).double().mean() - exact) > 6 * math.sqrt(exact * (1 - exact) / 100_000)


def test_the_adversarial_draft_is_proportional_to_one_over_p():
    p, q = tensors(PRESETS["Adversarial, q ∝ 1 / p"])
    assert torch.allclose(q, (1 / p) / (1 / p).sum(), atol=5e-4)


def test_equal_distributions_differ_by_nothing_in_spite_of_rounding():
    result = race_lab.exact({"p": [0.1 + 0.2, 0.7], "q": [0.3, 0.7]})
    assert (result["tv"], result["kl"]) == (0, 0)


@pytest.mark.parametrize("name", PRESETS)
def test_exact_acceptance_lies_between_its_bounds(name):
    preset = PRESETS[name]
    result = race_lab.exact({"p": preset["p"], "q": preset["q"]})
    assert max(result["harmonic"], result["tv_bound"]) <= result["ersd"] + 1e-12
    assert result["ersd"] <= result["gsd"] + 1e-12
    assert result["by_index"]["ersd"][0] == pytest.approx(result["ersd"])
    assert result["by_index"]["gsd"][0] == pytest.approx(result["gsd"])
    assert result["drafts"]["ersd"][0] == pytest.approx(result["ersd"])
    assert {len(curve) for curve in result["drafts"].values()} == {drafts.MOST}


def test_the_figure_of_several_drafts_has_a_curve_for_each_rule_and_optimum():
    traces = drafts.figure().data
    assert [trace.name for trace in traces] == [
        *(name for name, _ in drafts.OPTIMA.values()),
        *(METHODS[name].name for name in drafts.RULES),
    ]


def test_the_running_rate_ends_at_the_rate_of_all_races_within_its_interval():
    result = race_lab.simulated({"p": [0.5, 0.3, 0.2], "q": [0.2, 0.3, 0.5], "seed": 1})
    for method in ("ersd", "gsd"):
        measured = result["measured"][method]
        assert measured["running"][-1] == [race_lab.RACES, *measured["by_index"][0]]
        assert [n for n, *_ in measured["running"]] == race_lab.checkpoints(race_lab.RACES)
        assert all(low <= rate <= high for _, rate, low, high in measured["running"])
    assert race_lab.simulated({"p": [0.5, 0.3, 0.2], "q": [0.2, 0.3, 0.5], "seed": 1}) == result


def test_gsd_has_its_largest_lead_where_the_preset_says():
    lead = 3 - 2 * math.sqrt(2)
    preset = PRESETS["GSD's largest lead"]
    result = race_lab.exact({"p": preset["p"], "q": preset["q"]})
    assert result["gsd"] - result["ersd"] == pytest.approx(lead)
    pairs = torch.distributions.Dirichlet(torch.full((4,), 0.3, dtype=torch.float64))
    torch.manual_seed(0)
    p, q = pairs.sample((5000,)), pairs.sample((5000,))
    assert (theory.gsd_acceptance(p, q) - theory.ersd_acceptance(p, q)).max() <= lead + 1e-12


def test_the_paper_s_figure_is_drawn_with_its_arrival_times():
    preset = race_lab.presets()["cat"]
    assert preset["tokens"] == ["floor", "mat", "chair", "table", "sofa"]
    times = [
        [e / x for e, x in zip(preset["e"], distribution, strict=True)]
        for distribution in (preset["q"], preset["p"])
    ]
    assert times[0] == pytest.approx([1.4, 0.6, 2.1, 1.1, 1.8], abs=0.006)
    assert times[1] == pytest.approx([1.7, 0.7, 1.3, 0.9, 2.2], abs=1e-9)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_distributions_that_the_sliders_can_show(name):
    preset = PRESETS[name]
    assert race_lab.FEWEST <= len(preset["tokens"]) <= race_lab.MOST
    assert len(preset["tokens"]) == len(preset["p"]) == len(preset["q"]) == len(set(preset["tokens"]))
    assert sum(preset["p"]) == pytest.approx(1, abs=1e-12)
    assert sum(preset["q"]) == pytest.approx(1, abs=1e-12)


def test_disjoint_supports_accept_nothing():
    result = race_lab.exact({"p": [1.0, 0.0], "q": [0.0, 1.0]})
    assert result["ersd"] == result["gsd"] == 0
    assert result["by_index"] == {"ersd": [0.0, 0.0], "gsd": [0.0, 0.0]}
    assert result["kl"] is None
    json.dumps(result, allow_nan=False)
