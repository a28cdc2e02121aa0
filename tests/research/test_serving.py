"""Many texts at once against k: the experiment counts correctly, and continues where it was stopped."""

import json
from dataclasses import replace

import pytest

from research.experiments import comparison, serving
from research.experiments.store import Store
from specdec.topology import Topology, sequence
from tests.helpers.distributions import markov_pair

PAIR = markov_pair(6)
PROMPTS = [[token] for token in range(6)]
SHAPES = {"0": Topology([]), "2": sequence(2)}
HEADER = {"settings": {}, "pair": {}, "machine": {}}


def measure(experiment, pair, prompts, repeats, length, trees, store):
    """Do the runs of an experiment on this pair that the store lacks."""
    options = [f"--repeats={repeats}", f"--max-new-tokens={length}"]
    setup = comparison.SetUp(pair, prompts, trees, experiment.EXPERIMENT.parser().parse_args(options))
    experiment.EXPERIMENT.sweep_of(setup).complete(store)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("serving") / "serving.jsonl")
    measure(serving, PAIR, PROMPTS, 2, 6, SHAPES, store)
    return store


def test_every_point_writes_the_same_texts(measured):
    runs = measured.read()[1]
    assert len(runs) == 2 * len(serving.AT_ONCE) * (len(SHAPES) + 1)
    assert {run["tokens"] for run in runs if run["at_once"] <= serving.TEXTS} == {6 * serving.TEXTS}
    assert all(run["seconds"] > 0 for run in runs)
    assert {run["k"] for run in runs if run["tree"] == "2"} == {2}


def test_rates_are_told_beside_those_without_drafts(measured):
    summary = serving.EXPERIMENT.summarize(HEADER, measured.read()[1])
    assert summary["repeats"] == 2
    assert len(summary["points"]) == len(serving.AT_ONCE) * (len(SHAPES) + 1)
    for row in summary["points"]:
        assert row["low"] <= row["value"] <= row["high"]
        assert (row["tree"] != serving.PLAIN) or set(row["gain"].values()) == {1.0}
    assert json.loads(json.dumps(summary)) == summary
    assert len(serving.EXPERIMENT.as_text(summary).splitlines()) == 2 + len(summary["points"])


def test_repeats_that_were_not_finished_do_not_count(measured):
    summary = serving.EXPERIMENT.summarize(HEADER, measured.read()[1][:-1])
    assert summary["repeats"] == 1


def test_another_text_ends_it(tmp_path, monkeypatch):
    store, honest = Store(tmp_path / "serving.jsonl"), serving.generate_many

    def another(*given, method, seeds, **also):
        seeds = [seed + (method == "ersd") for seed in seeds]
        return honest(*given, method=method, seeds=seeds, **also)

    monkeypatch.setattr(serving, "generate_many", another)
    with pytest.raises(AssertionError, match="differs from plain decoding's: 1 at once, tree 0"):
        measure(serving, PAIR, PROMPTS, 1, 6, SHAPES, store)


def test_a_file_is_not_continued_at_other_temperatures(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "load_pair", lambda name: PAIR)
    monkeypatch.setattr(comparison, "read_prompts", lambda path: PROMPTS)
    monkeypatch.setattr(serving, "AT_ONCE", (1, 2))
    experiment = replace(serving.EXPERIMENT, grid={"at_once": (1, 2), "tree": ()})
    arguments = ["--smoke", "--results", str(tmp_path / "serving.jsonl")]
    experiment.command(arguments)
    with pytest.raises(ValueError, match=r"begun with settings temperatures = \[1\.0\], not \[0\.5\]"):
        experiment.command([*arguments, "--temperatures", "0.5"])
