"""The project as a package: a wheel that decodes without the page, and each dependency in one place."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import specdec

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
MOST_BYTES = 20_000_000

DECODE = """
import socket, sys

sys.path.insert(0, sys.argv[1])
sys.modules.update(dict.fromkeys(["gradio", "plotly", "components"]))  # importing one is an ImportError
socket.socket.connect = None  # nobody is asked
import specdec

assert specdec.__file__.startswith(sys.argv[1]), specdec.__file__
pair = specdec.load_pair("stories")
generation = specdec.generate(pair, "Once upon a time", max_new_tokens=5, seed=0)
assert "<iframe" in generation._repr_mimebundle_()["text/html"]  # with all that it plays by
print(len(generation.token_ids))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built without a network, by what is installed; outside the checkout, which stays as it was."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "import hatchling.build, sys; print(hatchling.build.build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", build, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


@pytest.mark.slow
def test_the_wheel_decodes_offline_without_the_pages_libraries(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    command = [sys.executable, "-c", DECODE, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout == "5\n", done.stderr


def test_the_wheel_holds_the_core_and_the_pair_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"specdec", f"specdec-{specdec.__version__}.dist-info"}
    assert {"specdec/assets/tiny/target/config.json", "specdec/assets/prompts.txt"} <= set(names)
    assert wheel.stat().st_size < MOST_BYTES


def requirements(path):
    return [line for line in (ROOT / path).read_text().splitlines() if not line.startswith("-r")]


def test_requirements_are_the_packages():
    assert requirements("requirements.txt") == PROJECT["dependencies"] + EXTRAS["app"]
    assert requirements("tests/requirements.txt") == EXTRAS["test"]


def test_the_newest_changes_are_this_versions():
    versions = re.findall(r"^## (\S+), \d{4}-\d{2}-\d{2}$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert versions[0] == specdec.__version__
    assert versions == sorted(versions, key=lambda v: [*map(int, v.split("."))], reverse=True)


def test_contributing_names_what_is_there():
    names = re.findall(
        r"`((?:specdec|components|assets|tests)/[\w./]+)`", (ROOT / "CONTRIBUTING.md").read_text()
    )
    assert names
    assert [name for name in names if "NAME" not in name and not (ROOT / name).exists()] == []
