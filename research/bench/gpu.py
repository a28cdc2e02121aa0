"""Measures the costs of a round on a GPU: forward passes of any width, launches, transfers, waits.

`python -m research.bench --synthetic 8b --device cuda` measures this after its comparison of contestants.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from specdec import ModelPair, generate, generate_many, optimal_topology
from specdec.bench.contestants import Workload, now
from specdec.commands import columns
from specdec.models import HFModel
from specdec.models.lean import LeanDecoder
from specdec.topology import sequence

NODES = (0, 1, 2, 4, 8, 16, 32, 64, 128, 384)  # drafted tokens of the trees whose forwards are timed
RATES = (0.6, 0.15, 0.08, 0.05, 0.03)  # the acceptance by child index for which these trees are optimal
PREFIX = 256  # committed tokens before each timed tree
REPEATS, WARM = 15, 3  # timed and untimed repetitions of a forward pass
TEXTS = (1, 8, 40)  # the numbers of texts that are decoded together
ONE_BY_ONE = "one by one"
VARIANTS = ("graphs", ONE_BY_ONE)
"""How a forward pass is launched: as CUDA graphs of our fused kernels, or with torch's kernels one by one."""
METHODS: dict[str, dict[str, Any]] = {
    "plain": {"method": "ar"},
    "GSD sequence(4)": {"method": "gsd", "topology": sequence(4)},
    "ERSD sequence(4)": {"method": "ersd", "topology": sequence(4)},
}
PROFILED = 12  # tokens of the profiled text; a profile of more tokens takes minutes
MOST_KERNELS = 25  # kernels whose time is in the result
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


def figures(pair: ModelPair, job: Workload, texts: Sequence[int] = TEXTS) -> dict[str, Any]:
    """The figures of forward passes, rounds, kernels and batches of a pair. job: the text to decode."""
    models: dict[str, Any] = {"target": pair.target, "draft": pair.draft}
    found: dict[str, Any] = {"forwards_ms": {name: [] for name in models}, "rounds": {}, "kernels": {}}
    for variant in VARIANTS:
        with launched(variant, *models.values()):
            for name, model in models.items():
                found["forwards_ms"][name].append({"launched": variant} | forwards(model))
            for name, settings in METHODS.items():
                per_round, kernels = rounds(pair, job, settings)
                found["rounds"][f"{name}, {variant}"] = per_round
                found["kernels"][f"{name}, {variant}"] = kernels
    at_once = {name: together(pair, job, settings, texts) for name, settings in METHODS.items()}
    return found | {"together": at_once}


@contextmanager
def launched(variant: str, *models: Any) -> Iterator[None]:
    """Inside the block, forward passes are launched in this variant, one of `VARIANTS`."""
    decoders = [model.decoder for model in models if isinstance(model.decoder, LeanDecoder)]
    with ExitStack() as stack:
        for decoder in decoders if variant == ONE_BY_ONE else ():
            stack.enter_context(patch.object(decoder, "graphs", None))
        yield


def forwards(model: HFModel) -> dict[int, float]:
    """Median milliseconds of a forward pass over the root and a tree, by the number of drafted tokens."""
    return {
        nodes: _forward_ms(model, [-1, *optimal_topology(RATES, nodes).parents[1:]] if nodes else [-1])
        for nodes in NODES
    }


def _forward_ms(model: HFModel, parents: Sequence[int]) -> float:
    session, times = model.session(), []
    session.prefill([3] * PREFIX)
    token_ids = torch.full((len(parents),), 5, device=model.device)
    for _ in range(WARM + REPEATS):
        start = now(model.device)
        session.forward(token_ids, parents)
        times.append(now(model.device) - start)
        session.commit([])
    return 1000 * median(times[WARM:])


def rounds(
    pair: ModelPair, job: Workload, settings: Mapping[str, Any]
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Figures per round of decoding one text: milliseconds, launches, copies to the host, and waits of the
    host. Also a row for each of the kernels that take the most time of the GPU."""

    def decode(tokens: int) -> Any:
        return generate(pair, job.prompt_ids, max_new_tokens=tokens, seed=job.seed, **settings)

    device = pair.target.device
    decode(job.tokens)  # the first run captures CUDA graphs, so it is not timed
    start = now(device)
    run = decode(job.tokens)
    seconds = now(device) - start
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        count = len(decode(PROFILED).rounds)
        now(device)
    events = profiler.events()
    on_host = [event.name for event in events if event.device_type == DeviceType.CPU]
    on_device = [event for event in events if event.device_type == DeviceType.CUDA]
    profiled = {
        "kernel launches": sum("LaunchKernel" in name for name in on_host),
        "graph launches": on_host.count("cudaGraphLaunch"),
        "kernels": sum("Mem" not in event.name for event in on_device),
        "copies to the host": sum("Memcpy DtoH" in event.name for event in on_device),
        "waits of the host": sum(name in WAITS for name in on_host),
        "ms of the GPU": sum(event.time_range.elapsed_us() for event in on_device) / 1000,
    }
    stages = {
        f"ms, {name}": 1000 * sum(getattr(round.seconds, name) for round in run.rounds)
        for name in ("draft", "evaluate", "verify", "rest")
    }
    timed = {"ms": 1000 * seconds, "tokens": len(run.token_ids)} | stages
    per_round = {name: total / count for name, total in profiled.items()}
    per_round |= {name: total / len(run.rounds) for name, total in timed.items()}
    return per_round, _kernels(on_device, count)


def _kernels(events: Sequence[Any], count: int) -> list[dict[str, Any]]:
    """The kernels that take the most time, each with its milliseconds and its calls per round."""
    times: dict[str, list[float]] = {}
    for event in events:
        times.setdefault(event.name[:100], []).append(event.time_range.elapsed_us() / 1000)
    most = sorted(times.items(), key=lambda item: -sum(item[1]))[:MOST_KERNELS]
    return [{"name": name, "ms": sum(ms) / count, "calls": len(ms) / count} for name, ms in most]


def together(
    pair: ModelPair, job: Workload, settings: Mapping[str, Any], texts: Sequence[int]
) -> dict[int, float]:
    """Tokens per second of all texts together, by the number of texts that are decoded at once."""
    result = {}
    for number in texts:
        seeds = [job.seed + i for i in range(number)]
        for _ in range(2):  # the first pass captures graphs
            start = time.perf_counter()
            runs = generate_many(
                pair, [job.prompt_ids] * number, seeds=seeds, max_new_tokens=job.tokens, **settings
            )
            seconds = now(pair.target.device) - start
        result[number] = sum(len(run.token_ids) for run in runs) / seconds
    return result


def table(found: Mapping[str, Any]) -> str:
    """The figures as tables in Markdown."""
    tables = {"per round": found["rounds"], "tokens/s of texts together": found["together"]}
    for model, rows in found["forwards_ms"].items():
        by_launch = {row["launched"]: {nodes: row[nodes] for nodes in NODES} for row in rows}
        tables[f"ms of the {model}'s forward"] = by_launch
    parts = []
    for title, by_name in tables.items():
        heads = [title, *map(str, next(iter(by_name.values())))]
        lines = [[name, *(f"{value:.2f}" for value in row.values())] for name, row in by_name.items()]
        parts.append(columns([heads, *lines], markdown=True))
    return "\n\n".join(parts)
