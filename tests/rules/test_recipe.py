"""The recipe of CONTRIBUTING for a new rule: four places are enough.

A copy of the project gets a rule in these places only. Its own tests of the catalogue, the colours and the
distribution of texts then pass there, also for the new rule.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

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

CHECKS = """
import specdec
from components.page.catalogue import method_menu
from specdec.exactness.losslessness import Check
from specdec.topology import Topology
from tests.helpers.distributions import FALSE_ALARM, markov_pair

pair, tree = markov_pair(3, seed=1), Topology([(0,), (1,), (0, 0), (1, 0)])
check = Check(pair, [0], method="matching", topology=tree, length=2, seed=0)
for _ in range(2000):
    check.decode()
assert check.accepting
assert check.chi_square().p_value > FALSE_ALARM
assert dict(method_menu())["Matching"] == "matching"
record = specdec.generate(pair, [0], method="matching", topology=tree, max_new_tokens=40, seed=1, detail=True)
assert specdec.Generation.from_json(record.to_json()) == record
"""


@pytest.fixture
def project(tmp_path):
    """A copy of the project. Parts of the assets that the recipe does not change are links."""
    for folder in ("specdec", "components", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (ROOT / "pyproject.toml", ROOT / "app.py", *(ROOT / "assets").iterdir()):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(exist_ok=True)
        copy.symlink_to(path)
    for path in ("assets/shared", "assets/record.d.ts"):
        (tmp_path / path).unlink()
    shutil.copytree(ROOT / "assets" / "shared", tmp_path / "assets" / "shared")
    return tmp_path


def insert(path, before, text):
    """Replace the only occurrence of `before` by `text`."""
    source = path.read_text()
    assert source.count(before) == 1, before
    path.write_text(source.replace(before, text))


def follow_the_recipe(project):
    """Make the changes in the four places."""
    methods, sheet = project / "specdec" / "methods", project / "assets" / "shared" / "colours.css"
    (methods / "matching.py").write_text(RULE)
    insert(methods / "catalogue.py", '}\n"""All methods', ENTRY)
    insert(methods / "catalogue.py", "import ersd, gsd, ", "import ersd, gsd, matching, ")
    plain = project / "tests" / "helpers" / "other_rules.py"
    plain.write_text(plain.read_text() + PLAIN)
    sheet.write_text(
        sheet.read_text()
        .replace("  --sequence: #52667a;", "  --matching: #2e2ee6;\n  --sequence: #52667a;")
        .replace("  --sequence: #a9bccf;", "  --matching: #9494ff;\n  --sequence: #a9bccf;")
    )


def run(project, *arguments):
    """The output of this Python in the copy. The test fails if the command fails."""
    # the machine's cache has no compiled forward for the copy's place
    settings = {"PYTHONPATH": str(project), "SPECDEC_KERNELS": "0"}
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


@pytest.mark.slow
def test_a_new_rule_takes_four_places(project):
    follow_the_recipe(project)
    run(project, "-m", "components.page.catalogue")
    run(project, "-m", "components.page.schema")
    run(project, "-c", CHECKS)
    files = ("tests/rules/test_other_rules.py", "tests/page/test_colours.py")
    said = run(project, "-m", "pytest", "-rp", *files, "-k", "on_the_same_noise and matching or both_themes")
    for name in ("plain_form_decides", "both_themes_have_the_same_colours"):
        assert re.search(rf"PASSED .*{name}", said)
    assert '"matching"' in (project / "assets" / "shared" / "record.js").read_text()
