"""One run of an experiment: decodes a text, or computes acceptance at some positions of one, and counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from research.experiments.plan import ContextJob, Job
from research.experiments.settings import Settings
from research.experiments.store import Record
from specdec import theory
from specdec.decoding.run import Run, generate, stream
from specdec.learn import scored
from specdec.pair import ModelPair
from specdec.stats import index_counts
from specdec.topology import Topology
from specdec.trace import Generation


def measured(
    pair: ModelPair, settings: Settings, jobs: Sequence[Job | ContextJob], at_once: int
) -> Iterator[Record]:
    """Does jobs, `at_once` texts together, and yields each job's line of the results file when it is done.

    The seconds of a line are shared with the other runs of its batch.
    """
    begun: dict[Run, Job] = {}

    def begin() -> Iterator[Run]:
        for job in jobs:
            if isinstance(job, Job):
                (point, topology, _), prompt, repeat = job
                asked = _text(settings, prompt, repeat) | {"method": point.method, "topology": topology}
                run = stream(pair, **asked, detail=False)
                begun[run] = job
                yield run

    # imports transformers, for which the page must not wait
    from specdec.decoding.batch import decode_together

    for run in decode_together(pair, begin(), at_once):
        (point, topology, tree), prompt, repeat = begun.pop(run)
        record = point._asdict() | {"tree": tree, "prompt": prompt, "repeat": repeat, "seed": run.seed}
        yield record | counts(run.generation, topology)
    yield from (contexts(pair, settings, job) for job in jobs if isinstance(job, ContextJob))


def _text(settings: Settings, prompt: int, repeat: int) -> dict[str, Any]:
    return {
        "prompt": settings.prompts[prompt],
        "max_new_tokens": settings.max_new_tokens,
        **asdict(settings.sampling),
        "seed": settings.seed_of(prompt, repeat),
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
    offered, reached, accepted = index_counts(generation.rounds, topology)
    return {
        "tokens": len(generation.token_ids),
        "rounds": len(generation.rounds),
        "finish": generation.rounds[-1].finish,
        "lengths": [lengths[n] for n in range(max(lengths, default=-1) + 1)],
        "offered": offered,
        "reached": reached,
        "accepted": accepted,
        "seconds": round(generation.seconds, 3),
    }


def contexts(pair: ModelPair, settings: Settings, job: ContextJob) -> Record:
    """Acceptance by index, its entropy and D_KL, summed over positions spread over one text of the target.

    Entropies and D_KL are in bits. What R misses to 1 counts as one more outcome of its entropy.
    """
    text = generate(pair, **_text(settings, job.prompt, job.repeat), method="ar")
    p, q = _distributions(pair, settings, [*text.prompt_ids, *text.token_ids], len(text.prompt_ids))
    k = max(settings.batch)
    record: Record = {"method": "contexts", "tree": "", "prompt": job.prompt, "repeat": job.repeat}
    record |= {"seed": text.seed, "tokens": len(text.token_ids), "positions": len(p), "k": k}
    kl = float(theory.kl_divergence(p, q).sum())
    record["kl"] = kl if math.isfinite(kl) else None  # JSON has no infinity
    for method in settings.methods:
        by_index = getattr(theory, f"{method}_acceptance_by_index", None)
        if by_index is None:  # other methods have no acceptance by index in closed form
            continue
        rates = by_index(p, q, k)
        outcomes = torch.cat([rates, (1 - rates.sum(-1, keepdim=True)).clamp_min(0)], -1)
        # simulated rates may sum to a little more than 1
        bits = theory.entropy(outcomes / outcomes.sum(-1, keepdim=True))
        record[method] = {
            "acceptance": [round(x, 6) for x in rates.sum(0).tolist()],
            "entropy": float(bits.sum()),
        }
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
