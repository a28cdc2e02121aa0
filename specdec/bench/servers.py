"""A running `llama-server` (llama.cpp) as a contestant. It must have the same weights as the pair's target.

    llama-server -m target.gguf -md draft.gguf --spec-type draft-simple --port 8080
    python -m specdec.bench --target smollm2 --chat --server drafting=http://127.0.0.1:8080

The server gets the prompt's token ids, and samples only with temperature, top-k and top-p. Its own options
decide how it drafts. Its time is that of a whole request; other contestants' time is that of a whole call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple

from specdec.bench.contestants import Contestant, Sample, Workload
from specdec.exactness.audit.openai import llama
from specdec.probs import Sampling

_LONGEST = 600.0
"""Seconds after which the contestant stops waiting for an answer."""


def server(option: str, sampling: Sampling, threads: int) -> Contestant:
    """The contestant for an option NAME=URL. ValueError if the option has another form.

    threads: the number of our threads, which the table shows; the server has its own number.
    """
    name, equals, url = option.partition("=")
    if not (name and equals and url.startswith(("http://", "https://"))):
        raise ValueError(f"server = {option!r} is not NAME=URL, such as plain=http://127.0.0.1:8080")
    return Contestant(f"llama-server {name}", "server", "its own", threads, _completing(url, sampling))


def _completing(url: str, sampling: Sampling) -> Callable[[Workload], Sample]:
    sample = llama(url.rstrip("/"), seconds=_LONGEST, ignore_eos=True)

    def run(job: Workload) -> Sample:
        start, calls = time.perf_counter(), sample.calls
        completion = sample(job.prompt_ids, job.seed, job.tokens, *astuple(sampling))
        seconds = time.perf_counter() - start
        if len(completion) != job.tokens:
            raise ValueError(f"server {url} wrote {len(completion)} tokens, but {job.tokens} were requested")
        return Sample(seconds, None, job.tokens, max(sample.calls - calls, 1), None)

    return run
