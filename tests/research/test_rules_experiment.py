"""The experiment that compares all rules: it counts correctly, and continues where it was stopped."""

import json
from types import SimpleNamespace

import pytest

import specdec
from research.experiments import comparison, draft_temperature, rules
from research.experiments.paper import sweep_of
from research.experiments.phrases import with_interval
from research.experiments.settings import Settings
from research.experiments.store import Store
from research.experiments.summary import summarize
from specdec.methods import DRAFTING
from specdec.models import MarkovModel
from tests.helpers.distributions import random_table
from tests.research.test_serving import HEADER, measure

PROMPTS = [[token, (3 * token + 1) % 8] for token in range(8)]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A pair, its trees, and the store of all runs on eight prompts."""
    target = random_table(8, 1, 3)
    pair = specdec.ModelPair(MarkovModel(target), MarkovModel(0.7 * target + 0.3 * random_table(8, 1, 4)))
    shapes = comparison.same_trees(pair, PROMPTS, SimpleNamespace(smoke=False)).trees
    store = Store(tmp_path_factory.mktemp("rules") / "rules.jsonl")
    measure(rules, pair, PROMPTS, 2, 40, shapes, store)
    return pair, shapes, store


@pytest.mark.slow
def test_all_rules_decode_the_same_prompts_on_the_same_trees(measured):
    _, shapes, store = measured
    summary = rules.EXPERIMENT.summarize(HEADER, store.read()[1])
    assert len(summary["points"]) == len(rules.TEMPERATURES) * len(shapes) * len(DRAFTING)
    for row in summary["points"]:
        assert row["tokens"] == 8 * 40 * 2
        assert row["low"] <= row["value"] <= row["high"]
        assert row["less_than_best"]["value"] >= 0
        if row["method"] == "gsd":
            assert row["more_than_gsd"]["value"] == 0


def test_of_an_unfinished_experiment_only_prompts_count_that_all_points_have(measured):
    runs = measured[2].read()[1]
    last = max(i for i, run in enumerate(runs) if run["temperature"] and run["prompt"] == 5)
    summary = rules.EXPERIMENT.summarize(HEADER, [run for i, run in enumerate(runs) if i != last])
    tokens = {row["tokens"] for row in summary["points"] if row["temperature"]}
    assert tokens == {8 * 40 * 2 - 40}


def test_the_draft_s_temperature_changes_the_speed_and_no_text(measured, tmp_path):
    pair, shapes, _ = measured
    store, prompts = Store(tmp_path / "temperatures.jsonl"), PROMPTS
    measure(draft_temperature, pair, prompts, 1, 40, shapes, store)
    header, *lines = store.path.read_text().splitlines(keepends=True)
    store.path.write_text("".join([header, *lines[:5], *lines[7:]]))
    measure(draft_temperature, pair, prompts, 1, 40, shapes, store)
    again = store.path.read_text().splitlines(keepends=True)
    assert again[: len(lines) - 1] == [header, *lines[:5], *lines[7:]]
    assert sorted(again[len(lines) - 1 :]) == sorted(lines[5:7])
    summary = draft_temperature.EXPERIMENT.summarize(HEADER, store.read()[1])
    assert len(summary["points"]) == len(shapes) * len(draft_temperature.TEMPERATURES)
    for row in summary["points"]:
        assert row["tokens"] == 8 * 40
        assert (row["gain"]["value"] == 0) or row["draft_temperature"] != draft_temperature.BESIDE
    assert len({row["value"] for row in summary["points"]}) > len(shapes)


def test_a_text_that_the_draft_s_temperature_changes_ends_the_experiment(measured, tmp_path, monkeypatch):
    pair, shapes, _ = measured
    store, honest = Store(tmp_path / "temperatures.jsonl"), comparison.stream
    monkeypatch.setattr(
        comparison, "stream", lambda *given, **also: honest(*given, **also | {"method": "gsd"})
    )
    with pytest.raises(AssertionError, match="differs from plain decoding's"):
        measure(draft_temperature, pair, [[0], [1]], 1, 40, shapes, store)


def test_a_greedy_repeat_has_a_prompt_with_one_token_less(measured):
    pair, shapes, store = measured
    for job in store.read()[1]:
        if not job["temperature"] and (job["tree"], job["method"]) == ("batch(4)", "gsd"):
            prompt = PROMPTS[job["prompt"]][: 2 - job["repeat"]]
            alone = specdec.generate(
                pair, prompt, topology=shapes["batch(4)"], temperature=0, max_new_tokens=40
            )
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


def test_the_paper_s_experiments_take_any_method(tmp_path):
    table = random_table(8, 1, 0)
    pair = specdec.ModelPair(MarkovModel(table), MarkovModel(random_table(8, 1, 1)))
    settings = Settings(
        prompts=([0], [1]),
        tokens=60,
        max_new_tokens=16,
        positions=1,
        methods=("gsd", "traversal", "spectr"),
        sequence=(1, 2),
        batch=(1, 2),
        specinfer=(),
        optimal=(2,),
    )
    store = Store(tmp_path / "results.jsonl")
    sweep_of(pair, settings).complete(store, quiet=True)
    summary = summarize(*store.read())
    assert summary["complete"]
    assert {point["method"] for point in summary["points"]} == {*settings.methods}
    assert summary["acceptance"]["gsd"]["contexts"]["positions"] == 2
    # there is no acceptance by index for this rule
    assert summary["acceptance"]["traversal"]["contexts"] is None
