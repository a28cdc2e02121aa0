"""The command that compares the arithmetic on a file's own bits with the same weights in float32."""

import json
import sys

from research import packed
from tests.models.test_packed import any_type_is_written, file, own_cache  # noqa: F401


def test_it_finds_a_small_but_real_deviation(tmp_path, monkeypatch, capsys):
    path, result = file(tmp_path / "model.gguf"), tmp_path / "result.json"
    arguments = ["research.packed", str(path), "--tokens", "8", "--json", str(result)]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setattr(packed, "BEFORE", 4)
    packed.main()
    results = json.loads(result.read_text())
    ours = results["total variation"]["ours"]
    assert 0 < ours["mean"] <= ours["largest"] < 0.05
    assert results["milliseconds by rows"]["17"] > 0
    assert "int8 inputs" in results["arithmetic"]
    assert json.loads(capsys.readouterr().out) == results
