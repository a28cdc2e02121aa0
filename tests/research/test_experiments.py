import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from research.estimates import combined, mean, quotient
from research.experiments import sweep
from research.experiments.paper import EXPERIMENT, counts, header, sweep_of
from research.experiments.plan import Plan
from research.experiments.settings import Point, Settings, read_prompts, seed_of
from research.experiments.summary import summarize
from research.experiments.sweep import Store
from specdec import ModelPair, generate, optimal_topology, stats
from specdec.commands import without_traceback
from specdec.models import MarkovModel
from specdec.shipped import PROMPTS
from tests.helpers.distributions import markov_pair, random_table
from tests.helpers.tiny_checkpoints import tiny_model

SMALL = Settings(
    prompts=((0, 1), (1,), (2, 0), (2, 2), (1, 1, 1)),
    tokens=150,
    max_new_tokens=12,
    positions=2,
    sequence=(1, 2, 4),
    batch=(1, 2),
    specinfer=(4, 6),
    optimal=(1, 4, 8, 12, 16, 24),
)
PAIR = markov_pair(3)


def done(store):
    """The finished runs in a fixed order and without their times."""
    _, runs = store.read()
    return sorted(
        json.dumps({k: v for k, v in run.items() if k != "seconds"}, sort_keys=True) for run in runs
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("experiment") / "results.jsonl")
    sweep_of(PAIR, SMALL).complete(store, quiet=True)
    return store


@pytest.fixture(scope="module")
def summary(finished):
    return summarize(*finished.read())


# ---------------------------------------------------------------- runs


def test_all_points_do_the_same_runs_until_each_has_its_tokens(finished):
    plan = Plan(SMALL, finished.read()[1])
    assert plan.is_finished
    for item in plan.planned:
        runs = plan.runs_of(item)
        assert len(runs) == len(plan.numbers)
        assert sum(run["tokens"] for run in runs) >= SMALL.tokens
        assert [run["seed"] for run in runs] == [seed_of(SMALL.seed, *number) for number in plan.numbers]


def test_no_run_is_there_twice_and_equal_trees_share_theirs(finished):
    _, runs = finished.read()
    plan = Plan(SMALL, runs)
    trees = {(item.point.method, item.topology) for item in plan.planned}
    assert len(trees) < len(plan.planned)
    assert len(runs) == len({*map(json.dumps, runs)}) == len(trees) * len(plan.numbers) + len(SMALL.prompts)


def test_texts_that_are_decoded_together_give_the_same_lines(finished, tmp_path):
    store = Store(tmp_path / "results.jsonl")
    sweep_of(PAIR, SMALL, at_once=7).complete(store, quiet=True)
    assert done(store) == done(finished)


@pytest.mark.parametrize("share", [0.03, 0.55])
def test_a_killed_experiment_goes_on_with_nothing_lost_and_nothing_doubled(finished, tmp_path, share):
    data = finished.path.read_bytes()
    cut = Store(tmp_path / "cut.jsonl")
    cut.path.write_bytes(data[: int(share * len(data))])
    sweep_of(PAIR, SMALL).complete(cut, quiet=True)
    assert done(cut) == done(finished)
    assert cut.path.read_bytes().count(b"\n") == data.count(b"\n")


def test_a_file_that_another_experiment_writes_or_that_can_t_be_written_is_told(tmp_path):
    store = Store(tmp_path / "results.jsonl")
    with store.continued(header(PAIR, SMALL)), pytest.raises(ValueError, match="another experiment is"):
        sweep_of(PAIR, SMALL).complete(store, quiet=True)
    with pytest.raises(ValueError, match="could not be written"):
        Store(tmp_path).append({})


def test_a_file_of_other_settings_is_refused(finished):
    with pytest.raises(ValueError, match="begun with settings seed = 0, not 1"):
        sweep_of(PAIR, replace(SMALL, seed=1)).complete(finished, quiet=True)
    with pytest.raises(ValueError, match="begun with pair vocab_size"):
        sweep_of(markov_pair(4), SMALL).complete(finished, quiet=True)


