"""The recordings with which Compare and Losslessness open are still what the decoder writes."""

import json

import pytest

from components.compare import panel as compare
from components.compare import record_columns
from components.decode import traces
from components.losslessness import record_checks
from components.losslessness.run import CheckSettings
from specdec import Generation
from tests.conftest import ours, same_arithmetic


@pytest.fixture(scope="module", params=["smollm2", "stories"])
def name(request):
    return request.param


@pytest.fixture(scope="module")
def comparison(name):
    return json.loads(compare.RECORDED[name == "smollm2"].read_text())


def tokens(lane):
    return [token for round in lane["rounds"] for token in round["tokens"]]


def test_the_recorded_comparison_is_the_decoder_s(comparison, name):
    """Texts and trees are compared, but not the seconds, which come from another machine."""
    if name == "smollm2":
        opening = Generation.from_json((traces.FOLDER / "opening.json").read_text())
        same_arithmetic(ours(name), opening)
    now = record_columns.record(ours(name))
    assert now["shared"] == comparison["shared"]
    assert now["lanes"].keys() == comparison["lanes"].keys()
    for name, lane in now["lanes"].items():
        assert lane["tree"] == comparison["lanes"][name]["tree"]
        assert tokens(lane) == tokens(comparison["lanes"][name])


def test_the_recorded_comparison_shows_what_the_tab_is_about(comparison):
    """ERSD writes the reference's text, GSD another one."""
    ids = {name: [token["id"] for token in tokens(lane)] for name, lane in comparison["lanes"].items()}
    assert ids["ersd.sequence.4.own"] == ids["reference"]
    assert ids["gsd.sequence.4.own"] != ids["reference"]


def test_the_recorded_check_is_the_decoder_s():
    """The first points, the distribution and the tree of the record are those of a new check."""
    recorded = json.loads(record_checks.RECORDED.read_text())
    now = record_checks.record(CheckSettings(decodes=800))
    assert now["setup"] | {"decodes": 8000} == recorded["setup"]
    assert now["tree"] == recorded["tree"]
    assert now["distribution"] == pytest.approx(recorded["distribution"], rel=1e-12)
    assert now["path"][-1] == [800, pytest.approx(dict(recorded["path"])[800], rel=1e-3)]
    assert sum(recorded["counts"]) == recorded["decodes"] == 8000
