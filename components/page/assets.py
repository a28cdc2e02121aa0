"""The page's own files, and which of them are public."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import quote

import gradio as gr
import plotly

from specdec.notebook import bundle, player

ASSETS = Path(__file__).resolve().parent.parent.parent / "assets"
MAIN = ASSETS / "main.js"
FOLDERS = sorted({path.parent for path in ASSETS.glob("*/*.js")})
"""Scripts and style sheets, a folder per feature: those of `assets` that hold scripts, nothing else."""
_CASCADE = [
    "shared/colours",
    *("shared/controls", "page/page", "page/setup", "page/tabs"),
    *("compare/style", "shared/labs", "shared/reports", "codecs/style"),
    *("be_draft/style", "lessons/style", "lessons/board", "lessons/sheet", "classroom/style"),
    *("losslessness/style", "watermark/style", "tree_lab/style", "decode/models"),
    *("decode/stage", "decode/text", "decode/figures", "decode/player", "decode/statistics"),
    *("decode/phone", "page/projector", "shared/slides"),
]
_NAMED = [ASSETS / f"{name}.css" for name in _CASCADE]
SHEETS = [*_NAMED, *sorted({*ASSETS.glob("*/style.css")} - {*_NAMED})]
"""The style sheets of the page in the order of the cascade; the `style.css` of another panel comes last."""
PLOTLY = Path(plotly.__file__).resolve().parent / "package_data" / "plotly.min.js"

# What is listed here becomes public: scripts, styles, a file of plotly; no weights.
gr.set_static_paths([MAIN, *FOLDERS, PLOTLY])


@cache
def _made_folder() -> Path:
    """A new public folder, which is removed when the server ends."""
    folder = Path(tempfile.mkdtemp(prefix="specdec-page-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    gr.set_static_paths([folder])
    return folder


def remove_made() -> None:
    """Remove the files that were written; for an end at which Python calls no exit function."""
    if _made_folder.cache_info().currsize:
        shutil.rmtree(_made_folder(), ignore_errors=True)


def made(name: str, text: str) -> Path:
    """Write a public file for the time of this server; its path. ValueError where the disk is full."""
    try:
        path = _made_folder() / name
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(
            f"{name} could not be written to the temporary folder: {error.strerror or error}. Free some "
            "space there, or name another folder in the variable TMPDIR"
        ) from None
    return path


@cache
def empty_player() -> Path:
    """The page that plays a run offline, without one: Save fills it in."""
    return made("player.html", player.empty())


@cache
def style() -> Path:
    """All style sheets of the page in one file."""
    return made("page.css", "".join(sheet.read_text(encoding="utf-8") for sheet in SHEETS))


OPENING = [ASSETS / name for name in bundle.modules(ASSETS, MAIN.name)]
"""The scripts that the page opens with; those of other tabs are fetched with them."""


def file_url(path: Path) -> str:
    """Where the browser finds a file of the static paths, relative to the page."""
    return f"gradio_api/file={quote(path.as_posix())}"
