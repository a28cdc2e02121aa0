"""The page's own files, and which of them are public."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import gradio as gr
import plotly

ASSETS = Path(__file__).resolve().parent.parent.parent / "assets"
SCRIPTS = ASSETS / "js"
STYLES = ASSETS / "css"
PLOTLY = Path(plotly.__file__).resolve().parent / "package_data" / "plotly.min.js"

# What is listed here becomes public: scripts, styles and one file of plotly, never the weights.
gr.set_static_paths([SCRIPTS, STYLES, PLOTLY])


def file_url(path: Path) -> str:
    """Where the browser finds a file of the static paths, relative to the page."""
    return f"gradio_api/file={quote(path.as_posix())}"
