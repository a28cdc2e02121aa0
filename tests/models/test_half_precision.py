"""The report on half precision, in small, and what the committed one says."""

import json
from pathlib import Path

import pytest

from tests.helpers import half_precision

ROOT = Path(__file__).resolve().parent.parent.parent
REPORT = ROOT / "assets" / "results" / "half_precision.json"


def test_texts_part_where_they_first_differ():
    assert half_precision.first_difference([1, 2, 3], [1, 2, 3]) is None
    assert half_precision.first_difference([1, 2, 3], [1, 5, 3]) == 1
    assert half_precision.first_difference([1, 2], [1, 2, 3]) == 2
    assert half_precision.first_difference([], [4]) == 0


def test_a_small_report_counts_texts_and_tokens():
    found = half_precision.measure(texts=2, tokens=10)["rows"]
    assert [row["dtype"] for row in found] == ["bfloat16"] * 3 + ["float32"] * 3
    assert [row["different"] for row in found if row["dtype"] == "float32"] == [0, 0, 0]
    assert all(row["texts"] <= row["tokens"] <= 10 * row["texts"] for row in found)


def test_the_committed_report_is_of_a_run_of_some_length():
    rows = json.loads(REPORT.read_text())["rows"]
    for row in rows:
        rate, low, high = row["per_text"]
        assert row["different"] == 0 if row["dtype"] == "float32" else row["different"] > 0
        assert low <= rate <= high < low + 0.35 or row["dtype"] == "float32"
        assert abs(rate - row["different"] / row["texts"]) < 1e-4


@pytest.mark.parametrize("file", ["docs/api.md", "components/decode/models.py", "assets/compare/diff.js"])
def test_what_is_told_is_what_was_measured(file):
    rows = json.loads(REPORT.read_text())["rows"]
    row = next(row for row in rows if (row["dtype"], row["topology"]) == ("bfloat16", "sequence(4)"))
    assert f"{row['different']} of {row['texts']} texts of 140 tokens" in (ROOT / file).read_text()
