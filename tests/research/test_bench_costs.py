"""The compiled products are measured as shares of a memory copy."""

import json

import pytest

from research.bench import kernels
from specdec.models.kernels import compiled, layout


def test_the_compiled_products_have_a_row_for_each_type_and_number_of_rows(tmp_path, capsys, monkeypatch):
    if compiled.crew() is None:
        pytest.skip("there is no compiled forward")
    monkeypatch.setattr(kernels, "SHAPES", ((64, 128),))
    kernels.main(["--times", "1", "--json", str(tmp_path / "kernels.json")])
    rows = json.loads((tmp_path / "kernels.json").read_text())["rows"]
    keys = [(row["inputs"], row["outputs"], row["weights"], row["rows"]) for row in rows]
    assert keys == [(64, 128, kind, count) for kind in layout.BYTES for count in kernels.ROWS]
    assert min(row["ms"] for row in rows) >= 0
    assert {row["weights"] for row in rows if row["torch_ms"] is not None} == {*kernels.BESIDE}
    assert len(capsys.readouterr().out.splitlines()) == len(rows)
