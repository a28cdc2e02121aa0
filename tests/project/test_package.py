"""The project as a package: a wheel that decodes without the page, and each dependency in one place."""

import ast
import itertools
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import specdec
from tests.helpers.processes import printed

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
MOST_BYTES = 40_000_000
"""The weights of this project's two pairs take 39 MB of it, before compression."""

DECODE = """
import socket, sys

sys.path.insert(0, sys.argv[1])
missing = ["gradio", "plotly", "components", "constriction", "accelerate"]
sys.modules.update(dict.fromkeys(missing))  # importing one is an ImportError
socket.socket.connect = None  # nobody is asked
import specdec

assert specdec.__file__.startswith(sys.argv[1]), specdec.__file__
pair = specdec.load_pair("stories")
generation = specdec.generate(pair, "Once upon a time", max_new_tokens=5, seed=0)
assert "<iframe" in generation._repr_mimebundle_()["text/html"]  # with all that it plays by
print(len(generation.token_ids))
for module in ("channel", "figures"):
    try:
        getattr(specdec, module)
    except ImportError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built without a network by the installed packages, outside the checkout, which is not changed."""
    folder = tmp_path_factory.mktemp("wheel")
    built = printed(f"import hatchling.build; print(hatchling.build.build_wheel({str(folder)!r}))")
    return folder / built.split()[-1]


@pytest.mark.slow
def test_the_wheel_decodes_offline_without_the_page_and_extras_and_names_what_the_rest_needs(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    command = [sys.executable, "-c", DECODE, str(tmp_path)]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert process.stdout.splitlines() == [
        "5",
        "specdec.channel needs constriction: pip install 'specdec-races[channel]'",
        "specdec.figures needs plotly: pip install 'specdec-races[figures]'",
    ], process.stderr


def test_the_wheel_holds_the_core_and_the_pair_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {
        "specdec",
        f"specdec_races-{specdec.__version__}.dist-info",
    }
    assert {"specdec/assets/stories/target/config.json", "specdec/assets/prompts.txt"} <= set(names)
    assert wheel.stat().st_size < MOST_BYTES


def requirements(path):
    lines = (ROOT / path).read_text().splitlines()
    return [line for line in lines if not line.startswith(("-r", "#"))]


def test_requirements_are_the_packages():
    pinned = {"torch>=2.8,<3": "torch>=2.8,<2.14"}  # a requirement of the page; the file gives the reason
    app = [pinned.get(line, line) for line in PROJECT["dependencies"]] + EXTRAS["app"]
    assert requirements("requirements.txt") == app
    assert requirements("tests/requirements.txt") == EXTRAS["test"]


def imported(*roots):
    """Names of the packages that the files below these folders import, without the standard library."""
    names = set()
    for path in [path for root in roots for path in (ROOT / root).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module.split(".")[0])
    return names - sys.stdlib_module_names


def declared(*lists):
    return {re.split(r"[^\w-]", line)[0].replace("-", "_") for line in itertools.chain(*lists)}


CORE = [PROJECT["dependencies"], *(EXTRAS[name] for name in EXTRAS if name not in ("app", "test"))]
OTHERS = {"specdec", "research", "components", "tests", "app", "yaml", "gradio_client", "spaces", "triton"}
"""Packages without an entry of their own: this project's, pyyaml under its import name, a part of gradio, and
packages that only a ZeroGPU Space has."""


def test_every_imported_package_is_declared():
    assert imported("specdec") - OTHERS <= declared(*CORE)
    # the command that takes the screenshots asks for Playwright and Pillow itself
    imports = imported("components", "research") - OTHERS - {"playwright", "PIL"}
    assert imports <= declared(PROJECT["dependencies"], EXTRAS["app"])
    assert imported("tests") - OTHERS <= declared(PROJECT["dependencies"], EXTRAS["app"], EXTRAS["test"])


def test_the_newest_changes_are_this_versions():
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (\S+), \d{4}-\d{2}-\d{2}$", text, re.M)
    assert versions[0] == specdec.__version__
    assert versions == sorted(versions, key=lambda v: [*map(int, v.split("."))], reverse=True)


PAGES = ["README.md", "CONTRIBUTING.md", *(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md"))]


@pytest.mark.parametrize("page", PAGES)
def test_documents_name_what_is_there(page):
    text = (ROOT / page).read_text()
    files = re.findall(r"\b((?:specdec|components|assets|tests|docs)/[\w./]+)", text)
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    names = [ROOT / name.rstrip(".") for name in files if "NAME" not in name]
    missing = [name for name in names if not name.exists() and not name.with_suffix(".py").exists()]
    missing += [name for name in links if not (ROOT / page).parent.joinpath(name).exists()]
    assert missing == []
    for module in re.findall(r"python -m ((?:specdec|tests|components)[\w.]*)", text):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


def test_the_readme_shows_the_opening_as_a_moving_picture_of_a_small_file():
    address = "assets/screenshots/opening.webp"
    assert f"({address})" in (ROOT / "README.md").read_text()
    picture = (ROOT / address).read_bytes()
    assert b"ANIM" in picture[:64]
    assert len(picture) < 1_500_000


UTF8 = """
import warnings

warnings.filterwarnings("error", category=EncodingWarning, module="specdec|components|app")
import app, specdec

pair = specdec.load_pair("stories")
app.build(pair)
print(specdec.Generation.from_json(specdec.generate(pair, "Once", max_new_tokens=2, seed=0).to_json()).text)
"""


def test_files_are_read_as_utf_8_also_where_the_system_has_another_encoding():
    """On Windows the default encoding can't read the page's quotation marks."""
    assert printed(UTF8, {"PYTHONWARNDEFAULTENCODING": "1"})
