"""Two arithmetics of one model: how often races, greedy decoding and independent samples differ."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from research.experiments import rounding
from research.theory import parting
from specdec.race import log_exponentials
from tests.theory.test_theory import SIGMAS

ROOT = Path(__file__).resolve().parent.parent.parent
REPORT = ROOT / "assets" / "results" / "rounding.json"


def test_both_bounds_are_reached():
    """Two tokens reach D_TV. With one shared token and one token that each side lacks, the upper bound is
    reached."""
    for distance in (1e-6, 0.1, 0.5):
        two = float(parting.race_parting([0.5, 0.5], [0.5 - distance, 0.5 + distance]))
        three = float(parting.race_parting([1 - distance, distance, 0], [1 - distance, 0, distance]))
        assert two == pytest.approx(distance, abs=1e-12)
        assert three == pytest.approx(2 * distance / (1 + distance), abs=1e-12)


def test_greedy_decoding_parts_always_where_the_race_hardly_does():
    p, q = [0.5 + 1e-6, 0.5 - 1e-6], [0.5 - 1e-6, 0.5 + 1e-6]
    assert float(parting.greedy_parting(p, q)) == 1
    assert float(parting.race_parting(p, q)) < 1e-5
    assert float(parting.independent_parting(p, q)) == pytest.approx(0.5)


def test_the_rate_is_the_derivative_and_root_two_for_normal_rounding():
    rng, step, quotients = np.random.default_rng(0), 1e-5, []
    for _ in range(20):
        p, h = rng.dirichlet(np.full(400, 1.0)), rng.normal(size=400)
        h -= p @ h
        rate, distance = float(parting.race_parting_rate(p, h)), float(p @ np.abs(h)) / 2
        assert rate == pytest.approx(float(parting.race_parting(p, p * (1 + step * h))) / step, rel=1e-3)
        assert distance < rate < 2 * distance
        quotients.append(rate / distance)
    assert np.mean(quotients) == pytest.approx(math.sqrt(2), abs=0.03)


@pytest.mark.parametrize("shared", [True, False])
def test_races_part_as_often_as_computed_and_only_on_shared_noise(shared):
    """A false alarm has a probability of 4e-8. Independent noise is the negative control."""
    races, p = 20_000, torch.from_numpy(np.random.default_rng(3).dirichlet(np.full(50, 0.3)))
    q = torch.softmax(p.log() + 0.3 * torch.randn(50, generator=torch.Generator().manual_seed(0)), -1)
    e = log_exponentials(1, range(races), 50)
    other = e if shared else log_exponentials(2, range(races), 50)
    parted = float(((e - p.log()).argmin(-1) != (other - q.log()).argmin(-1)).double().mean())
    expected = float(parting.race_parting(p, q))
    error = SIGMAS * math.sqrt(expected * (1 - expected) / races)
    assert (abs(parted - expected) < error) == shared


def test_texts_part_where_they_first_differ():
    assert rounding.first_difference([1, 2, 3], [1, 2, 3]) is None
    assert rounding.first_difference([1, 2, 3], [1, 5, 3]) == 1
    assert rounding.first_difference([1, 2], [1, 2, 3]) == 2


def test_the_committed_races_part_as_often_as_their_logits_say():
    """Each token adds independent races: a false alarm has a probability of 4e-8 for each row."""
    report = json.loads(REPORT.read_text())
    assert len({(row["pair"], row["compared"]) for row in report["points"]}) == len(report["points"]) >= 18
    for row in report["points"]:
        races = row["tokens"] * report["races"]
        expected, parted = row["expected"]["value"], row["parted"]["value"]
        assert abs(parted - expected) <= SIGMAS * math.sqrt(expected / races) + 1e-12
        assert row["distance"]["value"] <= expected + 1e-12 <= row["bound"]["value"] + 2e-12


@pytest.mark.parametrize("file", ["docs/kernels.md", "components/decode/models.py", "assets/compare/diff.js"])
def test_what_is_told_is_what_was_measured(file):
    rows = json.loads(REPORT.read_text())["whole"]
    by_name = {row["arithmetic"]: row for row in rows if row["pair"] == "stories"}
    row = by_name["bfloat16, torch"]
    assert f"{row['different']} of {row['texts']} texts of up to 140 tokens" in (ROOT / file).read_text()
    assert by_name["float32"]["different"] == by_name["bfloat16 weights"]["different"] == 0 < row["different"]