def test_a_file_of_other_weights_is_refused(tmp_path):
    """A model that was trained again under the same name counts as another model."""
    first, second = (tiny_model("llama", seed=seed) for seed in (0, 1))
    with torch.no_grad():
        second.model.norm.weight.mul_(1.5)
    own, same, other = (header(ModelPair(model, first), SMALL) for model in (first, first, second))
    store = Store(tmp_path / "results.jsonl")
    with store.continued(own):
        pass
    with store.continued(same):
        pass
    with pytest.raises(ValueError, match="begun with pair target_weights"), store.continued(other):
        pass


def test_a_file_that_is_no_results_file_is_refused(tmp_path):
    other = tmp_path / "notes.txt"
    for text, message in (("hello", "line 1: not a JSON object"), ('{"settings":{}}', "not the header")):
        other.write_text(text + "\n")
        with pytest.raises(ValueError, match=message):
            Store(other).read()


# ---------------------------------------------------------------- counts and estimates


@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_counts_are_those_of_the_trace(method):
    tree = optimal_topology([0.5, 0.3, 0.1], 6)
    generation = generate(PAIR, [0, 1], method=method, topology=tree, max_new_tokens=60, seed=3)
    line = counts(generation, tree)
    table = stats.acceptance_by_index(generation.rounds)
    assert line["offered"] == [index.offered for index in table]
    assert line["accepted"] == [index.accepted for index in table]
    assert line["tokens"] == 60
    full = [round for round in generation.rounds if len(round.nodes) == tree.num_draft_tokens]
    assert 0 < sum(line["lengths"]) == len(full) < line["rounds"]
    assert sum(n * count for n, count in enumerate(line["lengths"])) == sum(len(r.tokens) for r in full)


def test_acceptance_is_accepted_over_offered_and_sums_to_at_most_one():
    """Sequence runs reach child 0 more often than batch runs. The rates must still sum to at most 1."""
    accepted, reached = [50, 20, 10, 2], [100, 50, 30, 20]
    assert stats.acceptance_vector(accepted, reached) == pytest.approx(np.divide(accepted, 100))
    vector = stats.acceptance_vector([50 + 900, 30, 20], [100 + 1000, 50, 20])
    assert vector[0] == pytest.approx(950 / 1100)
    assert vector.sum() == pytest.approx(1)


def test_a_difference_knows_what_its_two_sides_share():
    rows = [{"prompt": prompt, "tokens": tokens, "rounds": 2} for prompt, tokens in enumerate((3, 5, 4))]
    estimate = quotient(rows, "tokens", "rounds")
    assert (estimate - estimate).standard_error == 0
    assert mean([estimate, estimate]).standard_error == pytest.approx(estimate.standard_error)
    assert combined([estimate], [2.0]).interval == pytest.approx([2 * x for x in estimate.interval])


# ---------------------------------------------------------------- summary


def test_the_summary_says_what_the_runs_say(summary, finished):
    assert summary["complete"]
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert [Point(p["method"], p["strategy"], p["k"]) for p in summary["points"]] == SMALL.points
    simple = [p for p in summary["points"] if p["k"] == 1]
    assert len({p["value"] for p in simple if p["method"] == "gsd"}) == 1
    for point in summary["points"]:
        assert point["low"] < point["value"] < point["high"]
        assert 1 <= point["value"] <= point["depth"] + 1
        assert point["tokens"] >= SMALL.tokens
        assert sum(point["lengths"]) <= point["target_calls"]


@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_bounds_and_entropies_are_in_their_order(summary, method):
    """Bounds are above the prediction. The entropy of the mean is at least the mean entropy."""
    for row in summary["bounds"][method]["by_k"]:
        assert row["prediction"] <= row["minimal"] * (1 + 1e-6) <= row["tunstall"] * (1 + 1e-5)
        if row["fixed_m"] is not None:
            assert row["minimal"] <= row["fixed_m"] * (1 + 1e-6)
    contexts = summary["acceptance"][method]["contexts"]
    assert contexts["positions"] == 2 * len(SMALL.prompts)
    assert contexts["entropy_of_mean"] >= contexts["mean_entropy"]["value"] - 1e-5
    assert contexts["kl"]["value"] >= 0


