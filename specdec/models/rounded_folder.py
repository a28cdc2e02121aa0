"""A folder with a model's matrices rounded to four or eight bits, for the compiled forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn
from transformers import AutoConfig, GenerationConfig, PreTrainedConfig

from specdec.checks import cause_of
from specdec.models.cached_folders import converted_folder, made
from specdec.models.gguf.fields import PLAIN
from specdec.models.gguf.header import BrokenFileError
from specdec.models.gguf.weights import Stored, check_shapes
from specdec.models.kernels.compiled import expected
from specdec.models.kernels.layout import GROUP, QUANTISED
from specdec.models.lean import has_window
from specdec.models.memory import tensor_shapes
from specdec.models.outline import Outline
from specdec.models.packed_file import EMBEDDING, HEAD, ROUNDED_KINDS, write_packed
from specdec.models.progress import Progress, Report
from specdec.models.weight_files import named_files

NEEDED = (
    "a Llama, Mistral, Qwen 2 or Qwen 3 whose widths are multiples of 32, without a sliding window, and the "
    "compiled forward pass on a CPU"
)
"""A phrase that says which models can be rounded."""
_TYPES = {getattr(torch, name): kind for kind, name in PLAIN.items()}


def rounded_bytes(config: PreTrainedConfig, form: str) -> int | None:
    """Bytes of a model's rounded matrices; None if the compiled forward pass does not support the model.

    form: a key of `ROUNDED_KINDS`.
    """
    if not expected() or has_window(config) or getattr(config, "hidden_act", "silu") != "silu":
        return None
    try:
        parts = Outline(config, {}).modules()
    except Exception:  # for example impossible sizes, which loading refuses later
        return None
    matrices = [part.weight for part in parts if isinstance(part, nn.Linear)]
    if any(matrix.shape[1] % GROUP for matrix in matrices):
        return None
    kind = QUANTISED[ROUNDED_KINDS[form]]
    numbers = sum(matrix.numel() for matrix in matrices)
    embedding = 2 * config.vocab_size * config.hidden_size  # it is not rounded; mostly 16 bits
    return numbers * (kind.bits * GROUP + 16) // (8 * GROUP) + embedding


def rounded_folder(name: str, folder: Path, form: str, report: Report) -> Path:
    """The folder with the rounded matrices of a model, from the cache or made now.

    name: the model's name in messages. form: a key of `ROUNDED_KINDS`. ValueError if a file is broken, the
    weights do not fit the configuration, or the disk is full.
    """
    files = [folder / file for file in named_files(folder, name)]
    texts = [file for file in (folder / "config.json", folder / "generation_config.json") if file.is_file()]

    def write(new: Path) -> None:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)

        def tell(done: int, total: int) -> None:
            report(Progress("converting", name, done, total))

        tensors = list(_stored(files, config))
        check_shapes({tensor.name: tensor.shape for tensor in tensors}, config)
        write_packed(new, tensors, ROUNDED_KINDS[form], tell)
        config.save_pretrained(new)
        if texts[1:]:
            GenerationConfig.from_pretrained(folder).save_pretrained(new)
        else:
            GenerationConfig.from_model_config(config).save_pretrained(new)

    try:
        return made(converted_folder(folder, form, [*files, *texts]), write)
    except BrokenFileError as error:
        raise ValueError(f"{name!r} {error}") from error
    except (OSError, ValueError, TypeError, RuntimeError, SafetensorError) as error:
        cause = cause_of(error).replace(str(folder), name)
        raise ValueError(f"{name!r} can't be rounded to {form}: {cause}") from error


def _stored(files: list[Path], config: PreTrainedConfig) -> Iterator[Stored]:
    """The tensors in these files that belong to a model of this configuration, mapped into memory."""
    tensors = {name: tensor for file in files for name, tensor in load_file(file).items()}
    if not any(name.startswith("model.") for name in tensors):  # saved without the output layer
        tensors = {name if name == HEAD else f"model.{name}": tensor for name, tensor in tensors.items()}
    if config.tie_word_embeddings and EMBEDDING not in tensors and HEAD in tensors:
        tensors[EMBEDDING] = tensors[HEAD]
    expected = tensor_shapes(config)
    for name, tensor in tensors.items():
        if name not in expected:
            continue
        if tensor.dtype == torch.float64:
            tensor = tensor.float()
        if tensor.dtype not in _TYPES:
            raise BrokenFileError(f"has {name} in {tensor.dtype}; only floating-point numbers are rounded")
        raw = tensor.reshape(len(tensor), -1).view(torch.uint8).numpy()
        yield Stored(name, _TYPES[tensor.dtype], tuple(tensor.shape), raw)
