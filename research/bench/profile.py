"""The processor time of one round, part by part.

Times are processor time of the whole process, so other work on the machine does not count. On a GPU they are
the time to launch kernels, not to compute.
"""

import functools
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import specdec.drafters.model
from specdec import ModelPair
from specdec.bench.contestants import Contestant, Workload
from specdec.bench.measure import run
from specdec.commands import columns
from specdec.methods import METHODS
from specdec.models import Session
from specdec.models.sessions import states
from specdec.race import Races
from specdec.race.races import HostRace
from specdec.race.sparse import SparseRace

REST, OUTSIDE = "rest", "outside forwards"
FORWARDS = ("target forward", "draft forward", "copies of states")
REPEATS = 3  # runs; the run with the least time counts
PLACES: tuple[tuple[str, Any, str], ...] = (
    ("races", Races, "at"),
    ("copies of states", states, "copied"),
    ("draft's choices", specdec.drafters.model, "log_probs"),
    ("draft's choices", specdec.drafters.model, "log_weights"),
    ("draft's choices", HostRace, "arrivals"),
    ("draft's choices", SparseRace, "arrivals"),
)
"""The timed functions, each as (the part of a round to which it belongs, its owner, its name)."""


class Parts:
    """Milliseconds of each part of a round. The time of a part excludes other parts that it calls."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self._inner = [0.0]

    def timed(self, part: str, function: Callable) -> Callable:
        """Wraps a function so that its time is added to this part."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._inner.append(0.0)
            start = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                ms = 1000 * (time.process_time() - start)
                own = ms - self._inner.pop()
                self._inner[-1] += ms
                self.milliseconds[part] = self.milliseconds.get(part, 0.0) + own

        return call


class _TimedSession:
    """A timed session. It is in no reference cycle, so its cache is freed as soon as it is no longer used."""

    def __init__(self, open_session: Callable[[], Session], parts: Parts, part: str):
        self._session = session = open_session()
        self.forward = parts.timed(f"{part} forward", session.forward)
        self.prefill = parts.timed("prefill", session.prefill)
        self.commit = parts.timed("commit", session.commit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


def profile(pair: ModelPair, contestant: Contestant, job: Workload) -> dict[str, float]:
    """Milliseconds of processor time per round: forward passes, races, verification and the rest.

    "outside forwards" is the sum of all parts except the forward passes and the copies of states. The
    prompt's prefill is not counted.
    """
    profiles = [_profiled(pair, contestant, job) for _ in range(REPEATS)]
    return min(profiles, key=lambda parts: parts[REST])


def _profiled(pair: ModelPair, contestant: Contestant, job: Workload) -> dict[str, float]:
    parts = Parts()
    # a draft with another tokenizer wraps a model over its own tokens, and this inner model is timed
    models = {"target": pair.target, "draft": getattr(pair.draft, "draft", pair.draft)}
    with ExitStack() as stack:
        for part, owner, name in PLACES:
            stack.enter_context(patch.object(owner, name, parts.timed(part, getattr(owner, name))))
        timed = {name: e._replace(verify=parts.timed("verify", e.verify)) for name, e in METHODS.items()}
        stack.enter_context(patch.dict(METHODS, timed))
        for part, model in models.items():
            if model is not None:
                open_session = functools.partial(_TimedSession, model.session, parts, part)
                stack.enter_context(patch.object(model, "session", open_session))
        sample = parts.timed(REST, run)(contestant, job)
    parts.milliseconds.pop("prefill", None)
    per_round = {part: ms / sample.target_calls for part, ms in parts.milliseconds.items()}
    return per_round | {OUTSIDE: sum(ms for part, ms in per_round.items() if part not in FORWARDS)}


def table(profiles: Mapping[str, Mapping[str, float]]) -> str:
    """A table with the time of each part of a round, one line for each contestant."""
    parts, lines = list(dict.fromkeys(part for profile in profiles.values() for part in profile)), []
    for name, profile in profiles.items():
        total = sum(ms for part, ms in profile.items() if part != OUTSIDE)
        share = (profile.get("races", 0.0) + profile.get("verify", 0.0)) / total
        lines.append([name, *(f"{profile.get(part, 0):.2f}" for part in parts), f"{share:.1%}"])
    return columns([["", *parts, "races + verify"], *lines], markdown=True)
