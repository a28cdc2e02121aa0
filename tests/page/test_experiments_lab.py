"""The laboratory of experiments: what is shown is what was measured, and a wrong file is named."""

from __future__ import annotations

import asyncio
import json
import re
import runpy

import pytest

import app
from components.experiments import files, words
from components.experiments import views as experiment_views
from components.page import serving
from specdec.experiments import Settings, Store, run, summarize
from specdec.figures.topologies import TOPOLOGIES
from tests.helpers.laws import markov_pair

SMALL = Settings(
    prompts=((0, 1), (1,), (2, 0), (2, 2), (1, 1, 1)),
    tokens=150,
    max_new_tokens=12,
    positions=1,
    sequence=(1, 2, 4),
    batch=(1, 2),
    specinfer=(4, 6),
    optimal=(1, 4, 8, 12, 16, 24),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A finished experiment's lines, and its summary."""
    store = Store(tmp_path_factory.mktemp("experiment") / "results.jsonl")
    run(markov_pair(3), SMALL, store, quiet=True)
    return store.path.read_text(), summarize(SMALL, *store.read())


@pytest.fixture(scope="module")
def summary(results):
    return results[1]


def test_the_lines_of_a_run_and_their_summary_show_the_same(results):
    lines, summary = results
    assert files.read(lines) == files.read(json.dumps(summary)) == files.read(json.dumps(summary, indent=1))


def test_what_a_kill_left_of_a_last_line_is_not_read(results):
    lines, summary = results
    assert files.read(lines + lines.splitlines()[-1][:40]) == summary


def test_a_view_is_plain_data_with_a_figure_a_sentence_and_a_table_for_each_curve(summary):
    view = experiment_views.view(summary)
    assert json.loads(json.dumps(view, allow_nan=False)) == view
    chosen = [(figure["id"], figure["method"]) for figure in view["figures"]]
    assert chosen == [
        ("tokens", "gsd"),
        ("increments", "gsd"),
        ("tokens", "ersd"),
        ("increments", "ersd"),
        ("acceptance", None),
        ("difference", None),
    ]
    for figure in view["figures"]:
        assert figure["sentence"].endswith(".")
        assert figure["place"]
        assert figure["table"]["rows"]
        assert {len(row) for row in figure["table"]["rows"]} == {len(figure["table"]["columns"])}
        assert all(trace["legendgroup"] for trace in figure["figure"]["data"])


def test_the_table_of_a_figure_says_what_was_measured(summary):
    rows = {(row[0], row[1]): row for row in words.tokens_table(summary, "ersd")["rows"]}
    points = [point for point in summary["points"] if point["method"] == "ersd"]
    assert len(rows) == len(points)
    for point in points:
        row = rows[TOPOLOGIES[point["strategy"]].long_name, str(point["k"])]
        assert float(row[2]) == pytest.approx(point["value"], abs=0.005)
        assert float(row[4]) == pytest.approx(point["prediction"], abs=0.005)
        assert (row[5] != "–") == (point["strategy"] == "optimal")


def test_every_finding_is_shown_with_its_verdict(summary):
    shown = experiment_views.view(summary)["findings"]
    verdicts = {True: "found", False: "not found", None: "not measured"}
    assert [row["verdict"] for row in shown] == [verdicts[each["found"]] for each in summary["findings"]]
    assert [row["words"] for row in shown] == [each["words"] for each in summary["findings"]]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (6.0563, "6.06"),
        (-0.0168151, "−0.0168"),
        (0.000874, "0.000874"),
        (0, "0"),
        (12.5, "12.50"),
        (None, "–"),
    ],
)
def test_numbers_are_told_with_three_significant_digits(value, shown):
    assert words.number(value) == shown


def test_without_shipped_results_the_panel_says_how_to_make_them(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "SHIPPED", tmp_path / "none.json")
    assert experiment_views.shipped() == {"error": experiment_views.NO_RESULTS}


def test_shipped_results_are_shown(monkeypatch, tmp_path, summary):
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(summary))
    monkeypatch.setattr(files, "SHIPPED", path)
    shown = experiment_views.shipped()
    view = experiment_views.view(summary)
    assert shown["figures"][: len(view["figures"])] == view["figures"]
    assert shown | {"figures": view["figures"]} == view


@pytest.mark.skipif(not files.SHIPPED.is_file(), reason="no results are shipped yet")
def test_the_shipped_results_can_be_read():
    assert "error" not in experiment_views.shipped()


@pytest.mark.parametrize("kind", ["lines", "summary"])
def test_the_operators_own_results_are_shown_instead(monkeypatch, tmp_path, results, kind):
    monkeypatch.setattr(files, "_own", None)
    lines, summary = results
    path = tmp_path / "mine.jsonl"
    path.write_text(lines if kind == "lines" else json.dumps(summary))
    files.use(path)
    assert experiment_views.shipped() == experiment_views.view(summary)


