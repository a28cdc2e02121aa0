"""The recipes of CONTRIBUTING: a rule, a drafter, a setting and a tab take the places that each recipe names.

One copy of the project follows all of them. There the new parts work, and its own tests pass for them.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest

from components.page.settings import TABLE, VisitorSettings
from specdec import stream
from specdec.decoding.run import generate
from specdec.settings import SETTINGS, RunSettings
from tests.conftest import ROOT

RULE = '''"""Matching: sample the target, and accept the child that was drafted with that token."""

from specdec.methods.residual import Residual
from specdec.methods.verdict import Decision, descend


def verify(drafted, log_p, noise):
    """A sample of p decides at each node: a `Verifier`."""
    topology = drafted.topology

    def decide(row):
        token_id = Residual(log_p[row], None).sample(noise.last(topology.path(row)))
        return Decision(drafted.child(row, token_id), token_id)

    return descend(topology, decide, "residual")
'''

ENTRY = '''    "matching": Entry(
        name="Matching",
        long_name="matching of a sample",
        sentence="Sample the target, and accept the draft that equals the sample.",
        verify=matching.verify,
        mark="star",
        dash="longdash",
    ),
}
"""All methods'''

PLAIN = '''

def matching(x, Q, P, tau, e, U, u):
    """Sample the target, and accept the child that was drafted with that token."""
    x_draft = draft(x, Q, tau, e)
    y, j = (), ()
    while True:
        token = sample(given(P, x + y), u[len(j)])
        y = (*y, token)
        children = {drafted: path for path, drafted in x_draft.items() if path[:-1] == j}
        if token not in children:
            return y
        j = children[token]
'''

DRAFTER = '''"""Drafts the last token again and again, without a model."""

from specdec.drafters.base import NoDrafter
from specdec.methods import Drafted
from specdec.topology import Topology


class Again(NoDrafter):
    """A `Drafter` that repeats the last token along the topology's first children."""

    def draft(self, text_ids, topology, depth, noise):
        """Drafts a path; see `Drafter.draft`."""
        yield from ()
        length = min(depth, topology.depth)
        path = Topology([(0,) * row for row in range(1, length + 1)])
        return Drafted(path, [text_ids[-1]] * (1 + length), [None] * (1 + length))
