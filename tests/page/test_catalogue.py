"""The page's catalogue names exactly what exists, and the scripts have the same names."""

import re
import typing

import pytest

from components.decode import panels
from components.page import catalogue, schema, settings
from components.page.assets import ASSETS
from research.experiments.settings import STRATEGIES
from specdec import trace
from specdec.figures.topologies import FIXED, TOPOLOGIES
from specdec.methods import METHODS
from specdec.notebook import player

GENERATED = {
    "components.page.catalogue": {catalogue.SCRIPT: catalogue.script},
    "components.page.settings": {settings.SCRIPT: settings.script},
    "components.page.schema": {schema.SCRIPT: schema.script, schema.TYPES: schema.types},
    "components.decode.panels": {player.PANELS: panels.offline},
}
"""The files that each command writes, and the functions that make their texts."""


@pytest.mark.parametrize("command", GENERATED)
def test_generated_files_are_those_that_their_command_writes(command):
    for file, text in GENERATED[command].items():
        assert file.read_text() == text(), f"run python -m {command}"


def test_every_kind_and_status_of_a_trace_has_its_meaning():
    assert typing.get_args(trace.Kind) == tuple(catalogue.KINDS)
    assert typing.get_args(trace.Status) == tuple(catalogue.STATUSES)


@pytest.mark.parametrize("meanings", [catalogue.KINDS, catalogue.STATUSES], ids=["kinds", "statuses"])
def test_the_legend_gives_each_meaning_other_words(meanings):
    assert len({meaning.sentence for meaning in meanings.values()}) == len(meanings)


def test_menus_offer_everything_once():
    assert {name for _, name in catalogue.method_menu()} == {*METHODS}
    assert [name for _, name in catalogue.topology_menu()] == [*TOPOLOGIES]
    assert catalogue.topology_menu("batch") == [("batch: k alternatives", "batch")]


LEGEND, DRAWING = ((ASSETS / "shared" / name).read_text() for name in ("legend.js", "drawing.js"))


def marks():
    """The marks that legends and drawings have."""
    shapes = re.findall(r"^  (\w+)[:,]", DRAWING[DRAWING.index("export const SHAPES") :], re.MULTILINE)
    return {*shapes, *re.findall(r'"?([\w-]+)"?: "', re.search(r"SIGNS = (.*);", LEGEND)[1])}


@pytest.mark.parametrize("entry", [*METHODS.values(), *map(TOPOLOGIES.get, FIXED)])
def test_legends_can_draw_every_mark_and_dash(entry):
    assert entry.mark in marks()
    assert re.search(rf'\b{entry.dash}: "', LEGEND)


def test_the_experiments_draw_the_topologies_that_are_fixed():
    assert FIXED == STRATEGIES


def test_every_term_of_a_panel_is_explained():
    glossary = (ASSETS / "shared" / "glossary.js").read_text()
    terms = {name.strip('"') for name in re.findall(r'^  ("[^"]+"|\w+):', glossary, re.MULTILINE)}
    files = [path for kind in ("py", "html") for path in (ASSETS.parent / "components").rglob(f"*.{kind}")]
    uses = {term for path in files for term in re.findall(r"""\bterm\(["']([^"']+)["']""", path.read_text())}
    assert len(uses) >= 15
    assert uses <= terms | {entry.name for entry in METHODS.values()}
