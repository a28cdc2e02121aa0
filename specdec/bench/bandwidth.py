"""How near plain decoding comes to what memory allows: each token reads all of the target's weights once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from specdec.bench.contestants import Contestant, now
from specdec.pair import ModelPair

BYTES = 1 << 28
"""Of the copied tensor: more than any cache of a processor or a GPU holds."""
COPIES, TIMES = 4, 3
"""Copies that are timed together, so that launching one hides behind another, and how often."""

Limits = dict[str, dict[str, float]]


def limits(contestants: Sequence[Contestant], pairs: Mapping[str, ModelPair]) -> Limits:
    """By name, for each that decodes plainly: `bandwidth` of memory in bytes per second, that of a copy, and
    the `tokens_per_second` that it allows. pairs: by dtype.

    What a token reads is counted as the weights alone, without keys and values.
    """
    found = {}
    for each in contestants:
        if each.name.endswith("autoregressive"):
            model = pairs[each.dtype].target
            speed = bandwidth(model.device, each.threads)
            found[each.name] = {"bandwidth": speed, "tokens_per_second": speed / bytes_per_token(model)}
    return found


def with_shares(rows: Sequence[dict[str, Any]], limits: Limits) -> list[dict[str, Any]]:
    """The rows, those with a limit with `bandwidth_share`: what they reach of it. Their rates are of whole
    calls, so the prompt's prefill is part of them."""
    return [
        row | {"bandwidth_share": row["tokens_per_second"] / limits[row["name"]]["tokens_per_second"]}
        if row["name"] in limits
        else row
        for row in rows
    ]


def line(rows: Sequence[dict[str, Any]], limits: Limits) -> str:
    """The shares in words."""
    speeds = {name: f"{limit['bandwidth'] / 1e9:,.0f} GB/s" for name, limit in limits.items()}
    shares = {row["name"]: f"{100 * row['bandwidth_share']:.0f}%" for row in rows if row["name"] in limits}
    told = (f"{name} {share} of {speeds[name]}" for name, share in shares.items())
    return f"weights read, as a share of memory bandwidth (a copy's): {', '.join(told)}"


def bytes_per_token(model: Any) -> int:
    """Bytes of weights that a forward reads for a token: all, but one row only of an embedding of its own."""
    module = model.module
    embedding, head = module.get_input_embeddings().weight, module.get_output_embeddings().weight
    unread = 0 if embedding is head else embedding.nbytes - embedding[0].nbytes
    return int(sum(parameter.nbytes for parameter in module.parameters()) - unread)


def bandwidth(device: torch.device, threads: int) -> float:
    """Bytes per second that a large copy on a device reads and writes. threads: of a CPU, which stay set."""
    torch.set_num_threads(threads)
    # not zeros, which a CPU need not have in memory
    source = torch.ones(BYTES, dtype=torch.uint8, device=device)
    target = source.clone()
    seconds = min(_seconds(source, target) for _ in range(TIMES))
    return 2 * BYTES * COPIES / seconds


def _seconds(source: torch.Tensor, target: torch.Tensor) -> float:
    start = now(source.device)
    for _ in range(COPIES):
        target.copy_(source)
    return now(source.device) - start
