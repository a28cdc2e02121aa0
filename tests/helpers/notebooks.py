"""`python -m tests.helpers.notebooks` executes the notebooks of `assets/notebooks` and stores the outputs."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "assets" / "notebooks"
SECONDS = 300
"""Seconds that a cell may take."""


def executed(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with new outputs, made by this checkout's decoder. An error in a cell is raised."""
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    environment |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with patch.dict(os.environ, environment):
        return NotebookClient(notebook, timeout=SECONDS, record_timing=False).execute(cwd=str(FOLDER))


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(executed(nbformat.read(path, as_version=4)), path)
        print(f"{path.name}: {path.stat().st_size:,} bytes")
