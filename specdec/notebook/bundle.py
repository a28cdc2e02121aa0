"""Joins the page's JavaScript modules into one script. It loads fast, also in a page that can't fetch files.

Each module becomes a function that returns its exports, placed after the modules that it imports:

    const module_1 = (() => { const { make } = module_0; ...; return { mountText }; })();

An import map with data: addresses would be simpler, but some notebooks (VS Code) forbid it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

_IMPORT = re.compile(r'^import (\{[^}]*\}|\* as \w+) from "(\.{1,2}/[^"]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|class|const) (\w+)", re.MULTILINE)
_LATER = re.compile(r'\bimport\("\./[^"]+\.js"\)')
_OTHER = re.compile(r'^(?:import|export)\b.*|\bimport(?:\.meta|\([^)]*\.js").*', re.MULTILINE)


def bundled(root: Path, start: str) -> str:
    """The body of one script: the module `start` in the folder `root`, with all modules that it imports.

    The exports of `start` become global names. ValueError for an import or export of an unsupported form.
    Names and whole modules can be imported. Functions, classes and constants can be exported.
    """
    order = modules(root, start)
    numbers = {name: number for number, name in enumerate(order)}
    bodies = [_module(root, name, numbers) for name in order]
    script = "\n".join(['"use strict";', *bodies, f"Object.assign(globalThis, module_{numbers[start]});"])
    # the browser ends a script element at the first "</script", even inside a string
    return script.replace("</", "<\\/")


def module(root: Path, start: str) -> str:
    """The module `start` in the folder `root`, with all modules that it imports, as one module.

    It exports what `start` exports, and `MODULES`, each module's exports by its name. `start` may import more
    modules later, by `import("./other.js")`; `beside` gives their text. ValueError as for `bundled`.
    """
    order = modules(root, start)
    numbers = {name: number for number, name in enumerate(order)}
    bodies = [_module(root, name, numbers, later=name == start) for name in order]
    exported = ", ".join(match[1] for match in _EXPORT.findall(_source(root, start)))
    table = ", ".join(f'"{name}": module_{number}' for name, number in numbers.items())
    ends = [
        f"export const {{ {exported} }} = module_{numbers[start]};",
        f"export const MODULES = {{ {table} }};",
    ]
    return "\n".join([*bodies, *ends, ""])


def beside(root: Path, start: str, name: str) -> str:
    """The text of module `name`, which `start` imports later: it takes bundled modules from `MODULES`."""
    inside = set(modules(root, start))

    def imported(match: re.Match[str]) -> str:
        other = _beside(name, match[2])
        return f'const {_names(match[1])} = MODULES["{other}"];\n' if other in inside else match[0]

    bundle = posixpath.relpath(start, posixpath.dirname(name))
    return f'import {{ MODULES }} from "./{bundle}";\n{_IMPORT.sub(imported, _source(root, name))}'


def modules(root: Path, start: str) -> list[str]:
    """Names of the module `start` in the folder `root` and of all modules that it imports.

    Each module comes after the modules that it imports.
    """
    order: list[str] = []
    _visit(root, start, order)
    return order


def _visit(root: Path, name: str, order: list[str]) -> None:
    """Appends all modules that module `name` imports, then the module itself, each only once."""
    if name in order:
        return
    for _, path in _IMPORT.findall(_source(root, name)):
        _visit(root, _beside(name, path), order)
    order.append(name)


def _module(root: Path, name: str, numbers: dict[str, int], later: bool = False) -> str:
    """Module `name` as JavaScript code of a function that returns the module's exports.

    later: whether it may import other modules by `import()`.
    """
    source = _source(root, name)
    exported = [match[1] for match in _EXPORT.findall(source)]
    source = _EXPORT.sub(r"\1 \2", source)

    def imported(match: re.Match[str]) -> str:
        return f"const {_names(match[1])} = module_{numbers[_beside(name, match[2])]};\n"

    source = _IMPORT.sub(imported, source)
    if other := _OTHER.search(_LATER.sub("", source) if later else source):
        raise ValueError(f"{name}: {other[0]!r:.80} can't be bundled")
    return f"const module_{numbers[name]} = (() => {{\n{source}\nreturn {{ {', '.join(exported)} }};\n}})();"


def _names(imported: str) -> str:
    """The names of an import as the left side of a `const` declaration."""
    return imported.removeprefix("* as ").replace(" as ", ": ")


def _source(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def _beside(name: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
