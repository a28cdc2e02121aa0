"""What Compare and Losslessness open with is what the decoder still writes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from components.compare import panel as compare
from components.compare import record as compare_record
from components.losslessness import record as lossless_record
from components.losslessness.run import CheckSettings


@pytest.fixture(scope="module")
def comparison():
    return json.loads(compare.RECORDED.read_text())


def tokens(lane):
    return [token for round in lane["rounds"] for token in round["tokens"]]


def test_the_recorded_comparison_is_the_decoder_s(comparison):
    """Texts and trees; the seconds are another machine's."""
    now = compare_record.record()
    assert now["shared"] == comparison["shared"]
    assert now["lanes"].keys() == comparison["lanes"].keys()
    for name, lane in now["lanes"].items():
        assert lane["tree"] == comparison["lanes"][name]["tree"]
        assert tokens(lane) == tokens(comparison["lanes"][name])
    assert comparison["shared"] == compare_record.SHARED
    for value in ("prompt", "seed", "length", "temperature"):
        assert f'name="{value}"' in compare._TEMPLATE


def test_the_recorded_comparison_shows_what_the_tab_is_about(comparison):
    """ERSD writes the reference's text, GSD another one."""
    ids = {name: [token["id"] for token in tokens(lane)] for name, lane in comparison["lanes"].items()}
    assert ids["ersd.sequence.4.own"] == ids["reference"]
    assert ids["gsd.sequence.4.own"] != ids["reference"]


def test_the_recorded_check_is_the_decoder_s():
    """Its first points are those of a check of as many decodes; its law and its tree those of today."""
    recorded = json.loads(lossless_record.RECORDED.read_text())
    assert recorded["setup"] == lossless_record.record(CheckSettings(decodes=100))["setup"] | {
        "decodes": 8000
    }
    now = lossless_record.record(replace(CheckSettings(), decodes=800))
    assert {name: now[name] for name in ("tree", "tables", "law")} == {
        name: recorded[name] for name in ("tree", "tables", "law")
    }
    ends = dict(recorded["path"])
    assert now["path"][-1] == [800, ends[800]]
    assert sum(recorded["counts"]) == recorded["decodes"] == 8000
