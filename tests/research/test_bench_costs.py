"""The costs of this project's own code are measured without the models, and as shares of a memory copy."""

import json
import time

import numpy as np
import pytest

from research.bench import kernels, overhead
from specdec.methods import DRAFTING, METHODS
from specdec.models.kernels import compiled, layout
from specdec.models.markov import MarkovSession


def test_overhead_is_measured_for_both_methods_without_their_forwards(tmp_path, capsys, monkeypatch):
    forward = MarkovSession.forward

    def slow(*arguments):
        end = time.process_time() + 0.04
        while time.process_time() < end:
            pass
        return forward(*arguments)

    monkeypatch.setattr(MarkovSession, "forward", slow)
    # with such slow forward passes its 250 tokens would take long
    monkeypatch.setattr(overhead, "measure_acceptance", lambda *_, **__: np.array([0.6, 0.2, 0.1]))
    arguments = ["--vocabulary", "64", "--tokens", "12", "--repeats", "1"]
    overhead.main([*arguments, "--json", str(tmp_path / "overhead.json")])
    found = json.loads((tmp_path / "overhead.json").read_text())["milliseconds"]
    names = [
        f"{METHODS[method].name} {tree}" for method in DRAFTING for tree in ("sequence(4)", "optimal(8)")
    ]
    assert [row["name"] for row in found] == names
    assert all(name in capsys.readouterr().out for name in names[:1])
    # a round has five forward passes of 40 ms, after each of which the processor is slow for a moment
    assert all(0 < row["least"] < 30 for row in found)


def test_the_compiled_products_have_a_row_for_each_type_and_number_of_rows(tmp_path, capsys, monkeypatch):
    if compiled.crew() is None:
        pytest.skip("there is no compiled forward")
    monkeypatch.setattr(kernels, "SHAPES", ((64, 128),))
    kernels.main(["--times", "1", "--json", str(tmp_path / "kernels.json")])
    rows = json.loads((tmp_path / "kernels.json").read_text())["rows"]
    named = [(row["inputs"], row["outputs"], row["weights"], row["rows"]) for row in rows]
    assert named == [(64, 128, kind, count) for kind in layout.BYTES for count in kernels.ROWS]
    assert min(row["ms"] for row in rows) >= 0
    assert {row["weights"] for row in rows if row["torch_ms"] is not None} == {*kernels.BESIDE}
    assert len(capsys.readouterr().out.splitlines()) == len(rows)
