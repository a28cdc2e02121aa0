"""The contestants, transformers' own decoding and ours, each as a function from a `Workload` to a `Sample`.

All generate the same number of tokens, because no token ends a text in the bench. A time is the time of a
whole call, including the prompt's prefill.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any, NamedTuple, cast

import torch
from transformers import PreTrainedModel

from specdec.decoding.run import generate
from specdec.exactness.audit.transformers import assisting, draft_exactly
from specdec.pair import ModelPair
from specdec.probs import Sampling
from specdec.topology import Topology
from specdec.trace import Method

STAGES = ("draft", "target", "verify", "rest")


class Workload(NamedTuple):
    """A text to generate: its prompt, its seed, and the number of new tokens."""

    prompt_ids: list[int]
    seed: int
    tokens: int


class Sample(NamedTuple):
    """The result of a timed run.

    stages: seconds by stage; None if measuring them would slow the run. cpu_seconds: processor time of all
    threads; None if another process decodes. paths: the draft tree, if it was the same in all rounds.
    """

    seconds: float
    cpu_seconds: float | None
    tokens: int
    target_calls: int
    stages: dict[str, float] | None
    paths: tuple[tuple[int, ...], ...] | None = None


class Contestant(NamedTuple):
    """A way to decode, with its dtype and number of threads.

    kind: "transformers", "server" or "specdec".
    """

    name: str
    kind: str
    dtype: str
    threads: int
    run: Callable[[Workload], Sample]


@contextmanager
def _timed(model: PreTrainedModel | None) -> Iterator[list[float]]:
    """Yields a list to which the seconds of each forward pass of the model inside the block are added."""
    seconds: list[float] = []

    def begin(*_: Any) -> None:
        seconds.append(-time.perf_counter())

    def end(*_: Any) -> None:
        seconds[-1] += time.perf_counter()

    with ExitStack() as hooks:
        if model is not None:
            hooks.callback(model.register_forward_pre_hook(begin).remove)
            hooks.callback(model.register_forward_hook(end).remove)
        yield seconds


def without_end(pair: ModelPair) -> ModelPair:
    """The pair, changed so that no token ends a text, not even in transformers."""
    pair.eos_ids = frozenset()
    models: tuple[Any, ...] = (pair.target, pair.draft)
    for model in models:
        if model is not None:
            model.module.generation_config.eos_token_id = None
    return pair


def ours(
    pair: ModelPair, method: Method, topology: Topology | str | None, sampling: Sampling, **options: Any
) -> Callable[[Workload], Sample]:
    """A function that decodes with specdec. options: further arguments of `specdec.generate`.

    topology: with "auto", the function's first run, which is not timed, learns about the pair.
    """

    def run(job: Workload) -> Sample:
        start, cpu_start = time.perf_counter(), time.process_time()
        settings: dict[str, Any] = {"method": method, "topology": topology} | options
        settings |= {"max_new_tokens": job.tokens, "seed": job.seed}
        generation = generate(pair, job.prompt_ids, **settings, **asdict(sampling))
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        parts = [round.seconds for round in generation.rounds]
        stages = {
            "draft": sum(part.draft for part in parts),
            "target": sum(part.evaluate for part in parts),
            "verify": sum(part.verify for part in parts),
        }
        stages["rest"] = seconds - sum(stages.values())
        paths = None if generation.trees else generation.paths  # "auto" may have had several trees
        return Sample(seconds, cpu_seconds, len(generation.token_ids), len(parts), stages, paths)

    return run


def theirs(pair: ModelPair, sampling: Sampling, **options: Any) -> Callable[[Workload], Sample]:
    """A function that runs transformers' `generate`. options: those that choose how to draft."""
    model: Any = cast(Any, pair.target).module
    draft = options.get("assistant_model")
    arguments = {"do_sample": True} | asdict(sampling) if sampling.temperature else {"do_sample": False}
    arguments |= {"use_cache": True, "pad_token_id": 0} | options

    def run(job: Workload) -> Sample:
        ids = torch.tensor([job.prompt_ids], device=pair.target.device)
        torch.manual_seed(job.seed)
        with torch.inference_mode(), _timed(model) as of_target, _timed(draft) as of_draft:
            start, cpu_start = now(ids.device), time.process_time()
            output = model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=job.tokens, **arguments
            )
            seconds, cpu_seconds = now(ids.device) - start, time.process_time() - cpu_start
        stages = {"draft": sum(of_draft), "target": sum(of_target), "verify": 0.0}
        stages["rest"] = seconds - sum(stages.values())
        tokens = output.shape[1] - ids.shape[1]
        # on a GPU a forward pass returns as soon as it is launched, so its time is not known
        known_stages = stages if ids.device.type == "cpu" else None
        return Sample(seconds, cpu_seconds, tokens, len(of_target), known_stages)

    return run


def assisted(pair: ModelPair, sampling: Sampling, k: int) -> Callable[[Workload], Sample]:
    """A function that runs transformers' assisted generation with k drafted tokens in every round."""
    arguments = assisting(pair)
    run = theirs(pair, sampling, **arguments)

    def with_k(job: Workload) -> Sample:
        draft_exactly(arguments["assistant_model"], k)  # set here, because all k share one draft
        return run(job)

    return with_k


def prompt_lookup(pair: ModelPair, sampling: Sampling, k: int) -> Callable[[Workload], Sample]:
    """A function that runs transformers' prompt lookup, which copies k tokens from the text so far."""
    return theirs(pair, sampling, prompt_lookup_num_tokens=k)


def now(device: torch.device) -> float:
    """The time in seconds, read after a GPU has finished all launched work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
