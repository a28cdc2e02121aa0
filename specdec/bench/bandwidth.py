"""Computes the share of the memory bandwidth that plain decoding uses: each token reads all weights once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from specdec.bench.contestants import Contestant, now
from specdec.bench.measure import least_seconds
from specdec.models.packed import PackedModel
from specdec.pair import ModelPair

BYTES = 1 << 28
"""Bytes of the copied tensor. They are more than the caches of a processor or a GPU hold."""
COPIES, TIMES = 4, 3
"""The number of copies that are timed together, and how often this is repeated. While one copy runs, the next
copy is launched, so that launching takes no extra time."""

Limits = dict[str, dict[str, float]]


def limits(contestants: Sequence[Contestant], pairs: Mapping[str, ModelPair]) -> Limits:
    """Speed limits of the contestants that decode plainly, by their names.

    `bandwidth` is the measured speed of a copy in memory, in bytes per second. `tokens_per_second` is the
    rate at this bandwidth if each token reads all weights but no keys and values. pairs: by dtype.
    """
    result = {}
    for each in contestants:
        if each.kind != "server" and each.name.endswith("autoregressive"):
            model = pairs[each.dtype].target
            speed = bandwidth(model.device, each.threads)
            if each.kind == "specdec" and isinstance(model, PackedModel):
                num_bytes = model.matrices.read_bytes
            else:
                num_bytes = bytes_per_token(model)
            result[each.name] = {"bandwidth": speed, "tokens_per_second": speed / num_bytes}
    return result


def sentence(rows: Sequence[dict[str, Any]], limits: Limits) -> str:
    """A sentence with the bandwidth and the share of each contestant that decodes plainly."""
    speeds = {name: f"{limit['bandwidth'] / 1e9:,.0f} GB/s" for name, limit in limits.items()}
    shares = {row["name"]: f"{100 * row['bandwidth_share']:.0f}%" for row in rows if row["name"] in limits}
    parts = (f"{name} {share} of {speeds[name]}" for name, share in shares.items())
    return f"speed of reading weights, as a share of the memory bandwidth of a copy: {', '.join(parts)}"


def bytes_per_token(model: Any) -> int:
    """Bytes of weights that a forward pass of a model of transformers reads for one token.

    It reads all weights, but only one row of the embedding if the head has a matrix of its own.
    """
    module = model.module
    embedding, head = module.get_input_embeddings().weight, module.get_output_embeddings().weight
    unread = 0 if embedding is head else embedding.nbytes - embedding[0].nbytes
    return int(sum(parameter.nbytes for parameter in module.parameters()) - unread)


def bandwidth(device: torch.device, threads: int) -> float:
    """The bytes per second that a large copy on a device reads and writes, added up.

    threads: torch's number of threads, which stays set after this call.
    """
    torch.set_num_threads(threads)
    # Ones, because the system may not back pages of zeros with memory.
    source = torch.ones(BYTES, dtype=torch.uint8, device=device)
    target = source.clone()

    def copy() -> None:
        for _ in range(COPIES):
            target.copy_(source)

    seconds = least_seconds({"copy": copy}, TIMES, partial(now, device))["copy"]
    return 2 * BYTES * COPIES / seconds
