"""The recipe of CONTRIBUTING for a setting that the core has: one row is enough.

A copy of the project gets the draft's temperature as a setting of the page, in one row.
"""

import json

import pytest

from components.page.settings import TABLE, VisitorSettings
from specdec import stream
from specdec.decoding.run import generate
from specdec.settings import SETTINGS, RunSettings
from tests.rules.test_recipe import ROOT, insert, project, run  # noqa: F401 - the fixture

ROW = """    draft_temperature: float | None = _row("draft_temperature", form="number", step=0.1)
    chat: bool = _row("""

CHECKS = """
import inspect, json
import specdec
from components.decode import controls
from components.page.settings import VisitorSettings
from components.runs import run

pair = specdec.load_pair("stories")
form = controls.panel(pair)
parameter = inspect.signature(form.streams["decode"]).parameters["draft_temperature"]
asked = VisitorSettings("Once", method="gsd", max_new_tokens=4, seed=1, draft_temperature=0.5)
updates = [json.loads(text) for text in run.updates(pair, asked)]
opening, *_ = [each["setup"] for each in updates if "setup" in each]
refused = json.loads(list(run.updates(pair, VisitorSettings("Once", draft_temperature=-1)))[-1])
record = run.start(pair, asked.checked()).generation
print(json.dumps({
    "endpoint": [parameter.annotation.__name__, parameter.default],
    "labelled": "Temperature of the draft" in form.html,
    "address": form.fields["live"]["draft-temperature"],
    "setup": opening["draft_temperature"],
    "refused": refused["message"],
    "record": json.loads(record.to_json())["draft_temperature"],
}))
"""


@pytest.mark.slow
def test_a_new_setting_takes_one_row(project):  # noqa: F811 - the fixture
    (project / "research").symlink_to(ROOT / "research")  # the page's panel of experiments reads this
    insert(project / "components" / "page" / "settings.py", "    chat: bool = _row(", ROW)
    run(project, "-m", "components.page.settings")
    found = json.loads(run(project, "-c", CHECKS).splitlines()[-1])
    assert found == {
        "endpoint": ["float", None],
        "labelled": True,
        "address": {"kind": "number", "default": None, "least": 0, "most": 100, "whole": False},
        "setup": 0.5,
        "refused": "draft-temperature = -1 is not a number from 0 to 100",
        "record": 0.5,
    }
    script = (project / "assets" / "shared" / "settings.js").read_text()
    assert '"address": "draft-temperature"' in script


def test_every_setting_of_the_decoder_is_an_argument_with_the_default_of_its_row():
    for function in (stream, generate):
        for name, setting in SETTINGS.items():
            assert function.__kwdefaults__[name] == setting.default, (function.__name__, name)
    assert {*RunSettings._field_defaults} - {"sampling"} <= {*stream.__kwdefaults__}


def test_rows_and_fields_have_the_same_names():
    assert {name: row.setting.name for name, row in TABLE.items()} == {name: name for name in TABLE}
    assert VisitorSettings("Once").checked().decoding().keys() == {*SETTINGS} & {*TABLE}
