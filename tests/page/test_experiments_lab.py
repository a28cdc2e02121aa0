"""The laboratory of experiments shows the measured values, and a wrong file gives a message."""

import json
import re

import pytest

import app
from components.experiments import paper
from components.experiments import views as experiment_views
from research.experiments.paper import sweep_of
from research.experiments.summary import summarize
from research.experiments.sweep import Store
from specdec.figures.topologies import TOPOLOGIES
from specdec.phrases import number
from tests.helpers.distributions import markov_pair
from tests.page.test_catalogue import marks
from tests.research.test_experiments import SMALL

SHIPPED = experiment_views.shipped()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The lines of a finished experiment."""
    store = Store(tmp_path_factory.mktemp("experiment") / "results.jsonl")
    sweep_of(markov_pair(3), SMALL).complete(store, quiet=True)
    return store


@pytest.fixture(scope="module")
def summary(store):
    return summarize(*store.read())


def test_a_view_is_plain_data_and_has_the_figures_of_the_paper(summary):
    view = experiment_views.view(summary)
    assert json.loads(json.dumps(view, allow_nan=False)) == view
    chosen = [(figure["id"], figure.get("method")) for figure in view["figures"]]
    each = [(id, method) for method in ("gsd", "ersd") for id in ("tokens", "increments")]
    assert chosen == [*each, ("acceptance", None), ("difference", None)]


@pytest.mark.parametrize("figure", SHIPPED["figures"], ids=lambda each: f"{each['id']} {each.get('method')}")
def test_each_shipped_figure_has_intervals_a_sentence_a_table_and_marks_of_its_own(figure):
    assert json.loads(json.dumps(figure, allow_nan=False)) == figure
    assert figure["sentence"].endswith(".")
    assert figure["place"]
    assert figure["table"]["rows"]
    assert {len(row) for row in figure["table"]["rows"]} == {len(figure["table"]["columns"])}
    traces, layout = figure["figure"]["data"], figure["figure"]["layout"]
    assert layout["yaxis"]["title"]["text"]
    assert layout["paper_bgcolor"] == layout["plot_bgcolor"] == "rgba(0,0,0,0)"
    bars = [trace["error_y"] for trace in traces if "array" in trace.get("error_y", {})]
    assert any(max(bar["array"], default=0) > 0 for bar in bars)
    assert all(min([*bar["array"], *bar["arrayminus"]], default=0) >= 0 for bar in bars)
    assert {trace.get("marker", {}).get("symbol", "circle") for trace in traces} <= marks()
    lines = [trace for trace in traces if trace["legendgroup"] == trace["name"]]
    looks = [(trace.get("marker", {}).get("symbol"), trace.get("line", {}).get("dash")) for trace in lines]
    looks = [(look, trace.get("line", {}).get("color")) for look, trace in zip(looks, lines, strict=True)]
    assert len(set(looks)) == len({trace["name"] for trace in lines})


def test_the_sentence_on_rounding_says_what_was_measured():
    [view] = [view for view in SHIPPED["figures"] if view["id"] == "rounding"]
    rows = {tuple(row[:2]): row for row in view["table"]["rows"]}
    exact = rows["stories", "bfloat16, torch"][4].split()[0]
    assert f"bfloat16 changes {exact}% of the story model's tokens" in view["sentence"]


def test_the_table_of_a_figure_says_what_was_measured(summary):
    rows = {(row[0], row[1]): row for row in paper.tokens(summary, "ersd")["table"]["rows"]}
    points = [point for point in summary["points"] if point["method"] == "ersd"]
    assert len(rows) == len(points)
    for point in points:
        row = rows[TOPOLOGIES[point["strategy"]].long_name, str(point["k"])]
        assert float(row[2]) == pytest.approx(point["value"], abs=0.005)
        assert float(row[4]) == pytest.approx(point["prediction"], abs=0.005)
        assert (row[5] != "–") == (point["strategy"] == "optimal")


def test_every_finding_is_shown_with_its_verdict(summary):
    rows = experiment_views.view(summary)["findings"]
    verdicts = {True: "found", False: "not found", None: "not measured"}
    assert [row["verdict"] for row in rows] == [verdicts[each["found"]] for each in summary["findings"]]
    assert [row["words"] for row in rows] == [each["words"] for each in summary["findings"]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (6.0563, "6.06"),
        (-0.0168151, "−0.0168"),
        (8.74e-4, "0.000874"),
        (0, "0"),
        (12.5, "12.50"),
        (None, "–"),
    ],
)
def test_numbers_are_told_with_three_significant_digits(value, text):
    assert number(value) == text


def test_shipped_results_are_shown(monkeypatch, tmp_path, summary):
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(summary))
    monkeypatch.setattr(experiment_views, "SHIPPED", path)
    shipped = experiment_views.shipped()
    view = experiment_views.view(summary)
    assert shipped["figures"][: len(view["figures"])] == view["figures"]
    assert shipped | {"figures": view["figures"]} == view


@pytest.fixture
def use_summary(monkeypatch, tmp_path):
    """Start the page with a file of this text. Returns what it then shows."""
    monkeypatch.setattr(experiment_views, "_own", None)

    def use(text):
        path = tmp_path / "mine.jsonl"
        path.write_text(text)
        experiment_views.use(path)
        return experiment_views.shipped()

    return use


@pytest.mark.parametrize("indent", [None, 1])
def test_the_operators_own_summary_is_shown_instead(use_summary, summary, indent):
    assert use_summary(json.dumps(summary, indent=indent)) == experiment_views.view(summary)


def test_for_a_file_of_runs_the_command_that_summarizes_it_is_named(use_summary, store):
    with pytest.raises(ValueError, match=r"python -m research.experiments --results .* --summary` writes"):
        use_summary(store.path.read_text())


@pytest.mark.parametrize("text", [None, "", "hello", "[1, 2]", "{}", "[" * 9000, '{"points": NaN}'])
def test_results_that_are_none_are_named_when_the_server_starts(tmp_path, text):
    path = tmp_path / "mine.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit, match=re.escape(f"error: results = {str(path)!r}")):
        app.main(["--results", str(path)])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("points", 0, "value"), "x"),
        (("points", 0, "high"), 10**400),
        (("points", 0, "prediction"), float("nan")),
        (("bounds",), {}),
        (("findings", 0), 3),
        (("acceptance",), []),
    ],
)
def test_a_summary_that_can_not_be_shown_is_refused_at_the_start(use_summary, summary, path, value):
    changed = at = json.loads(json.dumps(summary))
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    with pytest.raises(ValueError, match="results = "):
        use_summary(json.dumps(changed))
