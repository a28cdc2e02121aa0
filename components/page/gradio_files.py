"""The files of Gradio's page that this page needs, so that a browser asks for all of them at once.

Gradio's page loads its parts one after another: a script names further scripts and their style sheets, and
each component has a sheet of its own. A slow phone waits at every step. This page names the scripts in its
head and sends the sheets as one. Gradio's loader leaves out every file for which the page has a `<link>`; a
disabled link loads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import gradio as gr

from components.page import assets

_PAGE = Path(gr.__file__).parent / "templates" / "frontend" / "index.html"
_ENTRY = re.compile(r"assets/(index-[\w-]+\.js)")
_LISTED = re.compile(r"m\.f=\[([^\]]*)\]")
_IMPORT = re.compile(r"import\(`\./([\w-]+\.js)`\)[^`]{0,60}?__vite__mapDeps\(\[([\d,]*)\]\)")
_COMPONENT = r"[{{,]{kind}:\{{[^{{}}]*component:\(\)=>\w+\(\(\)=>import\(`\./([\w-]+\.js)`"


def links(blocks: gr.Blocks) -> str:
    """Links to these files, in HTML.

    It is empty if this version of Gradio writes its files in another way. The page then loads as Gradio
    loads it.
    """
    files = needed({block.get_block_name() for block in blocks.blocks.values()})
    sheets = [name for name in files if name.endswith(".css")]
    if not sheets:
        return ""
    style = f'<link rel="stylesheet" href="{assets.made("gradio.css", "".join(map(_text, sheets)))}">'
    disabled = (f'<link rel="stylesheet" disabled href="./assets/{name}">' for name in sheets)
    scripts = (name for name in files if name.endswith(".js"))
    ahead = (f'<link rel="modulepreload" crossorigin href="./assets/{name}">' for name in scripts)
    return style + "".join([*disabled, *ahead])


def needed(kinds: Iterable[str]) -> list[str]:
    """The scripts and style sheets that Gradio's page with components of these kinds loads, except those
    that its HTML names."""
    page = _PAGE.read_text(encoding="utf-8")
    entry = _ENTRY.search(page)
    first = _imports(_text(entry[1])) if entry else {}
    files = [name for group in first.values() for name in group]
    for script in first:
        text = _text(script)
        imports = _imports(text)
        opened = [name for name in imports if name.startswith("Blocks-")]
        components = (re.search(_COMPONENT.format(kind=kind), text) for kind in sorted(kinds))
        opened += [component[1] for component in components if component]
        files += [name for script in opened for name in imports.get(script, [])]
    return [name for name in dict.fromkeys(files) if name not in page]


def _imports(text: str) -> dict[str, list[str]]:
    """The scripts that a script imports when it runs, and the files that each of them needs."""
    listed = _LISTED.search(text)
    files = re.findall(r'"\./([^"]+)"', listed[1]) if listed else []
    return {name: [files[int(i)] for i in numbers.split(",") if i] for name, numbers in _IMPORT.findall(text)}


def _text(name: str) -> str:
    return (_PAGE.parent / "assets" / name).read_text(encoding="utf-8")
