"""Several runs from one prompt and seed, one after the other, as one stream of updates.

The updates are those of `components.runs.run`. An update of one column also names the column. The first run
is autoregressive decoding, the reference for all texts.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from components.compare.drafts import Drafts
from components.page.settings import TABLE, VisitorSettings, described
from components.page.values import words
from components.runs import feed, run, seats, topologies

REFERENCE = "reference"
"""The name of the autoregressive run."""
MOST_COLUMNS = 4

_OWN = ("method", *(name for name, row in TABLE.items() if "method" in row.setting.unless))
"""The names of the settings that each column has for itself: the method, and all settings that only drafting
methods use."""
_SHARED = [name for name in TABLE if name not in _OWN]


def description() -> str:
    """Describes the endpoint to clients, with the form of its argument `asked`."""
    return f"""Run several methods one after the other from one prompt and seed. Yields updates as JSON texts.

asked: an object with the settings of all columns, and columns: a list of objects with a name, a draft and the
settings of one column. reference: whether to measure autoregressive decoding too. models: the models of the
earlier reference, if it is not measured again. The settings of all columns are these.
{described(_SHARED)}
The settings of one column are these.
{described(_OWN)}"""


@feed.ending_in_words
def updates(
    drafts: Drafts, request: Any, interval: float = feed.INTERVAL, address: str = ""
) -> Generator[str]:
    """Run a request as JSON updates. All runs share one seat at the model.

    request: as `description` says. address: as in `run.updates`.

    An error in one column becomes an update with its message, and the other columns go on. An error in the
    shared settings becomes the last update.
    """
    shared, columns, drafts = _shared(request), _columns(request), drafts.now()
    with seats.MODEL.seat(address) as seat:
        yield from map(feed.waits, seat.wait())
        models = _checked_models(request, run.models(drafts.pair))
        yield feed.update("running", setup={"seed": shared.seed, "models": models})
        if request.get("reference"):
            yield from _decoded(interval, seat, drafts, REFERENCE, "own", shared)
        for column in columns:
            yield from _column(interval, seat, drafts, column, shared)
    yield feed.update("done")


def _shared(request: Any) -> VisitorSettings:
    if not isinstance(request, Mapping):
        raise ValueError(f"a comparison needs an object with names and values, not {request!r:.80}")
    values: dict[str, Any] = {name: request[name] for name in _SHARED if name in request}
    return VisitorSettings(**{"chat": True} | values, method="ar").checked()


def _checked_models(request: Mapping[str, Any], models: list[dict[str, str]]) -> list[dict[str, str]]:
    """Check that `models`, the loaded models, also wrote the reference run, if the request reuses an earlier
    one. Returns `models`; ValueError if other models wrote that run."""
    if not request.get("reference") and request.get("models") != models:
        raise ValueError(
            "other models were loaded since these texts were written; press Run to compare again"
        )
    return models


def _columns(request: Mapping[str, Any]) -> list[Any]:
    columns = request.get("columns")
    if not isinstance(columns, list) or len(columns) > MOST_COLUMNS:
        raise ValueError(f"columns must be a list of at most {MOST_COLUMNS}, not {columns!r:.80}")
    for column in columns:
        if not isinstance(column, Mapping) or not isinstance(column.get("name"), str):
            raise ValueError(f"a column is {column!r:.80}; give name, draft and settings such as topology")
        words("column", column["name"])  # every update of the column repeats the name
    return columns


def _column(
    interval: float, seat: seats.Seat, drafts: Drafts, column: Mapping[str, Any], shared: VisitorSettings
) -> Iterator[str]:
    """Run one column and yield its updates.

    An error becomes an update with a message that names the column.
    """
    name: str = column["name"]
    own: dict[str, Any] = {part: column.get(part, TABLE[part].setting.default) for part in _OWN}
    try:
        draft = words("draft", column.get("draft"))
        yield from _decoded(interval, seat, drafts, name, draft, replace(shared, **own).checked())
    except Exception as error:
        yield feed.update("failed", column=name, message=feed.error_message(error))


def _decoded(
    interval: float, seat: seats.Seat, drafts: Drafts, name: str, draft: str, settings: VisitorSettings
) -> Iterator[str]:
    phase = "choosing" if topologies.has_to_measure(settings) else "running"
    update: dict[str, Any] = {"column": name}
    yield feed.update(phase, **update)
    with closing(run.begin(seat, drafts.pair_with(draft), settings, detail=False)) as job:
        for _ in job.beginning(seats.TOLD_EVERY):
            yield feed.update(phase, **update)
        assert job.run is not None, "a run that has begun"
        topology = job.run.topology
        tree = {"num_draft_tokens": topology.num_draft_tokens, "depth": topology.depth}
        yield feed.update("running", **update, tree=tree)
        for rounds in job.batches(interval):
            yield feed.update("running", rounds, **update)
