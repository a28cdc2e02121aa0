"""The tensors of a GGUF file for the compiled forward, which reads them in the bits that the file has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from transformers import PreTrainedConfig

from specdec.models.converted_folders import PACKED
from specdec.models.gguf.header import Header
from specdec.models.gguf.rows import PLAIN
from specdec.models.gguf.weights import CONFIGS, names_of
from specdec.models.kernels.layout import GROUP, QUANTISED
from specdec.models.packed_file import Stored


def can_be_packed(header: Header, form: str) -> bool:
    """Whether all matrices of a file can be packed, in a form of `folder_name`.

    In their own bits, that pays where some have four to eight.
    """
    matrices = [tensor for tensor in header.tensors if len(tensor.shape) == 2]
    types = {tensor.type for tensor in matrices}
    if header.architecture not in CONFIGS or not types <= {*QUANTISED, *PLAIN}:
        return False
    if form == PACKED:
        return bool(types & set(QUANTISED))
    return all(tensor.shape[1] % GROUP == 0 for tensor in matrices)


def packed_bytes(header: Header) -> int:
    """Bytes of memory that the matrices of a file take."""
    return sum(tensor.nbytes for tensor in header.tensors)


def stored(path: Path, header: Header, config: PreTrainedConfig) -> Iterator[Stored]:
    """The tensors of a file whose names transformers knows."""
    names, data = names_of(header), np.memmap(path, mode="r")
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for tensor in header.tensors:
        if tensor.name in names:
            raw = data[tensor.start : tensor.start + tensor.nbytes].reshape(tensor.shape[0], -1)
            part = tensor.name.split(".")[-2]
            reordered = heads.get(part) if header.architecture == "llama" else None
            yield Stored(names[tensor.name], tensor.type, tensor.shape, raw, reordered)
