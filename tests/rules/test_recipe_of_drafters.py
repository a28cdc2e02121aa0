"""The recipe of CONTRIBUTING for a built-in drafter: its own file and one row are enough.

A copy of the project gets a drafter in these two places. Settings, records, the page's menu and the command
then know it.
"""

import json

import pytest

from tests.rules.test_recipe import insert, project, run  # noqa: F401 - the fixture

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

ROW = '''    "again": Entry("the last token again", lambda _: Again(), uses_model=False),
}
"""All drafters'''

CHECKS = """
import json
import specdec
from components.page.catalogue import drafter_menu
from specdec.terminal.command import parser
from tests.helpers.distributions import markov_pair

pair, settings = markov_pair(3, seed=1), {"max_new_tokens": 40, "seed": 1}
record = specdec.generate(pair, [0], drafter="again", detail=True, **settings)
assert specdec.Generation.from_json(record.to_json()) == record
print(json.dumps({
    "same text": record.token_ids == specdec.generate(pair, [0], method="ar", **settings).token_ids,
    "accepted": record.acceptance.num_accepted > 0,
    "record": [record.drafter, record.draft],
    "menu": dict(drafter_menu())["the last token again"],
    "help": "again" in parser().format_help(),
}))
"""


@pytest.mark.slow
def test_a_new_drafter_takes_its_file_and_one_row(project):  # noqa: F811 - the fixture
    drafters = project / "specdec" / "drafters"
    (drafters / "again.py").write_text(DRAFTER)
    line = "from specdec.drafters.base import Drafter, NoDrafter\n"
    insert(drafters / "catalogue.py", line, f"from specdec.drafters.again import Again\n{line}")
    insert(drafters / "catalogue.py", '}\n"""All drafters', ROW)
    assert json.loads(run(project, "-c", CHECKS)) == {
        "same text": True,
        "accepted": True,
        "record": ["again", "again"],
        "menu": "again",
        "help": True,
    }
