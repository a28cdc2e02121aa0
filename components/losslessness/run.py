"""A losslessness check as a stream of JSON updates, about four a second: counts, χ² and the p-value's path.

Counts are of all decodes so far; `path` holds only the points since the update before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from components.losslessness import models
from components.server import feed, topologies, turns
from components.server.settings import whole, words
from specdec.checks import among
from specdec.exactness.faults import FAULTS
from specdec.exactness.losslessness import Check
from specdec.figures.topologies import FIXED
from specdec.topology import Topology

ALARM = 1e-4
"""A right decoder's check ends below this p-value once in ten thousand."""
MOST_K, MOST_TOKENS = 8, 3
FEWEST, MOST = 100, 20_000
"""Decodes of one check."""
MOST_SECONDS = 120.0
"""A check ends then, however far it is: on a busy server it is judged by fewer decodes."""
_POINTS = 100
_TURN = 0.02
"""Seconds of a turn, about a round of a run's: checks and runs share the interpreter."""


@dataclass(frozen=True)
class CheckSettings:
    """One check as the visitor asked for it. fault: used if `broken`, and of `method`'s own. Until it is
    `checked`, a field holds whatever the browser sent."""

    method: str = "gsd"
    draft: str = "climate"
    topology: str = "optimal"
    k: int = 4
    tokens: int = 2
    decodes: int = 8000
    seed: int = 1
    broken: bool = False
    fault: str | None = None

    def checked(self) -> CheckSettings:
        """The same with whole numbers as `int`; ValueError names what does not fit."""
        changes = {
            "topology": among("topology", self.topology, FIXED),
            "draft": words("draft", self.draft),
            "k": whole("k", self.k, 1, MOST_K),
            "tokens": whole("tokens", self.tokens, 1, MOST_TOKENS),
            "decodes": whole("decodes", self.decodes, FEWEST, MOST),
            "seed": whole("seed", self.seed, 0, 2**53),
            "fault": self._fault(),
        }
        return CheckSettings(**(asdict(self) | changes))

    def _fault(self) -> str | None:
        if not self.broken or self.method == "ar":
            return None
        own = [name for name, fault in FAULTS.items() if fault.method == self.method]
        if self.fault not in own:
            raise ValueError(
                f"fault = {self.fault!r} is none that {self.method!r} can have: {', '.join(own)}"
            )
        return self.fault


def new_check(settings: CheckSettings) -> Check:
    """The check of checked settings, nothing decoded yet."""
    pair, prompt = models.pair(settings.draft), [models.TODAY]
    # autoregressive decoding has no tree; measuring one for it would be refused
    name = "sequence" if settings.method == "ar" else settings.topology
    return Check(
        pair,
        prompt,
        method=settings.method,
        topology=topologies.topology(pair, name, settings.k, method=settings.method),
        length=settings.tokens,
        seed=settings.seed,
        fault=None if settings.fault is None else FAULTS[settings.fault],
    )


def updates(
    settings: CheckSettings, interval: float = feed.INTERVAL, visitor: turns.Visitor = turns.NOBODY
) -> Iterator[str]:
    """One check of this visitor as JSON updates; a mistake becomes a last update with its message."""
    log = feed.Log(interval)
    try:
        settings = settings.checked()
        with turns.CHECKS.seat(visitor) as seat:
            yield from map(feed.waits, seat.wait())
            with seat.turn():
                check = new_check(settings)
            yield log.flush("running", **opening(settings, check))
            yield from _decoded(log, seat, check, settings.decodes)
    except Exception as error:
        yield log.flush("error", message=feed.told(error))


def opening(settings: CheckSettings, check: Check) -> dict[str, Any]:
    """What is known before the first decode: the set-up, the tree and the law, outcomes in counting order."""
    tree = check.asked.topology
    assert isinstance(tree, Topology), "a tree that is the same in each round"
    return {
        "setup": asdict(settings),
        "tree": {"k": tree.num_draft_tokens, "levels": [len(level) for level in tree.levels[1:]]},
        "tables": models.tables(settings.draft),
        "law": list(check.distribution.values()),
    }


def _decoded(log: feed.Log, seat: turns.Seat, check: Check, decodes: int) -> Iterator[str]:
    end = time.monotonic() + MOST_SECONDS
    path: list[tuple[int, float]] = []
    while check.decodes < decodes and time.monotonic() < end:
        with seat.turn():
            path += _some(check, decodes)
        if time.monotonic() - log.flushed_at >= log.interval:
            yield log.flush("running", path=path, **_so_far(check))
            path = []
    yield log.flush("done", path=path, **_so_far(check))


def _some(check: Check, decodes: int) -> list[tuple[int, float]]:
    """Decode for as long as a turn of the model is; the points of the path on the way."""
    marks = {round(decodes * i / _POINTS) for i in range(1, _POINTS + 1)}
    path, end = [], time.monotonic() + _TURN
    while check.decodes < decodes and time.monotonic() < end:
        check.decode()
        if check.decodes in marks:
            path.append((check.decodes, check.chi_square().p_value))
    return path


def _so_far(check: Check) -> dict[str, Any]:
    return {
        "decodes": check.decodes,
        "counts": [check.counts[outcome] for outcome in check.distribution],
        "chi_square": check.chi_square(),
        "calls": check.rounds,
        "emitted": check.tokens,
        "accepting": check.accepting,
    }
