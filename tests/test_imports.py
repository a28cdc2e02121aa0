"""Imports go one way: core modules in their order, then components, then the app."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = [
    {"algorithms", "checks", "clock", "devices"},
    {"trace", "topology", "probs", "text", "splitmix"},
    {"sparse_race"},
    {"race"},
    {"verify", "optimal", "stats"},
    {"theory"},
    {"channel", "context"},
    {"channel_report"},
    {"models"},
    {"pair", "draft"},
    {"loading"},
    {"context_draft"},
    {"detail"},
    {"engine"},
    {"on_device"},
    {"auto", "faults"},
    {"decode"},
    {"learn", "losslessness"},
    {"experiments", "bench", "tiny"},
]
"""Modules of specdec, lowest first; a module imports from lower layers, or within its own by this order."""
WITHIN = {("topology", "trace")}
HEAVY = {"transformers": {"models", "pair", "loading", "tiny", "bench"}, "gradio": set(), "plotly": set()}


def modules():
    return [path for path in (ROOT / "specdec").rglob("*.py") if path.name != "__init__.py"]


def name_of(path):
    return path.relative_to(ROOT / "specdec").with_suffix("").parts[0]


def imported(path):
    """Dotted names that a file imports, at any depth of its code."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer(name):
    return next((i for i, names in enumerate(LAYERS) if name in names), None)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_core_modules_import_downwards_only(path):
    name = name_of(path)
    assert layer(name) is not None, f"{name} has no layer: add it to LAYERS"
    for module in imported(path):
        parts = module.split(".")
        assert parts[0] not in {"components", "app"}, f"{name} imports {module}"
        allowed = HEAVY.get(parts[0])
        assert allowed is None or name in allowed, f"{name} imports {module}"
        if parts[0] != "specdec" or len(parts) == 1 or parts[1] == name or layer(parts[1]) is None:
            continue
        assert layer(parts[1]) < layer(name) or (name, parts[1]) in WITHIN, f"{name} imports {module}"


def test_verification_never_sees_a_model():
    names = set(imported(ROOT / "specdec" / "verify.py"))
    assert not any("model" in name or "pair" in name for name in names)


@pytest.mark.parametrize("path", sorted((ROOT / "components").glob("*.py")), ids=lambda path: path.name)
def test_components_do_not_import_the_app(path):
    assert "app" not in {module.split(".")[0] for module in imported(path)}
