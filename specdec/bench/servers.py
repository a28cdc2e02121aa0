"""A running `llama-server` (llama.cpp) as a contestant, which holds the same weights as the pair's target.

    llama-server -m target.gguf -md draft.gguf --spec-type draft-simple --port 8080
    python -m specdec.bench --target smollm2 --chat --server drafting=http://127.0.0.1:8080

The server gets the prompt's token ids, and samples with temperature, top-k and top-p alone. Its own options
decide how it drafts. The time is that of a whole request, as it is that of a whole call for the others.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from specdec.bench.contestants import Contestant, Sample, Workload
from specdec.probs import Sampling

_LONGEST = 600.0
"""Seconds after which an answer is given up."""


def server(option: str, sampling: Sampling, threads: int) -> Contestant:
    """The contestant of an option NAME=URL. ValueError if it has no such form.

    threads: those of our own, shown beside it; the server was started with its own.
    """
    name, equals, url = option.partition("=")
    if not (name and equals and url.startswith(("http://", "https://"))):
        raise ValueError(f"server = {option!r} is not NAME=URL, like plain=http://127.0.0.1:8080")
    return Contestant(f"llama-server {name}", "server", "its own", threads, _completing(url, sampling))


def _completing(url: str, sampling: Sampling) -> Callable[[Workload], Sample]:
    fixed: dict[str, Any] = {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "samplers": ["top_k", "top_p", "temperature"],
        "ignore_eos": True,
        "cache_prompt": False,
    }

    def run(job: Workload) -> Sample:
        asked = fixed | {"prompt": list(job.prompt_ids), "n_predict": job.tokens, "seed": job.seed}
        start = time.perf_counter()
        answer = _posted(f"{url.rstrip('/')}/completion", asked)
        seconds = time.perf_counter() - start
        tokens = answer.get("tokens_predicted")
        if tokens != job.tokens:
            raise ValueError(f"server {url} wrote {tokens} tokens, but {job.tokens} were asked for")
        accepted = answer.get("timings", {}).get("draft_n_accepted", 0)
        return Sample(seconds, None, tokens, max(tokens - accepted, 1), None)

    return run


def _posted(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=_LONGEST) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        raise ValueError(
            f"server {url} answered {error.code}: {error.read(300).decode(errors='replace')}"
        ) from error
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"server {url} gave no answer that can be read: {error}") from error
