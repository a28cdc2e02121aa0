"""The page's own files, and which of them are public."""

from __future__ import annotations

import atexit
import shutil
import tempfile
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
SHEETS = [ASSETS / f"{name}.css" for name in _CASCADE]
"""The style sheets of the page, in the order of the cascade."""
PLOTLY = Path(plotly.__file__).resolve().parent / "package_data" / "plotly.min.js"

_MADE = Path(tempfile.mkdtemp(prefix="specdec-page-"))
atexit.register(shutil.rmtree, _MADE, ignore_errors=True)

# What is listed here becomes public: scripts, styles, what is made of them, a file of plotly; no weights.
gr.set_static_paths([MAIN, *FOLDERS, _MADE, PLOTLY])


def made(name: str, text: str) -> Path:
    """A file that is written when the server starts, and public: its path."""
    path = _MADE / name
    path.write_text(text, encoding="utf-8")
    return path


PLAYER = made("player.html", player.empty())
"""The page that plays a run offline, without one: Save fills it in."""
STYLE = made("page.css", "".join(sheet.read_text(encoding="utf-8") for sheet in SHEETS))
"""All style sheets of the page in one."""


OPENING = [ASSETS / name for name in bundle.modules(ASSETS, MAIN.name)]
"""The scripts that the page opens with; those of other tabs are fetched with them."""


def file_url(path: Path) -> str:
    """Where the browser finds a file of the static paths, relative to the page."""
    return f"gradio_api/file={quote(path.as_posix())}"
