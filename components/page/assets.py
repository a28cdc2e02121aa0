"""The page's own files, and which of them are public."""

from __future__ import annotations

import mimetypes
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import plotly
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles

from components.guard import routes
from specdec.notebook import bundle, player

ASSETS = Path(__file__).resolve().parent.parent.parent / "assets"
MAIN = ASSETS / "main.js"
FOLDERS = sorted({path.parent for path in ASSETS.glob("*/*.js")})
"""Scripts and style sheets: the folders of `assets` that hold scripts, one for each feature."""
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
"""The style sheets of the page in the order of the cascade. The `style.css` of each panel comes after
them.
"""
PLOTLY = Path(plotly.__file__).resolve().parent / "package_data" / "plotly.min.js"

_FILES = routes.FILES.removeprefix("/")  # addresses do not show where the server keeps its files


@dataclass(frozen=True)
class _Made:
    """A text that is made from files, and made again when one of them changes."""

    make: Callable[[], str]
    sources: tuple[Path, ...]


_public: dict[str, Path | bytes | _Made] = {}


def publish(*files: Path) -> None:
    """Make files public: a browser finds them by `file_url`. No other file of the disk is served."""
    _public.update({_address(file): file for file in files})


def made(name: str, text: str) -> str:
    """Make a text public as a file of this name. Returns its address relative to the page."""
    address = f"{_FILES}/made/{name}"
    _public[address] = text.encode()
    return address


def publish_made(address: str, make: Callable[[], str], sources: Iterable[Path]) -> None:
    """Make a text public that is made from other files. address: relative to the page's files."""
    _public[f"{_FILES}/{address}"] = _Made(make, tuple(sources))


@cache
def empty_player() -> str:
    """The address of the offline player's page without a run. Save inserts the run."""
    return made("player.html", player.empty())


@cache
def style() -> str:
    """The address of one file with all style sheets of the page."""
    return made("page.css", "".join(sheet.read_text(encoding="utf-8") for sheet in SHEETS))


def script() -> str:
    """The address of one script with all that the page opens with. Other tabs fetch theirs beside it."""
    return f"{_FILES}/{_BUNDLED}/{MAIN.name}"


_BUNDLED = "bundle"


def _publish_scripts() -> None:
    opening = [ASSETS / name for name in bundle.modules(ASSETS, MAIN.name)]
    publish_made(f"{_BUNDLED}/{MAIN.name}", partial(bundle.module, ASSETS, MAIN.name), opening)
    for file in {file for folder in FOLDERS for file in folder.glob("*.js")} - {*opening}:
        name = file.relative_to(ASSETS).as_posix()
        publish_made(f"{_BUNDLED}/{name}", partial(bundle.beside, ASSETS, MAIN.name, name), [file, *opening])


def file_url(path: Path) -> str:
    """The address of a public file, or of a folder of them, relative to the page."""
    return quote(_address(path))


def _address(path: Path) -> str:
    return f"{_FILES}/{path.name if path == PLOTLY else path.relative_to(ASSETS).as_posix()}"


_STATIC = StaticFiles(directory=ASSETS)


@lru_cache(256)
def _text(made: _Made, _changed: float) -> bytes:
    """A text that is made once for each change of its files."""
    return made.make().encode()


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    file = _public.get(scope["path"].removeprefix("/"))
    kind = mimetypes.guess_type(scope["path"])[0]
    response: Response
    if isinstance(file, _Made):
        file = _text(file, max(source.stat().st_mtime for source in file.sources))
    if isinstance(file, bytes):
        etag = f'"{zlib.crc32(file):x}"'
        known = dict(scope["headers"]).get(b"if-none-match", b"").decode("latin-1")
        response = Response(b"", 304) if etag in known else Response(file, media_type=kind)
        response.headers["etag"] = etag
    elif file is not None and file.is_file():
        response = _STATIC.file_response(file, file.stat(), scope)
    else:
        response = Response(status_code=404)
    response.headers["cache-control"] = "no-cache"  # browsers check on each visit: no script is out of date
    await response(scope, receive, send)


routes.add(f"/{_FILES}/.+", _answer)
# scripts, styles and plotly's file; no weights
publish(MAIN, PLOTLY, *(path for folder in FOLDERS for path in folder.iterdir() if path.is_file()))
_publish_scripts()
