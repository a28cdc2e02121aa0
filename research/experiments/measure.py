"""The paper's experiment measures counts of decoded texts, and acceptance at some positions."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from research.experiments.comparison import decoded
from research.experiments.plan import CONTEXTS, KEY, Plan
from research.experiments.settings import Settings
from research.experiments.store import Record
from research.experiments.sweep import Sweep
from research.experiments.texts import Text, distributions
from specdec import theory
from specdec.decoding.run import Run, generate, stream
from specdec.devices import machine
from specdec.pair import ModelPair
from specdec.stats import index_counts
from specdec.topology import Topology
from specdec.trace import Generation


def sweep_of(pair: ModelPair, settings: Settings, at_once: int = 1) -> Sweep:
    """The runs of the paper's experiment, `at_once` texts together. The first rows calibrate all others.

    The seconds of a row are shared with the other runs of its batch.
    """
    trees: dict[str, Topology] = {}

    def cells(rows: Sequence[Record]) -> list[Record]:
        plan = Plan(settings, rows)
        trees.update(plan.trees)
        return plan.cells()

    def run(cell: Record) -> Run:
        text = text_of(settings, cell)
        return stream(pair, method=cell["method"], topology=trees[cell["tree"]], detail=False, **text)

    def measure(cells: Sequence[Record]) -> Iterator[Record]:
        texts = [cell for cell in cells if cell["method"] != CONTEXTS]
        for cell, ended in decoded(pair, texts, run, at_once):
            yield cell | {"seed": ended.seed} | counts(ended.generation, trees[cell["tree"]])
        for cell in cells:
            if cell["method"] == CONTEXTS:
                yield cell | contexts(pair, settings, cell)

    return Sweep(header(pair, settings), KEY, cells, measure)


def header(pair: ModelPair, settings: Settings) -> Record:
    """The first line of a results file: settings, models and versions."""
    models: Record = {"target": pair.target.name, "draft": pair.drafting.name, "vocab_size": pair.vocab_size}
    for name in ("target", "draft"):
        module = getattr(getattr(pair, name), "module", None)
        dtype = str(getattr(module, "dtype", torch.float64)).removeprefix("torch.")
        models |= {f"{name}_dtype": dtype, f"{name}_weights": _fingerprint(module)}
    versions = machine(pair.target.device) | {"numpy": np.__version__}
    versions["device"] = versions.get("gpu", str(pair.target.device))
    return {"settings": settings.to_json(), "pair": models, "versions": versions}


def _fingerprint(module: torch.nn.Module | None) -> str:
    """A digest of the model's norms and biases, which training changes."""
    digest = hashlib.sha256()
    for parameter in () if module is None else module.parameters():
        if parameter.dim() == 1 and not parameter.is_meta:
            digest.update(parameter.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()[:12]


def text_of(settings: Settings, cell: Record) -> dict[str, Any]:
    """The arguments of `stream` that all points share."""
    return {
        "prompt": settings.prompts[cell["prompt"]],
        "max_new_tokens": settings.max_new_tokens,
        **asdict(settings.sampling),
        "seed": settings.seed_of(cell["prompt"], cell["repeat"]),
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


def contexts(pair: ModelPair, settings: Settings, cell: Record) -> Record:
    """Acceptance by index, its entropy and D_KL, summed over positions spread over one text of the target.

    Entropies and D_KL are in bits. What R misses to 1 counts as one more outcome of its entropy.
    """
    g, k = generate(pair, **text_of(settings, cell), method="ar"), max(settings.batch)
    room, start = min(pair.target.context_length, pair.drafting.context_length), len(g.prompt_ids)
    text = Text(cell["prompt"], [*g.prompt_ids, *g.token_ids][:room], start, g.seed)
    length, parts = len(text.ids) - start, 2 * settings.positions
    moments = sorted({number * length // parts for number in range(1, parts, 2)})
    p, q = (each[moments].exp() for each in distributions(pair, text, settings.sampling))
    record: Record = {"seed": g.seed, "tokens": len(g.token_ids), "positions": len(p), "k": k}
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
        acceptance = [round(x, 6) for x in rates.sum(0).tolist()]
        record[method] = {"acceptance": acceptance, "entropy": float(bits.sum())}
    return record
