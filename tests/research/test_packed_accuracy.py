"""The command that compares the arithmetic on a file's own bits with the same weights in float32."""

import re
import sys

from research import packed
from tests.models.test_packed import any_type_is_written, file, own_cache  # noqa: F401


def test_it_prints_a_small_but_real_deviation(tmp_path, monkeypatch, capsys):
    path = file(tmp_path / "model.gguf")
    monkeypatch.setattr(sys, "argv", ["research.packed", str(path), "--tokens", "8"])
    monkeypatch.setattr(packed, "BEFORE", 4)
    packed.main()
    said = capsys.readouterr().out
    mean, largest = map(float, re.search(r"mean ([\d.]+), largest ([\d.]+)", said).groups())
    assert 0 < mean <= largest < 0.05
    assert "17 rows" in said
    assert "int8 inputs" in said
