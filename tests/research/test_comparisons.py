"""The experiments that compare points on the same prompts count correctly."""

import json
from dataclasses import replace

import pytest

import specdec
from research.experiments import comparison, draft_temperature, rules, serving
from research.experiments.sweep import Store
from specdec.methods import DRAFTING
from specdec.models import MarkovModel
from specdec.phrases import with_interval
from specdec.topology import Topology, sequence
from tests.helpers.distributions import markov_pair, random_table

HEADER = {"settings": {}, "pair": {}, "machine": {}}
COUNT, LENGTH = 4, 20
PROMPTS = [[token, (3 * token + 1) % 8] for token in range(COUNT)]


def measure(experiment, pair, prompts, repeats, length, trees, store):
    """Do the runs of an experiment on this pair that the store lacks."""
    options = [f"--repeats={repeats}", f"--max-new-tokens={length}"]
    trees = {name: {"topology": tree} for name, tree in trees.items()}
    setup = comparison.SetUp(pair, prompts, trees, experiment.parsed(options))
    experiment.sweep_of(setup).complete(store)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A pair, some trees, and the store of all runs on them."""
    target = random_table(8, 1, 3)
    pair = specdec.ModelPair(MarkovModel(target), MarkovModel(0.7 * target + 0.3 * random_table(8, 1, 4)))
    trees = comparison.same_trees(pair, PROMPTS, None).trees
    shapes = {name: trees[name]["topology"] for name in ("batch(4)", "optimal(8)")}
    store = Store(tmp_path_factory.mktemp("rules") / "rules.jsonl")
    measure(rules.EXPERIMENT, pair, PROMPTS, 2, LENGTH, shapes, store)
    return pair, shapes, store


@pytest.mark.slow
def test_all_rules_decode_the_same_prompts_on_the_same_trees(measured):
    _, shapes, store = measured
    summary = rules.EXPERIMENT.summarize(HEADER, store.read()[1])
    assert len(summary["points"]) == len(rules.TEMPERATURES) * len(shapes) * len(DRAFTING)
    for row in summary["points"]:
        assert row["tokens"] == COUNT * LENGTH * 2
        assert row["low"] <= row["value"] <= row["high"]
        assert row["less_than_best"]["value"] >= 0
        if row["method"] == "gsd":
            assert row["more_than_gsd"]["value"] == 0


def test_of_an_unfinished_experiment_only_prompts_count_that_all_points_have(measured):
    runs = measured[2].read()[1]
    last = max(i for i, run in enumerate(runs) if run["temperature"] and run["prompt"] == 2)
    summary = rules.EXPERIMENT.summarize(HEADER, [run for i, run in enumerate(runs) if i != last])
    tokens = {row["tokens"] for row in summary["points"] if row["temperature"]}
    assert tokens == {COUNT * LENGTH * 2 - LENGTH}


def test_the_draft_s_temperature_changes_the_speed_and_no_text(measured, tmp_path):
    pair, shapes, _ = measured
    store = Store(tmp_path / "temperatures.jsonl")
    measure(draft_temperature.EXPERIMENT, pair, PROMPTS, 1, LENGTH, shapes, store)
    summary = draft_temperature.EXPERIMENT.summarize(HEADER, store.read()[1])
    assert len(summary["points"]) == len(shapes) * len(draft_temperature.TEMPERATURES)
    for row in summary["points"]:
        assert row["tokens"] == COUNT * LENGTH
        assert (row["gain"]["value"] == 0) or row["draft_temperature"] != draft_temperature.BESIDE
    assert len({row["value"] for row in summary["points"]}) > len(shapes)


def test_a_text_that_the_draft_s_temperature_changes_ends_the_experiment(measured, tmp_path, monkeypatch):
    pair, shapes, _ = measured
    store, honest = Store(tmp_path / "temperatures.jsonl"), comparison.stream
    monkeypatch.setattr(
        comparison, "stream", lambda *arguments, **also: honest(*arguments, **also | {"method": "gsd"})
    )
    with pytest.raises(AssertionError, match="differs from plain decoding's"):
        measure(draft_temperature.EXPERIMENT, pair, [[0], [1]], 1, LENGTH, shapes, store)


def test_a_greedy_repeat_has_a_prompt_with_one_token_less(measured):
    pair, shapes, store = measured
    for job in store.read()[1]:
        if not job["temperature"] and (job["tree"], job["method"]) == ("batch(4)", "gsd"):
            prompt = PROMPTS[job["prompt"]][: 2 - job["repeat"]]
            settings = {"topology": shapes["batch(4)"], "temperature": 0, "max_new_tokens": LENGTH}
            alone = specdec.generate(pair, prompt, **settings)
            assert len(alone.rounds) == job["rounds"]


def test_the_table_has_a_line_for_each_point_with_its_intervals(measured):
    summary = rules.EXPERIMENT.summarize(HEADER, measured[2].read()[1])
    assert json.loads(json.dumps(summary)) == summary
    name, head, *lines = rules.EXPERIMENT.as_text(summary).splitlines()
    assert name == "points"
    assert head.split()[:3] == ["temperature", "tree", "method"]
    assert len(lines) == len(summary["points"])
    row = next(row for row in summary["points"] if row["more_than_gsd"]["value"])
    assert any(with_interval(row["more_than_gsd"]) in line for line in lines)


# ---------------------------------------------------------------- many texts at once

PAIR = markov_pair(6)
STARTS = [[token] for token in range(6)]
SHAPES = {"0": Topology([]), "2": sequence(2)}
TEXTS, AT_ONCE = 4, (1, 4, 10)
SERVING = replace(serving.EXPERIMENT, grid={"at_once": AT_ONCE, "tree": ()})


@pytest.fixture(autouse=True, scope="module")
def few_texts():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "TEXTS", TEXTS)
        yield


@pytest.fixture(scope="module")
def serving_store(few_texts, tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("serving") / "serving.jsonl")
    measure(SERVING, PAIR, STARTS, 2, 6, SHAPES, store)
    return store


def test_every_point_writes_the_same_texts(serving_store):
    runs = serving_store.read()[1]
    assert len(runs) == 2 * len(AT_ONCE) * (len(SHAPES) + 1)
    assert {run["tokens"] for run in runs if run["at_once"] <= TEXTS} == {6 * TEXTS}
    assert all(run["seconds"] > 0 for run in runs)
    assert {run["k"] for run in runs if run["tree"] == "2"} == {2}


def test_rates_are_told_beside_those_without_drafts(serving_store):
    summary = SERVING.summarize(HEADER, serving_store.read()[1])
    assert summary["repeats"] == 2
    assert len(summary["points"]) == len(AT_ONCE) * (len(SHAPES) + 1)
    for row in summary["points"]:
        assert row["low"] <= row["value"] <= row["high"]
        assert (row["tree"] != serving.PLAIN) or set(row["gain"].values()) == {1.0}
    assert json.loads(json.dumps(summary)) == summary
    assert len(SERVING.as_text(summary).splitlines()) == 2 + len(summary["points"])


def test_repeats_that_were_not_finished_do_not_count(serving_store):
    summary = SERVING.summarize(HEADER, serving_store.read()[1][:-1])
    assert summary["repeats"] == 1


def test_another_text_ends_it(tmp_path, monkeypatch):
    store, honest = Store(tmp_path / "serving.jsonl"), serving.generate_many

    def another(*arguments, seeds, method="ersd", **also):
        seeds = [seed + (method == "ersd") for seed in seeds]
        return honest(*arguments, method=method, seeds=seeds, **also)

    monkeypatch.setattr(serving, "generate_many", another)
    with pytest.raises(AssertionError, match="differs from plain decoding's: 1 at once, tree 0"):
        measure(SERVING, PAIR, STARTS, 1, 6, SHAPES, store)


def test_a_file_is_not_continued_at_other_temperatures(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "load_pair", lambda name: PAIR)
    monkeypatch.setattr(comparison, "read_prompts", lambda path: STARTS)
    experiment = replace(serving.EXPERIMENT, grid={"at_once": (1,), "tree": ()})
    arguments = ["--smoke", "--results", str(tmp_path / "serving.jsonl")]
    experiment.command(arguments)
    with pytest.raises(ValueError, match=r"begun with settings temperatures = \[1\.0\], not \[0\.5\]"):
        experiment.command([*arguments, "--temperatures", "0.5"])
