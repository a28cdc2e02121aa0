"""CONTRIBUTING's recipe for a new tab, followed in a copy of the project: with five places the tab works."""

import shutil
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.stress.visitors import ROOT, serving

PANEL = """
from components.page import frame


def panel() -> frame.Part:
    return frame.panel("coin", "<p></p>", sides=2)
"""
ALONE = """
from components.coin.panel import panel
from components.server.standalone import alone

if __name__ == "__main__":
    alone(panel())
"""
SCRIPT = """
export function mount(element, props) {
  element.querySelector("p").textContent = `A coin has ${props.sides} sides.`;
}
"""
STYLE = "#coin p { color: rgb(1, 2, 3); }"
IMPORT = "from components.compare import panel as compare\n"
TAB = '            ("compare", "Compare", compare.panel(pair)),\n'
OWN_TAB = '            ("coin", "Coin", coin.panel()),\n'


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the project with one more tab."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("components", "assets", "research", "specdec"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "app.py").read_text()
    files = {
        "components/coin/panel.py": PANEL,
        "components/coin/__main__.py": ALONE,
        "assets/coin/panel.js": SCRIPT,
        "assets/coin/style.css": STYLE,
        "app.py": text.replace(IMPORT, "from components.coin import panel as coin\n" + IMPORT).replace(
            TAB, OWN_TAB + TAB
        ),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    return folder


def test_the_recipe_gives_a_tab_with_an_address_of_its_own(copy, someone):
    with serving(app=copy / "app.py") as (address, _):
        words = someone(f"{address}/?tab=coin").locator("#coin p")
        expect(words).to_have_text("A coin has 2 sides.")
        expect(words).to_have_css("color", "rgb(1, 2, 3)")


def test_the_order_of_imports_holds_with_it(copy):
    for name in ("tests/core/test_imports.py", "tests/__init__.py"):
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "tests/core/test_imports.py"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "coin" in done.stdout
