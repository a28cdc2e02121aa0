"""Joins the page's modules into one script, for pages that may not fetch files.

Each module becomes a function that returns its exports. It stands after the modules that it imports:

    const module_1 = (() => { const { make } = module_0; ...; return { mountText }; })();

An import map with data: addresses would be simpler, but some notebooks (VS Code) forbid it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

_IMPORT = re.compile(r'^import (\{[^}]*\}|\* as \w+) from "(\.{1,2}/[^"]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|class|const) (\w+)", re.MULTILINE)
_OTHER = re.compile(r'^(?:import|export)\b.*|\bimport(?:\.meta|\([^)]*\.js").*', re.MULTILINE)


def bundled(root: Path, start: str) -> str:
    """The module `start` in the folder `root`, with all that it imports, as the body of one script.

    Its exports become names of the script. ValueError for an import or export of an unsupported form: names
    and whole modules can be imported; functions, classes and constants can be exported.
    """
    order = modules(root, start)
    numbers = {name: number for number, name in enumerate(order)}
    bodies = [_module(root, name, numbers) for name in order]
    script = "\n".join(['"use strict";', *bodies, f"Object.assign(globalThis, module_{numbers[start]});"])
    return script.replace("</", "<\\/")  # a script element ends at the first "</script", whatever it holds


def modules(root: Path, start: str) -> list[str]:
    """The module `start` in the folder `root` and all modules that it needs.

    Each stands after its imports.
    """
    order: list[str] = []
    _visit(root, start, order)
    return order


def _visit(root: Path, name: str, order: list[str]) -> None:
    """Appends the modules that this one imports, then the module itself, each only once."""
    if name in order:
        return
    for _, path in _IMPORT.findall(_source(root, name)):
        _visit(root, _beside(name, path), order)
    order.append(name)


def _module(root: Path, name: str, numbers: dict[str, int]) -> str:
    source = _source(root, name)
    exported = [match[1] for match in _EXPORT.findall(source)]
    source = _EXPORT.sub(r"\1 \2", source)

    def imported(match: re.Match[str]) -> str:
        names = match[1].removeprefix("* as ").replace(" as ", ": ")
        return f"const {names} = module_{numbers[_beside(name, match[2])]};\n"

    source = _IMPORT.sub(imported, source)
    if other := _OTHER.search(source):
        raise ValueError(f"{name}: {other[0]!r:.80} can't be bundled")
    return f"const module_{numbers[name]} = (() => {{\n{source}\nreturn {{ {', '.join(exported)} }};\n}})();"


def _source(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def _beside(name: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
