"""The recipes of CONTRIBUTING: a rule, a drafter, a setting and a tab take the places that each recipe names.

One copy of the project follows all of them. There the new parts work, and its own tests pass for them.
"""

import json
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
from tests.helpers.distributions import FALSE_ALARM

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
        drafts=_FIRST_ARRIVALS,
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

NEW_FILES = {
    "specdec/methods/matching.py": RULE,
    "specdec/drafters/again.py": DRAFTER,
    "components/coin/panel.py": PANEL,
    "components/coin/__main__.py": ALONE,
    "assets/coin/panel.js": SCRIPT,
    "assets/coin/style.css": STYLE,
}
CATALOGUE, DRAFTERS, COLOURS = (
    "specdec/methods/catalogue.py",
    "specdec/drafters/catalogue.py",
    "assets/shared/colours.css",
)
BASE = "from specdec.drafters.base import Drafter, NoDrafter\n"
CHANGES = [
    (CATALOGUE, '}\n"""All methods', ENTRY),
    (CATALOGUE, "import ersd, gsd, ", "import ersd, gsd, matching, "),
    (COLOURS, "  --sequence: #52667a;", "  --matching: #2e2ee6;\n  --sequence: #52667a;"),
    (COLOURS, "  --sequence: #a9bccf;", "  --matching: #9494ff;\n  --sequence: #a9bccf;"),
    (DRAFTERS, BASE, f"from specdec.drafters.again import Again\n{BASE}"),
    (DRAFTERS, '}\n"""All built-in drafters', DRAFTER_ROW),
    ("specdec/settings.py", ")  # fmt: skip\n", ROW),
    ("specdec/settings.py", '    drafter: Drafting = "model"\n', '    drafter: Drafting = "model"\n' + FIELD),
    ("specdec/settings.py", OLD_CORE, CORE),
    (
        "specdec/decoding/run.py",
        "    at_once: int = 1,\n) -> Run:",
        ARGUMENT + "    at_once: int = 1,\n) -> Run:",
    ),
    ("specdec/decoding/run.py", "None,\n) -> Generation:", "None,\n" + ARGUMENT + ") -> Generation:"),
    (
        "specdec/trace/generation.py",
        '    drafter: str = "model"\n',
        '    drafter: str = "model"\n' + RECORDED,
    ),
    ("components/page/settings.py", "    chat: bool = _row(\n", ON_PAGE + "    chat: bool = _row(\n"),
    ("app.py", IMPORT, f"from components.coin import panel as coin\n{IMPORT}"),
    ("app.py", TAB, OWN_TAB + TAB),
]
"""Files, and the only place in each that is replaced by a text."""

CHECKS = """
import contextlib, inspect, io, json
import specdec
from components.decode import controls
from components.page.catalogue import drafter_menu, method_menu
from components.page.settings import VisitorSettings
from components.runs import run
from specdec.exactness.losslessness import Check
from specdec.terminal import command
from tests.helpers.distributions import TREE, markov_pair

def reads_back(record):
    return specdec.Generation.from_json(record.to_json()) == record

pair, settings = markov_pair(3, seed=1), {"max_new_tokens": 40, "seed": 1, "detail": True}
check = Check(pair, [0], method="matching", topology=TREE, length=2, seed=0)
for _ in range(2000):
    check.decode()
rule = {
    "is right": [check.accepting, check.chi_square().p_value],
    "menu": dict(method_menu())["Matching"],
    "record": reads_back(specdec.generate(pair, [0], method="matching", topology=TREE, **settings)),
}

record = specdec.generate(pair, [0], drafter="again", **settings)
drafter = {
    "same text": record.token_ids == specdec.generate(pair, [0], method="ar", **settings).token_ids,
    "accepted": record.acceptance.num_accepted > 0,
    "record": [reads_back(record), record.drafter, record.draft],
    "menu": dict(drafter_menu())["the last token again"],
    "help": "again" in command.parser().format_help(),
}

pair = specdec.load_pair("stories")
form = controls.panel(pair)
endpoint = form.streams["decode"]
parameter = inspect.signature(endpoint).parameters["draft_top_k"]
asked = VisitorSettings("Once", method="gsd", max_new_tokens=4, seed=1, draft_top_k=1)
updates = [json.loads(text) for text in run.updates(pair, asked)]
opening, *_ = [each["setup"] for each in updates if "setup" in each]
refused = json.loads(list(run.updates(pair, VisitorSettings("Once", draft_top_k=-1)))[-1])
record = run.start(pair, asked.checked()).generation
command._loaded = lambda options: pair
arguments = "Once --topology sequence(2) --tokens 4 --seed 1 --json --draft-top-k 1".split()
with contextlib.redirect_stdout(io.StringIO()) as printed:
    command.main(arguments)
of_command = json.loads(printed.getvalue())["generation"]
drafted = specdec.generate(pair, "Once", method="gsd", detail=True, draft_top_k=1, seed=1, max_new_tokens=9)
setting = {
    "endpoint": [parameter.annotation.__name__, parameter.default],
    "described": "draft_top_k: speed only (0 or more; unused with method ar" in endpoint.__doc__,
    "labelled": "Top-k of the draft" in form.html,
    "address": form.fields["live"]["draft-top-k"],
    "setup": opening["draft_top_k"],
    "unused": VisitorSettings("Once", method="ar", draft_top_k=-1).checked().draft_top_k,
    "refused": refused["message"],
    "record": specdec.Generation.from_json(record.to_json()).draft_top_k,
    "command": [of_command["draft_top_k"], "--draft-top-k" in command.parser().format_help()],
    "core": {node.q for round in drafted.rounds for node in round.nodes} == {1.0},
}
print(json.dumps({"rule": rule, "drafter": drafter, "setting": setting}))
"""

