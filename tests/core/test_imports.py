"""Imports go one way, between folders and files; the core knows neither the page nor its libraries."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PANELS = {"be_draft", "codecs", "compare", "losslessness", "watermark"}
LAYERS = {
    "specdec": """
        algorithms checks checksum coder devices phrases private_cache shipped text waiting
        chat commands notebook
        probs race topology
        methods optimal smollm2
        theory trace verify
        figures stats
        channel context models
        drafters pair simple
        settings
        decoding loading
        ecosystem exactness learn
        bench payoff
        terminal
        __main__""",
    "research": """
        estimates theory timing
        audit auto_speed batched bench experiments packed payoff training""",
    "components": f"""
        visitors
        guard
        page
        runs
        server
        decode experiments race_lab tree_lab
        {" ".join(PANELS)}
        lessons
        classroom""",
}
LAYERS = {package: [set(line.split()) for line in text.split("\n")] for package, text in LAYERS.items()}
"""Folders, and files beside them, from the lowest layer up. A part imports only lower layers and itself."""
ABOVE = {"specdec": {"research", "components"}, "research": {"components"}, "components": {"research"}}
"""Packages that each part must not import."""
HEAVY = {
    "transformers": {"models", "pair", "loading", "simple", "ecosystem", "bench", "terminal"},
    "gradio": set(),
    "plotly": {"figures"},
}


def python_files(root: Path) -> dict[str, Path]:
    """Dotted name -> file, for all files in the folders of `LAYERS`. A package is its `__init__.py`."""
    paths = [path.relative_to(root) for name in LAYERS for path in sorted((root / name).rglob("*.py"))]
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): root / path for path in paths}


@cache
def imported(path: Path) -> list[tuple[str, ...]]:
    """The modules that a file imports at any depth of its code, also for types alone: candidates, the
    likeliest first.

    Imports under `if __name__ == "__main__"` are left out, because importing the file never runs them.
    """
    names: list[tuple[str, ...]] = []
    for part in ast.parse(path.read_text()).body:
        if isinstance(part, ast.If) and "__main__" in ast.unparse(part.test):
            continue
        for node in ast.walk(part):
            if isinstance(node, ast.Import):
                names += [(alias.name,) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path} imports relatively"
                names += [(f"{node.module}.{alias.name}", node.module) for alias in node.names]
    return names


def between_files(root: Path) -> dict[str, set[str]]:
    files = python_files(root)
    return {
        name: {next((c for c in candidates if c in files), name) for candidates in imported(path)} - {name}
        for name, path in files.items()
    }


def between_parts(files: dict[str, set[str]]) -> dict[str, set[str]]:
    parts: dict[str, set[str]] = {}
    for name, others in files.items():
        parts.setdefault(part(name), set()).update(part(other) for other in others)
    return {name: others - {name} for name, others in parts.items()}


def part(name: str) -> str:
    return ".".join(name.split(".")[:2])


def circle(graph: dict[str, set[str]]) -> list[str]:
    """A cycle of imports, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


FILES = python_files(ROOT)


def layer(package: str, name: str) -> int | None:
    """The number of a part's layer. A folder of `components` that is not listed is a panel."""
    others = LAYERS[package].index(PANELS) if package == "components" else None
    return next((i for i, names in enumerate(LAYERS[package]) if name in names), others)


@pytest.mark.parametrize("name", [name for name in FILES if "." in name])
def test_imports_go_downwards(name):
    package, own = name.split(".")[:2]
    assert layer(package, own) is not None, f"{own} has no layer: add it to LAYERS"
    for candidates in imported(FILES[name]):
        parts = candidates[0].split(".")
        assert parts[0] != "app", f"{name} imports {candidates[0]}"
        assert parts[0] not in ABOVE[package], f"{name} imports {candidates[0]}"
        if package == "specdec":
            assert own in HEAVY.get(parts[0], {own}), f"{name} imports {candidates[0]}"
        if parts[0] != package or parts[1:2] in ([], [own]) or layer(package, parts[1]) is None:
            continue
        if name.endswith(".__main__"):  # a command, which no file imports
            continue
        assert layer(package, parts[1]) < layer(package, own), f"{name} imports {candidates[0]}"


def test_there_is_no_circle_between_files_or_folders():
    files = between_files(ROOT)
    assert circle(files) == circle(between_parts(files)) == []


@pytest.mark.parametrize(
    ("statement", "files", "folders"),
    [
        ("import specdec.models.b", True, False),
        ("if TYPE_CHECKING:\n    from specdec.models import b", True, False),
        ("from specdec.theory import c", False, True),
        ("from specdec.theory.d import D", True, True),
        ("if __name__ == '__main__':\n    from specdec.models.b import B", False, False),
        ("import torch", False, False),
    ],
)
def test_a_circle_would_be_seen(tmp_path, statement, files, folders):
    texts = {
        "specdec/models/a.py": statement,
        "specdec/models/b.py": "from specdec.models.a import A",
        "specdec/theory/c.py": "C = 1",
        "specdec/theory/d.py": "from specdec.models import a",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = between_files(tmp_path)
    assert bool(circle(graph)) is files
    assert bool(circle(between_parts(graph))) is folders
