"""The page's own files, and which of them are public."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import brotli
import plotly
from fastapi.requests import Request
from fastapi.responses import Response

from specdec.commands import spread
from specdec.notebook import bundle, player

ASSETS = Path(__file__).resolve().parent.parent.parent / "assets"
MAIN = ASSETS / "main.js"
FOLDERS = sorted({path.parent for path in ASSETS.glob("*/*.js")})
"""The folders of `assets` that hold scripts and style sheets, one for each feature."""
_CASCADE = [
    "shared/colours",
    *("page/base", "shared/controls", "page/fields", "page/page", "page/setup", "page/tabs"),
    *("compare/style", "shared/labs", "shared/reports", "codecs/style"),
    *("be_draft/style", "lessons/style", "lessons/board", "lessons/sheet", "classroom/style"),
    *("losslessness/style", "watermark/style", "tree_lab/style", "page/models"),
    *("decode/stage", "decode/text", "decode/figures", "decode/player", "decode/statistics"),
    *("decode/phone", "page/projector", "shared/slides"),
]
_NAMED = [ASSETS / f"{name}.css" for name in _CASCADE]
SHEETS = [*_NAMED, *sorted({*ASSETS.glob("*/style.css")} - {*_NAMED})]
"""The style sheets of the page in the order of the cascade. A `style.css` that `_CASCADE` does not name comes
last.
"""
PLOTLY = Path(plotly.__file__).resolve().parent / "package_data" / "plotly.min.js"

FILES = "files"
"""The folder of the public files, relative to the page. Addresses do not show where the server keeps them."""
_FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class _File:
    """A public file. make: returns its contents. sources: the files from which the contents are made.

    The contents are made again when a source changes.
    """

    make: Callable[[], bytes]
    sources: tuple[Path, ...] = ()


_public: dict[str, _File] = {}


def publish(*files: Path) -> None:
    """Make files public, so that a browser finds them by `file_url`. No other file of the disk is served."""
    _public.update({_address(file): _File(file.read_bytes, (file,)) for file in files})


def made(name: str, text: str) -> str:
    """Make a text public as a file of this name. Returns its address relative to the page."""
    address = f"{FILES}/made/{name}"
    _public[address] = _File(text.encode)
    return address


def publish_made(address: str, make: Callable[[], str], sources: Iterable[Path]) -> None:
    """Make the text public that `make` returns. address: relative to the folder `FILES`. sources: the files
    from which the text is made."""
    _public[f"{FILES}/{address}"] = _File(lambda: make().encode(), tuple(sources))


def constants(comment: str, **tables: Any) -> str:
    """The text of a JavaScript module that exports these tables under their names. comment: its first line.

    A list of names takes one line, any other list one line per entry, and a mapping one line per inner entry.
    """
    lines = [f"// {comment}", "// biome-ignore-all format: generated", ""]
    for name, table in tables.items():
        levels = 2 if isinstance(table, dict) else int(isinstance(table[0], dict))
        lines.append(f"export const {name} = {spread(table, levels)};")
    return "\n".join([*lines, ""])


@cache
def empty_player() -> str:
    """The address of the offline player's page without a run. The Save button inserts the run."""
    return made("player.html", player.empty())


def style() -> str:
    """The address of one file that has all style sheets of the page. It changes when one of them changes."""
    return f"{FILES}/{_version()}/{_STYLE}"


def script() -> str:
    """The address of one script with everything that the page needs at its start.

    Other views fetch their scripts later.
    """
    return f"{FILES}/{_version()}/{_BUNDLED}/{MAIN.name}"


def _version() -> str:
    """A text that changes whenever a script or a style sheet changes.

    It is computed from the times of their last changes.
    """
    sources = sorted({*SHEETS, MAIN, *(file for folder in FOLDERS for file in folder.glob("*.js"))})
    times = ",".join(str(source.stat().st_mtime_ns) for source in sources)
    return "v" + hashlib.blake2b(times.encode(), digest_size=6).hexdigest()


_BUNDLED, _STYLE = "bundle", "made/page.css"


def _publish_bundles() -> None:
    publish_made(_STYLE, lambda: "".join(sheet.read_text(encoding="utf-8") for sheet in SHEETS), SHEETS)
    opening = [ASSETS / name for name in bundle.modules(ASSETS, MAIN.name)]
    publish_made(f"{_BUNDLED}/{MAIN.name}", partial(bundle.module, ASSETS, MAIN.name), opening)
    for file in {file for folder in FOLDERS for file in folder.glob("*.js")} - {*opening}:
        name = file.relative_to(ASSETS).as_posix()
        publish_made(f"{_BUNDLED}/{name}", partial(bundle.beside, ASSETS, MAIN.name, name), [file, *opening])


def file_url(path: Path) -> str:
    """The address of a public file, or of a folder of them, relative to the page."""
    return quote(_address(path))


def _address(path: Path) -> str:
    return f"{FILES}/{path.name if path == PLOTLY else path.relative_to(ASSETS).as_posix()}"


def answer(request: Request) -> Response:
    """The file at the request's path below `FILES`, as it is now.

    Browsers check on each visit whether a file has changed. They store a file for ever if its address
    contains the current version of the scripts.
    """
    path = request.path_params["path"]
    version, _, file_path = path.partition("/")
    address = f"{FILES}/{file_path if re.fullmatch('v[0-9a-f]{12}', version) else path}"
    if (file := _public.get(address)) is None or not all(source.is_file() for source in file.sources):
        return Response(status_code=404)
    kind = mimetypes.guess_type(address)[0] or "application/octet-stream"
    headers = {"cache-control": _FOREVER if version == _version() else "no-cache"}
    return packed(request, _stored(file, *(source.stat().st_mtime for source in file.sources)), kind, headers)


@dataclass(frozen=True)
class Packed:
    """A text, uncompressed (`content`) and compressed by brotli and by gzip. tag: its ETag."""

    content: bytes
    brotli: bytes
    gzip: bytes
    tag: str


def pack(content: bytes) -> Packed:
    """Compress a text once for all visitors."""
    digest = hashlib.blake2b(content, digest_size=8).hexdigest()
    return Packed(content, brotli.compress(content, quality=9), gzip.compress(content, 6), f'"{digest}"')


@lru_cache(maxsize=512)
def _stored(file: _File, *_changed: float) -> Packed:
    return pack(file.make())


def packed(request: Request, text: Packed, kind: str, headers: dict[str, str]) -> Response:
    """The response with a compressed text, or with status 304 for a browser that already has the text."""
    headers = headers | {"etag": text.tag, "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == text.tag:
        return Response(status_code=304, headers=headers)
    accepted = request.headers.get("accept-encoding", "")
    for encoding, body in (("br", text.brotli), ("gzip", text.gzip)):
        if encoding in accepted:
            return Response(body, media_type=kind, headers=headers | {"content-encoding": encoding})
    return Response(text.content, media_type=kind, headers=headers)


# scripts, styles and plotly's file, but no weights
publish(MAIN, PLOTLY, *(path for folder in FOLDERS for path in folder.iterdir() if path.is_file()))
_publish_bundles()
