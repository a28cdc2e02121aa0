"""Runs a losslessness check and yields JSON updates, about four a second: the counts of all outcomes, χ²,
and the curve of the p-value.

Counts cover all decodes so far. `path` holds only the points since the previous update.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import asdict, dataclass
from typing import Any

from components.losslessness import models
from components.page.values import whole, words
from components.runs import feed, seats, topologies
from specdec.checks import among
from specdec.exactness.faults import FAULTS
from specdec.exactness.losslessness import Check
from specdec.figures.topologies import FIXED
from specdec.topology import Topology

ALARM = 1e-4
"""With a correct decoder, one check in ten thousand ends below this p-value."""
MOST_K, MOST_TOKENS = 8, 3
FEWEST, MOST = 100, 20_000
"""The smallest and the largest number of decodes of one check."""
MOST_SECONDS = 120.0
"""A check ends after this many seconds. On a busy server its verdict is then based on fewer decodes."""
_POINTS = 100
_TURN = 0.02
"""A check works for this many seconds at a time, about as long as a round of a run, because checks and runs
share Python's interpreter."""


@dataclass(frozen=True)
class CheckSettings:
    """The settings of one check as the visitor sent them.

    fault: a fault of `method`; it applies only if `broken`. The fields hold unchecked values of the browser
    until `checked` returns a checked copy.
    """

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
        """A checked copy with whole numbers as `int`. ValueError names the value that does not fit."""
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
                f"fault = {self.fault!r} does not break {self.method!r}; choose one of {', '.join(own)}"
            )
        return self.fault


def new_check(settings: CheckSettings) -> Check:
    """A new check of checked settings, before the first decode."""
    pair, prompt = models.pair(settings.draft), [models.TODAY]
    return Check(
        pair,
        prompt,
        method=settings.method,
        topology=topologies.topology(pair, settings.topology, settings.k, method=settings.method),
        length=settings.tokens,
        seed=settings.seed,
        fault=None if settings.fault is None else FAULTS[settings.fault],
    )


@feed.ending_in_words
def updates(
    settings: CheckSettings,
    interval: float = feed.INTERVAL,
    address: str = "",
) -> Generator[str]:
    """Run one check for this visitor as JSON updates. An error in the settings becomes a last update with a
    message."""
    settings = settings.checked()
    with seats.CHECKS.seat(address) as seat:
        yield from map(feed.waits, seat.wait())
        for updates in seat.do(_decoded(settings, interval)).batches(0):
            for phase, update in updates:
                yield feed.update(phase, **update)


def opening(settings: CheckSettings, check: Check) -> dict[str, Any]:
    """The first update: settings, tree and exact distribution. Outcomes are in lexicographic order."""
    tree = check.template.topology
    assert isinstance(tree, Topology), "the tree is the same in each round"
    return {
        "setup": asdict(settings),
        "tree": {"k": tree.num_draft_tokens, "levels": [len(level) for level in tree.levels[1:]]},
        "tables": models.tables(settings.draft),
        "distribution": list(check.distribution.values()),
    }


def _decoded(
    settings: CheckSettings, interval: float
) -> Generator[tuple[str, dict[str, Any]] | None, None, None]:
    """Run the check in small steps. A step yields the phase and the fields of an update, or None between two
    updates."""
    check = new_check(settings)
    yield "running", opening(settings, check)
    end = due = time.monotonic()
    end += MOST_SECONDS
    path: list[tuple[int, float]] = []
    while check.decodes < settings.decodes and time.monotonic() < end:
        path += _decode_some(check, settings.decodes)
        if time.monotonic() < due:
            yield None
            continue
        yield "running", {"path": path, **_so_far(check)}
        path, due = [], time.monotonic() + interval
    yield "done", {"path": path, **_so_far(check)}


def _decode_some(check: Check, decodes: int) -> list[tuple[int, float]]:
    """Decode for about `_TURN` seconds, until the check has `decodes` decodes. Returns the new points of the
    p-value's curve: (decodes so far, p-value)."""
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
