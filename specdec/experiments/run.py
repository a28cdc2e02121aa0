"""Does all runs of an experiment, in one process or in several that divide the prompts among them."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable
from contextlib import nullcontext
from importlib.metadata import version
from typing import NamedTuple

import torch
from tqdm import tqdm

from specdec.experiments.measure import measured
from specdec.experiments.plan import ContextJob, Job, Plan
from specdec.experiments.settings import Settings
from specdec.experiments.store import Record, Store
from specdec.pair import ModelPair


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
            records = measured(pair, settings, own, at_once)
            bar = {"unit": "run", "mininterval": 1, "dynamic_ncols": True, "disable": quiet}
            for record in tqdm(records, total=len(own), **bar):
                store.append(record)
            share.wait()


def _next_jobs(settings: Settings, store: Store, share: Share) -> list[Job | ContextJob]:
    """The next runs. All processes get the same ones, because all read the file before any of them writes."""
    _, runs = store.read()
    jobs = Plan(settings, runs).missing()
    share.wait()
    return jobs


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
    versions |= {"device": device, "date": time.strftime("%Y-%m-%d")}
    return {"settings": settings.to_json(), "pair": models, "versions": versions}


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