@pytest.mark.parametrize("text", [None, "", "hello"])
def test_results_that_are_none_are_named_when_the_server_starts(tmp_path, text):
    path = tmp_path / "mine.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit, match=re.escape(f"error: results = {str(path)!r}")):
        app.main(["--results", str(path)])


def changed(summary, *path, value):
    """The summary's text with one value replaced."""
    whole = json.loads(json.dumps(summary))
    at = whole
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("points", 0, "value"), "x", "points.0.value = 'x'"),
        (("points", 1, "k"), -3, "points.1.k = -3"),
        (("points", 0, "strategy"), "best", "points.0.strategy = 'best'"),
        (("points",), [], "points = []"),
        (("acceptance",), {"ar": {}}, "acceptance.ar"),
        (("bounds", "gsd", "by_k", 0, "minimal"), "1", "bounds.gsd.by_k.0.minimal = '1'"),
        (("findings", 3, "found"), "yes", "findings.3.found = 'yes'"),
        (("findings", 0, "words"), 3, "findings.0.words = 3"),
        (("differences", 0), None, "differences.0 = None"),
        (("pair",), 3, "pair = 3"),
    ],
)
def test_what_does_not_fit_in_a_summary_is_named(summary, path, value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        files.read(changed(summary, *path, value=value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        (" \n\n", "the file is empty"),
        ("hello", "line 1: not JSON"),
        ("[1, 2]", "not a JSON object but list"),
        ("{}", "no settings and no points"),
        ('{"points": NaN}', "not JSON"),
        ("[" * 9000, "not JSON"),
        ('{"settings": 1}\n', "settings = 1"),
    ],
)
def test_a_file_that_is_no_results_file_is_told(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        files.read(text)


@pytest.mark.parametrize(
    ("line", "name", "value", "message"),
    [
        (0, "settings", {"tokens": 10**12}, "line 1: settings.tokens = 1000000000000"),
        (3, "tokens", 0, "line 4: tokens = 0"),
        (3, "method", "ar", "line 4: method = 'ar'"),
        (3, "accepted", [1, "2"], "line 4: accepted.1 = '2'"),
        (3, "prompt", None, "line 4: prompt = None"),
    ],
)
def test_what_does_not_fit_in_a_results_file_is_named_with_its_line(results, line, name, value, message):
    records = [json.loads(text) for text in results[0].splitlines()]
    records[line][name] = records[line][name] | value if isinstance(value, dict) else value
    text = "".join(json.dumps(record) + "\n" for record in records)
    with pytest.raises(ValueError, match=re.escape(message)):
        files.read(text)


def test_results_without_calibration_are_told(results):
    head = "".join(line + "\n" for line in results[0].splitlines()[:3])
    with pytest.raises(ValueError, match="calibration runs are not finished"):
        files.read(head)


def test_a_failure_of_ours_shows_no_internals(summary, monkeypatch, caplog):
    monkeypatch.setattr(experiment_views, "view", lambda _: 1 / 0)
    monkeypatch.setattr(files, "_own", summary)
    assert "division" not in experiment_views.shipped()["error"]
    assert "shipped failed" in caplog.text


def test_the_panel_runs_alone_and_its_template_holds_no_data(monkeypatch):
    launched = []
    monkeypatch.setattr(serving, "launch", launched.append)

    async def start():
        runpy.run_module("components.experiments", run_name="__main__")

    asyncio.run(start())
    panels = [
        block for block in launched[0].blocks.values() if getattr(block, "elem_id", None) == "experiments_lab"
    ]
    assert len(panels) == 1
    assert "${" not in panels[0].html_template
    assert "{{" not in panels[0].html_template


@pytest.mark.parametrize("name", ["tree", "prompt", "repeat", "tokens", "rounds", "lengths", "accepted"])
def test_a_run_without_a_field_is_named_by_page_and_command(results, name, tmp_path):
    lines = results[0].splitlines()
    run_ = json.loads(lines[3])
    del run_[name]
    text = "\n".join([*lines[:3], json.dumps(run_), *lines[4:]]) + "\n"
    with pytest.raises(ValueError, match=f"line 4.*{name}"):
        files.read(text)
    (tmp_path / "results.jsonl").write_text(text)
    with pytest.raises(ValueError, match=f"line 4: no '{name}'"):
        summarize(SMALL, *Store(tmp_path / "results.jsonl").read())


def test_a_run_that_is_there_twice_is_named_by_page_and_command(results, tmp_path):
    lines = results[0].splitlines()
    text = "\n".join([*lines, lines[2]]) + "\n"
    said = f"line {len(lines) + 1}: the run of line 3 again"
    with pytest.raises(ValueError, match=said):
        files.read(text)
    (tmp_path / "results.jsonl").write_text(text)
    with pytest.raises(ValueError, match=said):
        summarize(SMALL, *Store(tmp_path / "results.jsonl").read())


def test_a_folder_is_no_results_file(tmp_path):
    with pytest.raises(ValueError, match="could not be read"):
        Store(tmp_path).read()
