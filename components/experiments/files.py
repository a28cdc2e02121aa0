"""An experiment's file, the shipped one or that of `app.py --results FILE`, as the summary that is shown.

There are two kinds: the summary that `python -m specdec.experiments --summary` writes, and the JSON lines of
the runs themselves, which are summarised here. Each part is checked before it is read, and a ValueError names
the first one that does not fit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from components.page.assets import ASSETS
from components.page.questions import Strict, check
from specdec.experiments.settings import STRATEGIES
from specdec.methods import DRAFTING

SHIPPED = ASSETS / "results" / "experiments.summary.json"
"""The summary of the embedded pair's experiment."""

_Number = Annotated[float, Field(allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0)]
_K = Annotated[int, Field(ge=1, le=100_000)]
_Grid = Annotated[list[Annotated[int, Field(ge=1, le=4096)]], Field(max_length=64)]
_Counts = Annotated[list[_Count], Field(max_length=100_000)]
if TYPE_CHECKING:  # names of catalogues are known when it runs
    _Method = str
    _Strategy = str
else:
    _Method = Literal[DRAFTING]
    _Strategy = Literal[STRATEGIES]


class _Estimate(Strict):
    value: _Number
    low: _Number | None
    high: _Number | None


class _Point(_Estimate):
    method: _Method
    strategy: _Strategy
    k: _K
    prediction: _Number
    tokens: _Count


class _Increment(_Estimate):
    method: _Method
    strategy: _Strategy
    start: _K = Field(alias="from")
    to: _K
    prediction: _Number


class _Difference(_Estimate):
    strategy: _Strategy
    k: _K


class _Rate(Strict):
    index: _Count
    rate: _Number | None
    low: _Number | None
    high: _Number | None


class _Contexts(Strict):
    positions: _Count
    by_index: list[_Number]


class _Acceptance(Strict):
    by_index: list[_Number]
    batch: list[_Rate]
    entropy_of_mean: _Number
    contexts: _Contexts | None


class _Bound(Strict):
    k: _K
    minimal: _Number | None
    fixed_m: _Number | None
    tunstall: _Number | None


class _Bounds(Strict):
    fixed_m: int | None
    by_k: list[_Bound]


class _Finding(Strict):
    name: str
    statement: str
    place: str
    found: bool | None
    words: str


class _Summary(Strict):
    pair: dict[str, str | int]
    settings: dict[str, Any]
    versions: dict[str, str]
    complete: bool
    acceptance: Annotated[dict[_Method, _Acceptance], Field(min_length=1)]
    points: Annotated[list[_Point], Field(min_length=1, max_length=1000)]
    increments: Annotated[list[_Increment], Field(max_length=1000)]
    differences: Annotated[list[_Difference], Field(max_length=1000)]
    bounds: dict[_Method, _Bounds]
    findings: Annotated[list[_Finding], Field(max_length=100)]


class _RunSettings(Strict):
    """Settings of the runs of a results file; how long summarising takes depends on them."""

    tokens: Annotated[int, Field(ge=1, le=1_000_000)]
    max_new_tokens: Annotated[int, Field(ge=10, le=100_000)]
    prompts: Annotated[int, Field(ge=1, le=100_000)]
    positions: _Count
    methods: Annotated[list[_Method], Field(min_length=1, max_length=2)]
    sequence: _Grid
    batch: _Grid
    specinfer: _Grid
    optimal: _Grid


class _Header(Strict):
    settings: _RunSettings
    pair: dict[str, str | int]
    versions: dict[str, str]


class _Run(Strict):
    method: _Method
    tree: str
    prompt: _Count
    repeat: _Count
    tokens: Annotated[int, Field(ge=1)]
    rounds: Annotated[int, Field(ge=1)]
    lengths: _Counts
    offered: _Counts
    reached: _Counts
    accepted: _Counts


class _Context(Strict):
    """Acceptance computed at moments of a text; its numbers by method are checked when they are summed."""

    method: Literal["contexts"]
    tree: str
    prompt: _Count
    repeat: _Count
    positions: Annotated[int, Field(ge=1)]
    kl: _Number | None


_SUMMARY: TypeAdapter[Any] = TypeAdapter(_Summary)
_HEADER: TypeAdapter[Any] = TypeAdapter(_Header)
_RUN: TypeAdapter[Any] = TypeAdapter(_Run)
_CONTEXT: TypeAdapter[Any] = TypeAdapter(_Context)


_own: dict[str, Any] | None = None


def use(path: Path) -> None:
    """Show this file instead of the shipped one. ValueError names the file and what does not fit in it."""
    global _own
    try:
        _own = read(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"results = {str(path)!r} could not be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"results = {str(path)!r}: {error}") from None


def own() -> dict[str, Any] | None:
    """The summary of the operator's file (`--results FILE`), or None without such a file."""
    return _own


def shipped() -> dict[str, Any] | None:
    """The committed summary, or None if there is none."""
    return read(SHIPPED.read_text()) if SHIPPED.is_file() else None


def read(text: str) -> dict[str, Any]:
    """The summary in a file's text, of either kind. ValueError says what does not fit."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError("the file is empty")
    first = _first(text, lines[0])
    if "points" in first:
        return _checked(_SUMMARY, first)
    if "settings" not in first:
        raise ValueError(
            "neither a summary nor the results of python -m specdec.experiments: "
            "the first line has no settings and no points"
        )
    # An interrupted run may leave an incomplete last line, which is dropped.
    return _summarized(first, lines[1:] if text.endswith("\n") else lines[1:-1])


def _summarized(header: dict[str, Any], lines: list[str]) -> dict[str, Any]:
    # imported here, because it imports transformers, for which the page must not wait
    from specdec.experiments import Settings, summarize

    _checked(_HEADER, header, "line 1: ")
    runs = [_run(line, number) for number, line in enumerate(lines, start=2)]
    plain: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in header["settings"].items()
    }
    plain.pop("prompts_sha256", None)
    # only the number of prompts is needed
    plain["prompts"] = ("",) * plain["prompts"]
    try:
        settings = Settings(**plain)
    except TypeError as error:
        raise ValueError(f"line 1: settings are not those of this version ({error})") from None
    return _checked(_SUMMARY, summarize(settings, header, runs))


def _run(line: str, number: int) -> dict[str, Any]:
    run = _json(line, f"line {number}")
    return _checked(_CONTEXT if run.get("method") == "contexts" else _RUN, run, f"line {number}: ")


def _first(text: str, line: str) -> dict[str, Any]:
    """The whole file if it is one JSON object, in any layout, otherwise its first line."""
    try:
        return _json(text, "the file")
    except ValueError:
        return _json(line, "line 1")


def _json(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise ValueError(f"{where}: not JSON; is this a file of python -m specdec.experiments?") from None
    if not isinstance(value, dict):
        raise ValueError(f"{where}: not a JSON object but {type(value).__name__}")
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _checked(adapter: TypeAdapter[Any], value: dict[str, Any], where: str = "") -> dict[str, Any]:
    """The unchanged value. Its readers expect plain data, including parts that are not checked here."""
    check(adapter, value, where)
    return value
