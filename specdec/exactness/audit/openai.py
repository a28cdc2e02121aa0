"""Servers of the OpenAI completions protocol, and llama.cpp's, as engines of the audit and of the bench."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any

from specdec.exactness.audit.run import Counting, named

SECONDS = 60
"""Seconds that a server may take for one answer."""
SAMPLERS = ("top_k", "top_p", "temperature")
"""The samplers that llama.cpp must apply. Its other samplers would change the distribution."""


def completions(url: str, prompt: str | None = None, seconds: float = SECONDS, **options: Any) -> Counting:
    """A server of the OpenAI completions protocol, or of llama.cpp. url: the server's address up to `/v1`.

    llama.cpp returns token ids only at the address without `/v1`. prompt: the text to send; None sends token
    ids. seconds: how long an answer may take. options: entries of every request, such as `model`.

    A call returns the answer's token ids if it has them: `token_ids` (vLLM with return_token_ids) or `tokens`
    (llama.cpp with return_tokens). If not, or if their list is empty but the text is not, a call returns the
    text. ConnectionError, with the server's words, if the server refuses or if its answer is no completion.
    Forward passes are counted if the answer says how many drafted tokens were accepted, as llama.cpp's
    answers do.
    """

    def sample(
        prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float
    ) -> Sequence[int] | str:
        request = {"prompt": list(prompt_ids) if prompt is None else prompt, "seed": seed}
        request |= {"max_tokens": max_new_tokens, "return_token_ids": True, "return_tokens": True}
        answer, completion = _completed(f"{url}/completions", request | named(sampling) | options, seconds)
        timings = answer.get("timings", {})
        counting.calls += timings.get("predicted_n", 0) - timings.get("draft_n_accepted", 0)
        return completion

    counting = Counting(sample)
    return counting


def posted(address: str, fields: dict[str, Any], seconds: float) -> bytes:
    """A server's answer to a JSON request. ConnectionError if it refuses, or is silent for `seconds`."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(fields).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        raise ConnectionError(f"{address} refused, {error.code}: {error.read()!r:.200}") from None
    except (OSError, HTTPException) as error:  # no server, a timeout, or an incomplete answer
        raise ConnectionError(f"{address} did not answer: {getattr(error, 'reason', error)}") from None


def _completed(
    address: str, fields: dict[str, Any], seconds: float
) -> tuple[dict[str, Any], Sequence[int] | str]:
    """A server's answer, and the token ids or the text of its first choice."""
    body = posted(address, fields, seconds)
    try:
        parsed = json.loads(body)
        choice = parsed.get("choices", [parsed])[0]
        entries, text = (choice.get(name) for name in ("token_ids", "tokens")), choice.get("text")
        token_ids = next((entry for entry in entries if entry is not None), None)
        completion = text if token_ids is None or (text and not token_ids) else token_ids
        if isinstance(completion, str | list):
            return parsed, completion
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    raise ConnectionError(f"{address} answered {body!r:.200}, which is not a completion")


def llama(url: str, **options: Any) -> Counting:
    """A server of llama.cpp, or a compatible one, that applies only temperature, top-k and top-p.

    url, options: as in `completions`.
    """
    return completions(url, samplers=SAMPLERS, min_p=0.0, cache_prompt=False, **options)