'''

DRAFTER_ROW = '''    "again": Entry("the last token again", lambda _: Again(), uses_model=False),
}
"""All built-in drafters'''

ROW = """    Setting(
        "draft_top_k", "whole", None, 0, label="Top-k of the draft", help="speed only",
        address="draft-top-k", unless=NO_DRAFT | _NO_MODEL,
    ),
)  # fmt: skip
"""
FIELD = "    draft_top_k: int | None = None\n"
ARGUMENT = "    draft_top_k: int | None = None,\n"
CORE = """        sampling = self.sampling if self.draft_top_k is None else replace(
            self.sampling, top_k=self.draft_top_k
        )
        if self.draft_temperature is None:
            return sampling
        return replace(sampling, temperature"""
OLD_CORE = """        if self.draft_temperature is None:
            return self.sampling
        return replace(self.sampling, temperature"""
RECORDED = "    draft_top_k: Annotated[int, Field(ge=0)] | None = None\n"
ON_PAGE = """    draft_top_k: int | None = _row("draft_top_k", form="number", step=1)\n"""

PANEL = """
from components.page import frame


def panel() -> frame.Part:
    return frame.panel("coin", "<p></p>", sides=2)
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

CATALOGUE, DRAFTERS = "specdec/methods/catalogue.py", "specdec/drafters/catalogue.py"
RUN, GENERATION = "specdec/decoding/run.py", "specdec/trace/generation.py"
COLOURS = "assets/shared/colours.css"
BASE = "from specdec.drafters.base import Drafter, NoDrafter\n"
CHANGES = [
    (CATALOGUE, '}\n"""All methods', ENTRY),
    (CATALOGUE, "import ersd, gsd, ", "import ersd, gsd, matching, "),
    (COLOURS, "  --sequence: ", "  --matching: light-dark(#2e2ee6, #9494ff);\n  --sequence: "),
    (DRAFTERS, BASE, f"from specdec.drafters.again import Again\n{BASE}"),
    (DRAFTERS, '}\n"""All built-in drafters', DRAFTER_ROW),
    ("specdec/settings.py", ")  # fmt: skip\n", ROW),
    ("specdec/settings.py", '    drafter: Drafting = "model"\n', '    drafter: Drafting = "model"\n' + FIELD),
    ("specdec/settings.py", OLD_CORE, CORE),
    (RUN, "    at_once: int = 1,\n) -> Run:", ARGUMENT + "    at_once: int = 1,\n) -> Run:"),
    (RUN, "None,\n) -> Generation:", "None,\n" + ARGUMENT + ") -> Generation:"),
    (GENERATION, '    drafter: str = "model"\n', '    drafter: str = "model"\n' + RECORDED),
    ("components/page/settings.py", "    chat: bool = _row(\n", ON_PAGE + "    chat: bool = _row(\n"),
    ("app.py", IMPORT, f"from components.coin import panel as coin\n{IMPORT}"),
    ("app.py", TAB, OWN_TAB + TAB),
]
"""Files, and the only place in each that is replaced by a text."""

CHECKS = """
import inspect, json, runpy

# writes the page's own files, each as `python -m` does
for name in ("catalogue", "schema", "settings"):
    runpy.run_module(f"components.page.{name}", run_name="__main__", alter_sys=True)

import specdec
from components.decode import controls
from components.page.catalogue import drafter_menu, method_menu
from components.page.settings import VisitorSettings
from components.runs import run
from specdec.exactness.losslessness import Check
from specdec.terminal import command
from tests.conftest import ROOT
from tests.helpers.distributions import FALSE_ALARM, TREE, markov_pair

PAIR, SETTINGS = markov_pair(3, seed=1), {"max_new_tokens": 40, "seed": 1, "detail": True}

def reads_back(record):
    return specdec.Generation.from_json(record.to_json()) == record

def test_a_new_rule_is_right_and_known():
    check = Check(PAIR, [0], method="matching", topology=TREE, length=2, seed=0)
    for _ in range(2000):
        check.decode()
    assert check.accepting and check.chi_square().p_value > FALSE_ALARM
    assert dict(method_menu())["Matching"] == "matching"
    assert reads_back(specdec.generate(PAIR, [0], method="matching", topology=TREE, **SETTINGS))
    assert '"matching"' in (ROOT / "assets/shared/record.js").read_text()

def test_a_new_drafter_is_right_and_known():
    record = specdec.generate(PAIR, [0], drafter="again", **SETTINGS)
    assert record.token_ids == specdec.generate(PAIR, [0], method="ar", **SETTINGS).token_ids
    assert record.acceptance.num_accepted > 0 and reads_back(record)
    assert (record.drafter, record.draft) == ("again", "again")
    assert dict(drafter_menu())["the last token again"] == "again"
    assert "again" in command.parser().format_help()

def test_a_new_setting_is_everywhere(monkeypatch, capsys):
    pair = specdec.load_pair("stories")
    form = controls.panel(pair)
    parameter = inspect.signature(form.streams["decode"]).parameters["draft_top_k"]
    assert (parameter.annotation, parameter.default) == (int, None)
    assert "draft_top_k: speed only (0 or more; unused with method ar" in form.streams["decode"].__doc__
    assert "Top-k of the draft" in form.html
    field = {"kind": "number", "default": None, "least": 0, "most": None, "whole": True}
    assert form.fields["live"]["draft-top-k"] == field
    asked = VisitorSettings("Once", method="gsd", max_new_tokens=4, seed=1, draft_top_k=1)
    opening = next(each for each in map(json.loads, run.updates(pair, asked)) if "setup" in each)
    assert opening["setup"]["draft_top_k"] == 1
    assert VisitorSettings("Once", method="ar", draft_top_k=-1).checked().draft_top_k is None
    refused = [*run.updates(pair, VisitorSettings("Once", draft_top_k=-1))][-1]
    assert json.loads(refused)["message"] == "draft-top-k = -1 is not a whole number from 0 up"
    record = run.start(pair, asked.checked()).generation
    assert reads_back(record) and record.draft_top_k == 1
    monkeypatch.setattr(command, "_loaded", lambda options: pair)
    command.main("Once --topology sequence(2) --tokens 4 --seed 1 --json --draft-top-k 1".split())
    assert json.loads(capsys.readouterr().out)["generation"]["draft_top_k"] == 1
    assert "--draft-top-k" in command.parser().format_help()
    own = {"detail": True, "draft_top_k": 1, "seed": 1, "max_new_tokens": 9}
    drafted = specdec.generate(pair, "Once", method="gsd", **own)
    assert {node.q for round in drafted.rounds for node in round.nodes} == {1.0}
    assert '"address": "draft-top-k"' in (ROOT / "assets/shared/settings.js").read_text()
    assert '"draft_top_k": {"type": "integer"' in (ROOT / "assets/shared/record.js").read_text()
"""
"""Tests of the copy alone."""
NEW_FILES = {
    "specdec/methods/matching.py": RULE,
    "specdec/drafters/again.py": DRAFTER,
    "components/coin/panel.py": PANEL,
    "assets/coin/panel.js": SCRIPT,
    "assets/coin/style.css": STYLE,
    "tests/rules/test_new.py": CHECKS,
}
TESTS = [f"tests/{name}.py" for name in ("rules/test_new", "rules/test_other_rules", "page/test_colours")]
TESTS += ["tests/core/test_imports.py"]
WANTED = "a_new_ or on_the_same_noise and matching or both_themes or downwards or circle"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project that has followed the recipes."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("specdec", "components", "assets", "research", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "app.py"):
        shutil.copy(ROOT / name, folder)
    for name, text in NEW_FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for name, old, text in CHANGES:
        source = (folder / name).read_text()
        assert source.count(old) == 1, old
        (folder / name).write_text(source.replace(old, text))
    with (folder / "tests" / "helpers" / "other_rules.py").open("a") as plain:
        plain.write(PLAIN)
    return folder


@pytest.mark.slow
def test_a_new_rule_drafter_setting_and_tab_take_the_places_that_are_named(project):
    """The new parts work, and the project's own tests hold for them."""
    # the machine's cache has no compiled forward for the copy's place
    settings = os.environ | {"PYTHONPATH": str(project), "SPECDEC_KERNELS": "0"}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-rp", *TESTS, "-k", WANTED]
    result = subprocess.run(command, cwd=project, env=settings, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    names = ["plain_form_decides.*matching", "both_themes_have_the_same_colours", "no_circle"]
    names += [f"downwards.*{name}" for name in ("methods.matching", "drafters.again", "coin.panel")]
    for name in (*names, "a_new_rule", "a_new_drafter", "a_new_setting"):
        assert re.search(rf"PASSED .*{name}", result.stdout), name


@pytest.mark.slow
def test_a_new_tab_is_on_the_page(project, someone):
    from playwright.sync_api import expect  # the tests of the rules need no browser

    from tests.stress.visitors import serving

    with serving(app=project / "app.py") as (address, _):
        words = someone(f"{address}/?tab=coin").locator("#coin p")
        expect(words).to_have_text("A coin has 2 sides.")
        expect(words).to_have_css("color", "rgb(1, 2, 3)")


def test_every_setting_of_the_decoder_is_an_argument_with_the_default_of_its_row():
    for function in (stream, generate):
        for name, setting in SETTINGS.items():
            assert function.__kwdefaults__[name] == setting.default, (function.__name__, name)
    assert {*RunSettings._field_defaults} - {"sampling"} <= {*stream.__kwdefaults__}


def test_rows_and_fields_have_the_same_names():
    assert {name: row.setting.name for name, row in TABLE.items()} == {name: name for name in TABLE}
    settings = VisitorSettings("Once", "gsd", max_new_tokens=3, temperature=0.5, top_k=2, top_p=0.5, seed=1)
    values = {name: getattr(settings, name) for name in {*SETTINGS} & {*TABLE}}
    assert settings.decoding(detail=False).recorded().items() >= values.items()
