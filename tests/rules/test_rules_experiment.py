"""The experiment that sets all rules side by side: what it counts, and that it goes on where it was."""

from __future__ import annotations

import json

import pytest

import specdec
from specdec.experiments import Settings, rules, run, summarize
from specdec.experiments.fixed_trees import trees
from specdec.experiments.store import Store
from specdec.methods import DRAFTING
from specdec.models import MarkovModel
from tests.helpers.laws import random_table

HEADER = {"settings": {"max_new_tokens": 40}, "pair": {"target": "target", "draft": "draft"}}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A pair, its trees, and the store of all runs on eight prompts."""
    target = random_table(8, 1, 3)
    pair = specdec.ModelPair(MarkovModel(target), MarkovModel(0.7 * target + 0.3 * random_table(8, 1, 4)))
    shapes, store = trees(pair), Store(tmp_path_factory.mktemp("rules") / "rules.jsonl")
    store.begin(HEADER)
    rules.measure(pair, [[token] for token in range(8)], 2, 40, shapes, store)
    return pair, shapes, store


@pytest.mark.slow
def test_all_rules_decode_the_same_prompts_on_the_same_trees(measured):
    _, shapes, store = measured
    summary = rules.summarize(HEADER, store.read()[1])
    assert len(summary["points"]) == len(rules.TEMPERATURES) * len(shapes) * len(DRAFTING)
    for row in summary["points"]:
        assert row["tokens"] == 8 * 40 * (2 if row["temperature"] else 1)
        assert row["low"] <= row["value"] <= row["high"]
        if row["method"] == "gsd":
            assert row["more_than_gsd"]["value"] == 0


def test_at_temperature_0_no_rule_gains_anything(measured):
    points = rules.summarize(HEADER, measured[2].read()[1])["points"]
    cold = [row for row in points if row["temperature"] == 0]
    assert cold
    assert all(row["more_than_gsd"] == {"value": 0, "low": 0, "high": 0} for row in cold)


def test_a_finished_experiment_does_nothing_more(measured):
    pair, shapes, store = measured
    before = store.path.read_text()
    rules.measure(pair, [[token] for token in range(8)], 2, 40, shapes, store)
    assert store.path.read_text() == before


def test_the_table_has_a_line_a_tree_and_says_what_is_apart(measured):
    summary = rules.summarize(HEADER, measured[2].read()[1])
    head, *lines = rules.as_text(summary).splitlines()
    assert "Traversal" in head
    assert len(lines) == len(rules.TEMPERATURES) * 4
    assert json.loads(json.dumps(summary)) == summary


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
    run(pair, settings, store, quiet=True)
    summary = summarize(settings, *store.read())
    assert summary["complete"]
    assert {point["method"] for point in summary["points"]} == {*settings.methods}
    assert summary["acceptance"]["gsd"]["contexts"]["positions"] == 2
    assert summary["acceptance"]["traversal"]["contexts"] is None  # R by index has no form there
