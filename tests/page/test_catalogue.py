"""The page's catalogue names exactly what exists, and the scripts have the same names."""

import re
import typing

import pytest

from components.page import catalogue, schema, settings
from components.page.assets import ASSETS
from research.experiments.settings import STRATEGIES
from specdec import trace
from specdec.figures.topologies import FIXED, TOPOLOGIES
from specdec.methods import METHODS


def test_the_scripts_have_the_names_of_the_catalogue():
    assert catalogue.SCRIPT.read_text() == catalogue.script(), "run python -m components.page.catalogue"


def test_the_scripts_have_the_rows_of_the_settings():
    assert settings.SCRIPT.read_text() == settings.script(), "run python -m components.page.settings"


def test_the_scripts_know_the_records_as_python_has_them():
    for file, written in ((schema.SCRIPT, schema.script()), (schema.TYPES, schema.types())):
        assert file.read_text() == written, "run python -m components.page.schema"


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


@pytest.mark.parametrize("entry", [*METHODS.values(), *map(TOPOLOGIES.get, FIXED)])
def test_legends_can_draw_every_mark_and_dash(entry):
    legend, drawing = ((catalogue.SCRIPT.parent / name).read_text() for name in ("legend.js", "drawing.js"))
    shapes = re.findall(r"^  (\w+)[:,]", drawing[drawing.index("export const SHAPES") :], re.MULTILINE)
    signs = re.findall(r'"?([\w-]+)"?: "', re.search(r"SIGNS = (.*);", legend)[1])
    assert entry.mark in {*shapes, *signs}
    assert re.search(rf'\b{entry.dash}: "', legend)


def test_the_experiments_draw_the_topologies_that_are_fixed():
    assert FIXED == STRATEGIES


def test_every_term_of_a_panel_is_explained():
    glossary = (ASSETS / "shared" / "glossary.js").read_text()
    known = {name.strip('"') for name in re.findall(r'^  ("[^"]+"|\w+):', glossary, re.MULTILINE)}
    files = [path for kind in ("py", "html") for path in (ASSETS.parent / "components").rglob(f"*.{kind}")]
    used = {term for path in files for term in re.findall(r"""\bterm\(["']([^"']+)["']""", path.read_text())}
    assert len(used) >= 15
    assert used <= known | {entry.name for entry in METHODS.values()}
