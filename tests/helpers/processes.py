"""Python programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def printed(code: str, environment: Mapping[str, str] | None = None) -> str:
    """The output of a program in the project's folder, with these variables beside those of this process. An
    error of the program fails the test."""
    settings = os.environ | {"PYTHONPATH": str(ROOT)} | (environment or {})
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=500)
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout
