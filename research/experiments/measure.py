"""The runs of the paper's experiment: texts that are decoded, and acceptance computed at some positions."""

from __future__ import annotations

import hashlib
import math
import platform
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from research.experiments import sweep
from research.experiments.plan import Job, Plan
from research.experiments.settings import Settings
from research.experiments.store import Record, Store
from specdec import theory
from specdec.decoding.run import Run, generate, stream
from specdec.learn import scored
from specdec.pair import ModelPair
from specdec.stats import index_counts
from specdec.topology import Topology
from specdec.trace import Generation


def run(pair: ModelPair, settings: Settings, store: Store, quiet: bool = False, at_once: int = 1) -> None:
    """Does the runs that the results file lacks, `at_once` texts together.

    ValueError if the file belongs to other settings, or if another experiment writes to it.
    """
    measure = partial(_measured, pair, settings, at_once)
    sweep.complete(store, header(pair, settings), lambda runs: Plan(settings, runs).missing(), measure, quiet)


def header(pair: ModelPair, settings: Settings) -> Record:
    """The first line of a results file: settings, models and versions."""
    models: Record = {"target": pair.target.name, "draft": pair.drafting.name, "vocab_size": pair.vocab_size}
    for name in ("target", "draft"):
        module = getattr(getattr(pair, name), "module", None)
        dtype = str(getattr(module, "dtype", torch.float64)).removeprefix("torch.")
        models |= {f"{name}_dtype": dtype, f"{name}_weights": _fingerprint(module)}
    device = str(pair.target.device)
    if pair.target.device.type == "cuda":
        device = torch.cuda.get_device_name(pair.target.device)
    versions = {"python": platform.python_version()}
    versions |= {name: version(name) for name in ("torch", "transformers", "numpy")}
    versions |= {"device": device, "date": time.strftime("%Y-%m-%d")}
    return {"settings": settings.to_json(), "pair": models, "versions": versions}


def _fingerprint(module: torch.nn.Module | None) -> str:
    """A digest of the model's norms and biases, which training changes."""
    digest = hashlib.sha256()
    for parameter in () if module is None else module.parameters():
        if parameter.dim() == 1 and not parameter.is_meta:
            digest.update(parameter.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()[:12]


def _measured(pair: ModelPair, settings: Settings, at_once: int, jobs: Sequence[Job]) -> Iterator[Record]:
    """Each job's line of the results file. The seconds of a line are shared with other runs of its batch."""
    begun: dict[Run, Job] = {}

    def begin() -> Iterator[Run]:
        for job in jobs:
            if job.planned:
                asked = _text(settings, job) | {"method": job.planned.point.method}
                run = stream(pair, **asked, topology=job.planned.topology, detail=False)
                begun[run] = job
                yield run

    # imports transformers, for which the page must not wait
    from specdec.decoding.batch import decode_together

    for run in decode_together(pair, begin(), at_once):
        job = begun.pop(run)
        assert job.planned is not None
        record = job.planned.point._asdict() | job.cell | {"seed": run.seed}
        yield record | counts(run.generation, job.planned.topology)
    yield from (contexts(pair, settings, job) for job in jobs if job.planned is None)


def _text(settings: Settings, job: Job) -> dict[str, Any]:
    return {
        "prompt": settings.prompts[job.prompt],
        "max_new_tokens": settings.max_new_tokens,
        **asdict(settings.sampling),
        "seed": settings.seed_of(job.prompt, job.repeat),
    }


def counts(generation: Generation, topology: Topology) -> Record:
    """The counts of a run, for its line in the results file.

    tokens, rounds: of the whole text.
    lengths[n]: number of rounds that emitted n tokens, without the last rounds, whose trees are cut short.
    offered, reached, accepted: as in `specdec.stats.IndexCounts`.
    seconds: of all rounds.
    """
    lengths: Counter[int] = Counter()
    for each in generation.rounds:
        depth = len(each.nodes[-1].path) if each.nodes else 0
        lengths.update([len(each.tokens)] if depth == topology.depth else [])
    return {
        "tokens": len(generation.token_ids),
        "rounds": len(generation.rounds),
        "finish": generation.rounds[-1].finish,
        "lengths": [lengths[n] for n in range(max(lengths, default=-1) + 1)],
        **index_counts(generation.rounds, topology)._asdict(),
        "seconds": round(generation.seconds, 3),
    }


def contexts(pair: ModelPair, settings: Settings, job: Job) -> Record:
    """Acceptance by index, its entropy and D_KL, summed over positions spread over one text of the target.

    Entropies and D_KL are in bits. What R misses to 1 counts as one more outcome of its entropy.
    """
    text = generate(pair, **_text(settings, job), method="ar")
    p, q = _distributions(pair, settings, [*text.prompt_ids, *text.token_ids], len(text.prompt_ids))
    k = max(settings.batch)
    counted = {"seed": text.seed, "tokens": len(text.token_ids), "positions": len(p), "k": k}
    kl = float(theory.kl_divergence(p, q).sum())
    record = job.cell | counted | {"kl": kl if math.isfinite(kl) else None}  # JSON has no infinity
    for method in settings.methods:
        by_index = getattr(theory, f"{method}_acceptance_by_index", None)
        if by_index is None:  # other methods have no acceptance by index in closed form
            continue
        rates = by_index(p, q, k)
        outcomes = torch.cat([rates, (1 - rates.sum(-1, keepdim=True)).clamp_min(0)], -1)
        # simulated rates may sum to a little more than 1
        bits = theory.entropy(outcomes / outcomes.sum(-1, keepdim=True))
        acceptance = [round(x, 6) for x in rates.sum(0).tolist()]
        record[method] = {"acceptance": acceptance, "entropy": float(bits.sum())}
    return record


def _distributions(
    pair: ModelPair, settings: Settings, ids: Sequence[int], start: int
) -> tuple[Tensor, Tensor]:
    """P and Q [positions, vocabulary], float64, of the tokens at moments spread evenly from `start` on."""
    room = min(pair.target.context_length, pair.drafting.context_length)
    length = min(len(ids), room) - start
    moments = {start + (2 * i + 1) * length // (2 * settings.positions) for i in range(settings.positions)}
    p, q = (
        torch.cat([scored(model, ids[: n + 1], n, pair, settings.sampling) for n in sorted(moments)])
        for model in (pair.target, pair.drafting)
    )
    return p.double().exp(), q.double().exp()