def test_every_finding_is_stated_with_its_numbers(summary):
    findings = summary["findings"]
    assert len({finding["name"] for finding in findings}) == len(findings) == 13
    assert {finding["found"] for finding in findings} <= {True, False, None}
    for finding in findings:
        assert finding["words"].startswith("Missing") == (finding["found"] is None)
        assert finding["words"].endswith(".")
        assert not set(finding["words"]) & set("{}_")
    missing = [finding["name"] for finding in findings if finding["found"] is None]
    assert missing == ["batch_3", "specinfer_level"]  # here batch ends at 2, and specinfer has two points


def test_an_unfinished_experiment_has_a_summary_of_what_is_there(finished):
    header, runs = finished.read()
    part = summarize(header, runs[: 2 * len(runs) // 3])
    assert not part["complete"]
    assert "not finished" in EXPERIMENT.as_text(part)
    with pytest.raises(ValueError, match="calibration runs are not finished"):
        summarize(header, runs[:2])


def test_equal_models_accept_everything(tmp_path):
    table = random_table(3, 1, 0)
    pair = ModelPair(MarkovModel(table), MarkovModel(table))
    settings = replace(SMALL, prompts=((0,),), tokens=20, optimal=(1, 8, 9, 10, 11))
    store = Store(tmp_path / "equal.jsonl")
    sweep_of(pair, settings).complete(store, quiet=True)
    summary = summarize(*store.read())
    assert {p["value"] for p in summary["points"] if p["strategy"] == "sequence" and p["k"] == 4} == {5.0}
    assert summary["acceptance"]["gsd"]["by_index"][0] == 1
    assert summary["points"][0]["low"] is None, "one prompt has no interval"
    assert EXPERIMENT.as_text(summary)


# ---------------------------------------------------------------- settings and command line


def test_the_prompts_are_a_hundred_different_openings():
    prompts = read_prompts(PROMPTS)
    assert len(prompts) == len({*prompts}) == 100
    seeds = {seed_of(SMALL.seed, prompt, repeat) for prompt in range(100) for repeat in range(5)}
    assert len(seeds) == 500
    with pytest.raises(ValueError, match="no file of prompts"):
        read_prompts(Path("nowhere.txt"))


def test_a_mistake_is_told_in_one_line(tmp_path):
    with pytest.raises(SystemExit, match="error: no results in"), without_traceback():
        EXPERIMENT.command(["--summary", "--results", str(tmp_path / "none.jsonl")])
    with pytest.raises(SystemExit, match="error: runs-at-once = 0 is not"), without_traceback():
        EXPERIMENT.command(["--runs-at-once", "0", "--results", str(tmp_path / "none.jsonl")])


def test_the_command_measures_and_reports(tmp_path, capsys):
    results = tmp_path / "results.jsonl"
    few = "--tokens=30 --max-new-tokens=10 --batch=1,3 --sequence=1,3 --specinfer=4 --optimal=2,6"
    EXPERIMENT.command(["--smoke", *few.split(), "--device=cpu", "--results", str(results)])
    assert "Batch, k = 1" in capsys.readouterr().out
    settings = {"tokens": 30, "max_new_tokens": 10, "sequence": [1, 3], "batch": [1, 3], "specinfer": [4]}
    of_smoke = {"positions": 1, "prompts": 4}
    assert (settings | of_smoke | {"optimal": [2, 6]}).items() <= Store(results).read()[0]["settings"].items()
    assert json.loads(results.with_suffix(".summary.json").read_text())["complete"]
    lines = results.read_bytes()
    EXPERIMENT.command(["--results", str(results), "--summary"])
    assert "not done again" not in capsys.readouterr().err
    assert results.read_bytes() == lines


def test_a_stopped_experiment_says_how_to_go_on(finished, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "_announce", stopped)
    count = len(finished.read()[1])
    with pytest.raises(KeyboardInterrupt, match=f"the {count:,} finished runs in .* are kept; give the same"):
        EXPERIMENT.command(["--smoke", "--results", str(finished.path)])
