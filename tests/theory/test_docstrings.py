"""A reader of the paper finds its algorithms and equations under their numbers, and they are those it has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parent.parent.parent / "specdec"
FILES = [*sorted((CORE / "theory").glob("*.py"))]
FILES += [
    CORE / f"{name}.py"
    for name in (
        "algorithms",
        "channel/codes",
        "channel/index_distributions",
        "channel/simulation",
        "channel/tunstall",
        "methods/ersd",
        "methods/gsd",
        "methods/verdict",
        "optimal",
        "race/races",
    )
]
NUMBERS = {
    "Algorithm": {"1", "2", "3", "4", "5"},
    "Equation": {str(number) for number in range(1, 29)},
    "Lemma": {"3.1", "4.2", "B.1"},
    "Theorem": {"4.1"},
    "Section": {"1", "2", "3", "4", "5", "6", "7"},
    "Appendix": {"A", "B", "C"},
}
"""What the paper numbers, and how far."""
PLACE = re.compile(rf"\b({'|'.join(NUMBERS)})s?\s+(\d\.\d|[A-C]\.\d|\d+|[A-C])\b")


def places(text):
    """(kind, number) of each place of the paper that a text names."""
    return PLACE.findall(text or "")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_number_is_one_that_the_paper_has(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            for kind, number in places(ast.get_docstring(node)):
                assert number in NUMBERS[kind], f"{getattr(node, 'name', path.stem)}: {kind} {number}"


def test_a_text_without_a_number_or_with_another_one_would_be_noticed():
    assert places("Σ over drafted nodes of R(path), the section about trees.") == []
    assert [number in NUMBERS[kind] for kind, number in places("Lemma 3.2 and Algorithms 4 and 5")] == [
        False,
        True,
    ]


def test_all_algorithms_lemmas_and_the_theorem_are_somewhere():
    found = {place for path in FILES for place in places(path.read_text())}
    for kind in ("Algorithm", "Lemma", "Theorem"):
        assert {number for name, number in found if name == kind} >= NUMBERS[kind]
