"""The experiments that measure one text after another run and count correctly."""

import json

import pytest

from research.experiments import ahead, limits, lists, rounding
from research.experiments.sweep import Store
from research.experiments.texts import distributions, own_ranks, rounds_on, written
from specdec import theory
from specdec.decoding.run import generate
from specdec.loading import load_pair
from specdec.shipped import ASSETS
from specdec.topology import sequence


@pytest.mark.parametrize(
    "experiment", [limits, lists, ahead, rounding], ids=lambda module: module.EXPERIMENT.name
)
def test_an_experiment_runs_and_its_summary_is_that_of_its_file(experiment, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(lists, "RANDOM_PAIRS", 10)
    results, summary = tmp_path / "results.jsonl", tmp_path / "summary.json"
    experiment.EXPERIMENT.command(["--smoke", "--results", str(results), "--summary", str(summary)])
    lines, table = results.read_text().splitlines(keepends=True), capsys.readouterr().out
    assert [json.loads(line)["text"] for line in lines[1:]] == [0, 1]
    assert "stories" in table
    report = json.loads(summary.read_text())
    assert report["machine"]
    if experiment is rounding:
        rows = {row["compared"]: row for row in report["points"]}
        assert list(rows) == list(rounding.COMPARED)
        assert rows["float32, 5 rows"]["distance"]["value"] == rows["float32, 5 rows"]["parted"]["value"] == 0
        assert rows["Q4_0 weights"]["expected"]["value"] > rows["int8 weights"]["expected"]["value"] > 0
    experiment.EXPERIMENT.command(["--results", str(results), "--summary"])
    assert capsys.readouterr().out == table


def test_the_ranks_of_a_text_say_how_ersd_decodes_it():
    """The rounds on a tree are those of the decoder. The negative control has another text's ranks."""
    pair = load_pair("stories", dtype="float32")
    first, second = (written(pair, number, 24) for number in (0, 1))
    ranks, others = (own_ranks(pair, text, *distributions(pair, text)) for text in (first, second))
    settings = {"method": "ersd", "max_new_tokens": 24, "seed": first.seed}
    g = generate(pair, first.ids[: first.start], topology=sequence(3), **settings)
    accepted = [sum(node.status == "accepted" for node in each.nodes) for each in g.rounds]
    counted, control = ([len(path) for path, _ in rounds_on(sequence(3), each)] for each in (ranks, others))
    assert len(counted) == len(accepted)
    assert counted[:-1] == accepted[:-1]  # the decoder drafts nothing at the last token of a text
    assert control[:-1] != accepted[:-1]


def test_all_limits_hold_for_the_best_trees_of_independent_contexts():
    rates = theory.ersd_acceptance_by_index([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], 3).numpy()
    for k in (1, 4, 64):
        bounds = limits.limits(rates, 1.5, 2.5, 3, k)
        tree = theory.expected_tokens(rates, limits.optimal_topology(rates, k))
        assert all(tree <= bounds[name] + 1e-9 for name in ("tunstall", "lemma", "renewal"))


def test_the_gain_of_a_pipelined_round_is_bounded_by_the_draft_s_share():
    summary = {"text": 0, "tokens": 6, "ranks": [0, 0, 1, 0, 2, 0], "gsd": [0.1] * len(ahead.GUESSES)}
    seconds = {"trees": {name: [0.2, 0.8] for name in ahead.TREES}}
    run = summary | {"rejected": 0.4, "seconds": seconds | {"rows": [1e-3] * len(ahead.ROWS)}}
    pair = ahead.EXPERIMENT.summary({"stories": [run, run | {"text": 1}]})["pairs"]["stories"]
    for row in pair["trees"]:
        assert row["share"] == pytest.approx(0.2)
        assert 1 <= row["gain"] <= 1 / 0.8 + 1e-9
        chances = [hit["value"] for hit in row["hits"].values()]
        assert chances == sorted(chances)
        assert chances[-1] == 1
    assert pair["after_one"]["ersd"][-1] == pytest.approx(1)


def test_the_committed_gain_is_below_what_a_pipelined_round_would_be_worth():
    """The page says that this was not built. A committed gain above `WORTH` would contradict that."""
    summary = json.loads((ASSETS / "results" / "ahead.json").read_text())
    assert {pair: values["gain"] < ahead.WORTH for pair, values in summary["pairs"].items()} == {
        "stories": True,
        "smollm2": True,
    }


def test_a_pair_that_is_not_installed_is_left_out(tmp_path):
    results = tmp_path / "results.jsonl"
    Store(results).append({"settings": {"max_new_tokens": {"stories": 12}}, "pair": {}, "machine": {}})
    Store(results).append({"pair": "other", "text": 0})
    written = tmp_path / "summary.json"
    limits.EXPERIMENT.command(
        ["--smoke", "--pair", "smollm2", "--results", str(results), "--summary", str(written)]
    )
    assert json.loads(written.read_text())["pairs"] == {}
