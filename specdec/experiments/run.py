"""Does all runs of an experiment, in one process or in several that divide the prompts among them."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from typing import NamedTuple

import torch
from tqdm import tqdm

from specdec import topology
from specdec.decoding.run import generate
from specdec.experiments.measure import measure, measured
from specdec.experiments.plan import ContextJob, Job, Plan
from specdec.experiments.settings import Point, Settings
from specdec.experiments.store import Record, Store
from specdec.pair import ModelPair

_PROBES = (topology.sequence(1), topology.sequence(8), topology.batch(32))
_PROBE_TOKENS = 24
_GUESSED_RATE = 0.65


class Share(NamedTuple):
    """This process's share of the runs: every `count`-th prompt.

    wait: returns when all processes have called it.
    """

    index: int = 0  # type: ignore[assignment]  # shadows a method of tuples that nobody needs
    count: int = 1  # type: ignore[assignment]  # so does this
    wait: Callable[[], None] = lambda: None


ALONE = Share()


def run(
    pair: ModelPair,
    settings: Settings,
    store: Store,
    share: Share = ALONE,
    quiet: bool = False,
    at_once: int = 1,
) -> None:
    """Does the runs that the results file lacks, `at_once` texts together.

    ValueError if the file belongs to other settings, or if another experiment writes to it.
    """
    with store.writing() if share.index == 0 else nullcontext():
        if share.index == 0:
            store.begin(header(pair, settings))
        share.wait()
        while jobs := _next_jobs(settings, store, share):
            own = [job for job in jobs if job.prompt % share.count == share.index]
            _do(pair, settings, store, own, quiet, at_once)
            share.wait()


def _next_jobs(settings: Settings, store: Store, share: Share) -> list[Job | ContextJob]:
    """The next runs. All processes get the same ones, because all read the file before any of them writes."""
    _, runs = store.read()
    jobs = Plan(settings, runs).missing()
    share.wait()
    return jobs


def _do(
    pair: ModelPair,
    settings: Settings,
    store: Store,
    jobs: Sequence[Job | ContextJob],
    quiet: bool,
    at_once: int,
) -> None:
    lines: Iterable[Record] = (measure(pair, settings, job) for job in jobs)
    if at_once > 1:
        lines = measured(pair, settings, jobs, at_once)
    for line in tqdm(lines, total=len(jobs), unit="run", disable=quiet, mininterval=1, dynamic_ncols=True):
        store.append(line)


def header(pair: ModelPair, settings: Settings) -> Record:
    """The first line of a results file: settings, models and versions."""
    models: Record = {"target": pair.target.name, "draft": pair.drafting.name, "vocab_size": pair.vocab_size}
    for name in ("target", "draft"):
        model = getattr(pair, name)
        models |= {f"{name}_dtype": _dtype(model), f"{name}_weights": _fingerprint(model)}
    packages = ("torch", "transformers", "accelerate", "numpy")
    versions = {"python": platform.python_version()} | {name: version(name) for name in packages}
    device = str(pair.target.device)
    if pair.target.device.type == "cuda":
        device = torch.cuda.get_device_name(pair.target.device)
    return {
        "settings": settings.to_json(),
        "pair": models,
        "versions": versions | {"device": device, "date": time.strftime("%Y-%m-%d")},
    }


def _dtype(model: object) -> str:
    dtype = getattr(getattr(model, "module", None), "dtype", torch.float64)
    return str(dtype).removeprefix("torch.")


def _fingerprint(model: object) -> str:
    """A digest of the model's norms and biases, which training changes."""
    digest = hashlib.sha256()
    module = getattr(model, "module", None)
    for parameter in () if module is None else module.parameters():
        if parameter.dim() == 1 and not parameter.is_meta:
            digest.update(parameter.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()[:12]


def estimated_seconds(pair: ModelPair, settings: Settings) -> float:
    """A rough estimate of one process's seconds for the whole experiment, from three short texts."""
    per_round, per_level, per_node = _round_costs(pair, settings)
    total = 0.0
    for point in settings.points:
        depth, tokens = _guessed_shape(point)
        rounds = settings.tokens / tokens
        total += rounds * (per_round + per_level * depth + per_node * point.k)
    return total


def _round_costs(pair: ModelPair, settings: Settings) -> tuple[float, float, float]:
    """Seconds per round, per level of the tree and per node, solved from the times of three trees."""
    rows, seconds = [], []
    for tree in _PROBES:
        probe = partial(
            generate, pair, settings.prompts[0], method=settings.methods[0], topology=tree, seed=0
        )
        probe(max_new_tokens=4)
        done = probe(max_new_tokens=_PROBE_TOKENS)
        rows.append([1.0, float(tree.depth), float(tree.num_draft_tokens)])
        seconds.append(done.seconds / len(done.rounds))
    costs = torch.linalg.solve(torch.tensor(rows), torch.tensor(seconds))
    per_round, per_level, per_node = costs.clamp_min(0).tolist()
    return per_round, per_level, per_node


def _guessed_shape(point: Point) -> tuple[float, float]:
    """Estimated depth and tokens per target call of a tree, for a draft that is right two times in three."""
    k, rate = point.k, _GUESSED_RATE
    if point.strategy == "batch":
        return 1, min(1 + rate * k**0.15, 2)
    if point.strategy == "optimal":
        depth = min(k, 1 + 2 * k**0.4)
        return depth, 1 + rate * depth**0.7
    return min(k, 200), (1 - rate ** (k + 1)) / (1 - rate)


def duration(seconds: float) -> str:
    """A time in words: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