TESTS = """
import sys, pytest
files = ["tests/rules/test_other_rules.py", "tests/page/test_colours.py", "tests/core/test_imports.py"]
wanted = "on_the_same_noise and matching or both_themes or downwards or circle"
sys.exit(pytest.main(["-rp", *files, "-k", wanted]))
"""
"""The copy's own tests of its new parts."""
WRITING = """
import runpy
for name in ("catalogue", "schema", "settings"):
    runpy.run_module(f"components.page.{name}", run_name="__main__", alter_sys=True)
"""
"""Writes the page's own files, each as `python -m` does, in one process."""


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
    for name, before, text in CHANGES:
        source = (folder / name).read_text()
        assert source.count(before) == 1, before
        (folder / name).write_text(source.replace(before, text))
    with (folder / "tests" / "helpers" / "other_rules.py").open("a") as plain:
        plain.write(PLAIN)
    return folder


@pytest.fixture(scope="module")
def found(project):
    """What the new parts do in the copy, and what its own tests say of them, in one process."""
    # the machine's cache has no compiled forward for the copy's place
    settings = os.environ | {"PYTHONPATH": str(project), "SPECDEC_KERNELS": "0"}
    command = [sys.executable, "-c", WRITING + CHECKS + TESTS]
    result = subprocess.run(command, cwd=project, env=settings, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    [parts] = [line for line in result.stdout.splitlines() if line.startswith('{"rule"')]
    return json.loads(parts) | {"tests": result.stdout}


@pytest.mark.slow
def test_a_new_rule_takes_four_places(project, found):
    is_accepting, p_value = found["rule"].pop("is right")
    assert is_accepting
    assert p_value > FALSE_ALARM
    assert found["rule"] == {"menu": "matching", "record": True}
    assert '"matching"' in (project / "assets" / "shared" / "record.js").read_text()


@pytest.mark.slow
def test_a_new_drafter_takes_its_file_and_one_row(found):
    assert found["drafter"] == {
        "same text": True,
        "accepted": True,
        "record": [True, "again", "again"],
        "menu": "again",
        "help": True,
    }


@pytest.mark.slow
def test_a_new_setting_takes_its_rows_and_the_core(project, found):
    assert found["setting"] == {
        "endpoint": ["int", None],
        "described": True,
        "labelled": True,
        "address": {"kind": "number", "default": None, "least": 0, "most": None, "whole": True},
        "setup": 1,
        "unused": None,
        "refused": "draft-top-k = -1 is not a whole number from 0 up",
        "record": 1,
        "command": [1, True],
        "core": True,
    }
    shared = project / "assets" / "shared"
    assert '"address": "draft-top-k"' in (shared / "settings.js").read_text()
    assert '"draft_top_k": {"type": "integer"' in (shared / "record.js").read_text()


@pytest.mark.slow
def test_a_new_tab_takes_five_places(project, found, someone):
    from playwright.sync_api import expect  # the tests of the rules need no browser

    from tests.stress.visitors import serving

    with serving(app=project / "app.py") as (address, _):
        words = someone(f"{address}/?tab=coin").locator("#coin p")
        expect(words).to_have_text("A coin has 2 sides.")
        expect(words).to_have_css("color", "rgb(1, 2, 3)")


@pytest.mark.slow
def test_the_project_s_own_tests_hold_for_what_is_new(found):
    passed = ("plain_form_decides.*matching", "both_themes_have_the_same_colours")
    new = ("methods.matching", "drafters.again", "coin.panel")
    for name in (*passed, *(f"downwards.*{name}" for name in new), "no_circle"):
        assert re.search(rf"PASSED .*{name}", found["tests"]), name


def test_every_setting_of_the_decoder_is_an_argument_with_the_default_of_its_row():
    for function in (stream, generate):
        for name, setting in SETTINGS.items():
            assert function.__kwdefaults__[name] == setting.default, (function.__name__, name)
    assert {*RunSettings._field_defaults} - {"sampling"} <= {*stream.__kwdefaults__}


def test_rows_and_fields_have_the_same_names():
    assert {name: row.setting.name for name, row in TABLE.items()} == {name: name for name in TABLE}
    assert VisitorSettings("Once").checked().decoding().keys() == {*SETTINGS} & {*TABLE}
