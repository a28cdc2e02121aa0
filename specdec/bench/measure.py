"""Runs all contestants in turn on the same prompts, so that other work on the machine slows all of them
equally."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TypeVar

import psutil
import torch

from specdec.bench.contestants import Contestant, Sample, Workload

Samples = dict[str, list[Sample]]
Candidate = tuple[str, int, Callable[[Workload], Sample]]
"""A setting in a trial: a dtype, a number of threads, and the function that decodes."""
Name = TypeVar("Name", bound=Hashable)
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def interleaved(
    contestants: Sequence[Contestant],
    jobs: Sequence[Workload],
    progress: Callable[[str], None] = lambda _: None,
) -> Samples:
    """Samples by contestant's name, in the order of the jobs. Another contestant begins at each next job."""
    samples: Samples = {each.name: [] for each in contestants}
    for i, job in enumerate(jobs):
        start = i % len(contestants)
        for each in (*contestants[start:], *contestants[:start]):
            samples[each.name].append(run(each, job))
        progress(f"{i + 1} of {len(jobs)}")
    return samples


def run(contestant: Contestant, job: Workload) -> Sample:
    """Run a contestant once, with torch set to the contestant's number of threads."""
    if torch.get_num_threads() != contestant.threads:
        torch.set_num_threads(contestant.threads)
    return contestant.run(job)


def peaks(contestants: Sequence[Contestant], job: Workload, device: torch.device) -> dict[str, int]:
    """Peak memory in bytes of one more run, by contestant's name: of the whole process, or of the GPU.

    The models of all contestants are in memory, so only differences between contestants are meaningful. A
    server has no figure.
    """
    peak_bytes = {}
    for each in contestants:
        if each.kind == "server":
            continue
        _reset_peak(device)
        run(each, job)
        peak_bytes[each.name] = _peak(device)
    return peak_bytes


def fastest(
    kind: str, candidates: Mapping[str, Candidate], jobs: Sequence[Workload]
) -> tuple[Contestant, dict[str, float]]:
    """The candidate with the most tokens per second in a short trial, and all candidates' median rates.

    A single candidate needs no trial, so the rates are empty.
    """
    contestants = [Contestant(name, kind, *candidate) for name, candidate in candidates.items()]
    if len(contestants) == 1:
        return contestants[0], {}
    for each in contestants:
        run(each, jobs[0]._replace(tokens=min(8, jobs[0].tokens)))
    samples = interleaved(contestants, jobs)
    rates = {name: median(s.tokens / s.seconds for s in runs) for name, runs in samples.items()}
    return max(contestants, key=lambda each: rates[each.name]), rates


def least_seconds(
    work: Mapping[Name, Callable[[], object]], times: int, clock: Callable[[], float]
) -> dict[Name, float]:
    """For each piece of work, by name, the seconds of its fastest run. All pieces are run in turn, `times`
    times. clock: returns the time in seconds."""
    least = dict.fromkeys(work, float("inf"))
    for _ in range(times):
        for name, run_once in work.items():
            start = clock()
            run_once()
            least[name] = min(least[name], clock() - start)
    return least


def _reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):  # without a reset, the peak counts from the start of the process
        _RESET.write_text("5", encoding="utf-8")


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if _STATUS.exists():
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
        line = next(line for line in lines if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    now = psutil.Process().memory_info()
    return getattr(now, "peak_wset", now.rss)  # systems other than Linux and Windows report no peak
