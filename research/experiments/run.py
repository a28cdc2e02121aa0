"""Does all runs of an experiment."""

from __future__ import annotations

import hashlib
import platform
import time
from importlib.metadata import version

import torch
from tqdm import tqdm

from research.experiments.measure import measured
from research.experiments.plan import Plan
from research.experiments.settings import Settings
from research.experiments.store import Record, Store
from specdec.pair import ModelPair


def run(pair: ModelPair, settings: Settings, store: Store, quiet: bool = False, at_once: int = 1) -> None:
    """Does the runs that the results file lacks, `at_once` texts together.

    ValueError if the file belongs to other settings, or if another experiment writes to it.
    """
    with store.writing():
        store.begin(header(pair, settings))
        while jobs := Plan(settings, store.read()[1]).missing():
            records = measured(pair, settings, jobs, at_once)
            for record in tqdm(
                records, total=len(jobs), unit="run", mininterval=1, dynamic_ncols=True, disable=quiet
            ):
                store.append(record)


def header(pair: ModelPair, settings: Settings) -> Record:
    """The first line of a results file: settings, models and versions."""
    models: Record = {"target": pair.target.name, "draft": pair.drafting.name, "vocab_size": pair.vocab_size}
    for name in ("target", "draft"):
        model = getattr(pair, name)
        models |= {f"{name}_dtype": _dtype(model), f"{name}_weights": _fingerprint(model)}
    packages = ("torch", "transformers", "numpy")
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
