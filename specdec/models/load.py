"""Loads models from folders, GGUF files and the hub, without remote code and without pickled weights."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from tqdm import tqdm
from transformers.utils.logging import is_progress_bar_enabled, set_tqdm_hook

from specdec.checks import cause_of
from specdec.models.cached_folders import PACKED
from specdec.models.free_memory import place
from specdec.models.gguf.source import GGUFSource
from specdec.models.hf import HFModel
from specdec.models.kernels.packing import round_matrices
from specdec.models.packed import PackedError, PackedModel
from specdec.models.packed_file import ROUNDED_KINDS
from specdec.models.partial_head import chosen_ids, ends_of, restrict
from specdec.models.passed_checks import files_checksum
from specdec.models.progress import READING, Progress, Report, silent
from specdec.models.rounded_folder import NEEDED, rounded_bytes, rounded_folder
from specdec.models.source import Source, config_problem, find_source

_BROKEN = (
    *(OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError, ArithmeticError),
    *(ImportError, AssertionError, SafetensorError),
)
"""Errors that broken files cause; they become ValueErrors. `report` ends loading by any other error."""

DTYPES = {name: getattr(torch, name) for name in ("float32", "bfloat16", "float16", "float64")}
ROUNDED, FOUR_BITS = ROUNDED_KINDS
"""Names of dtypes: matrices rounded to eight or four bits, inputs to int8 (docs/kernels.md). For a model that
the compiled forward pass does not support, `ROUNDED` means float32 weights, where each matrix row is rounded
to 255 multiples of one step."""
NAMES = (PACKED, *ROUNDED_KINDS, *DTYPES)
"""All names of dtypes except "auto"."""


def load_hf_model(
    name_or_path: str | os.PathLike[str] | Source,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    report: Report = silent,
    output_ids: int | Sequence[int] | None = None,
) -> HFModel:
    """A causal language model from a folder, a GGUF file or the hub. Remote code and pickles are refused.

    device: "auto" (all GPUs with accelerate, else the first GPU, else the CPU), "cpu", "cuda", "cuda:1".
    dtype: "auto" (as it was saved), "float32", "bfloat16", "float16", `PACKED`, `ROUNDED`, `FOUR_BITS` or a
    torch dtype.
    report: is called with the progress of loading; if it raises, loading ends.
    output_ids: the only ids that it scores (see `draft_ids` of `load_pair`); None for all.
    ValueError names the argument or file that does not fit.
    """
    source = name_or_path if isinstance(name_or_path, Source) else find_source(name_or_path)
    placement, read_as = checked_device(device), checked_dtype(dtype)
    packs = packed_bytes(source, device, dtype) is not None
    source.config()  # refuses a broken or unknown model before anything is fetched
    if packs:
        try:
            return _packed(source, _form(dtype), report, output_ids)
        except PackedError:
            if dtype not in ("auto", ROUNDED):
                raise
    folder = source.fetch(report)
    model = _load_to_device(source.name, folder, placement, read_as, report)
    if output_ids is not None:
        restrict(model, chosen_ids(output_ids, len(model.get_output_embeddings().weight), ends_of(model)))
    if dtype == ROUNDED:
        round_matrices(model)
    report(Progress("checking", source.name))
    as_stored = dtype != ROUNDED and output_ids is None and placement == torch.device("cpu")
    name, hidden = _shown_name(source.name), report is not silent or not is_progress_bar_enabled()
    with tqdm(total=1, desc=f"Checking {name}", disable=hidden) as bar:  # transformers' bar would call hooks
        checked = HFModel(model, name, files_checksum(folder) if as_stored else None)
        bar.update()
    return checked


def convert(source: Source, device: str | torch.device, dtype: str | torch.dtype, report: Report) -> None:
    """Converts a GGUF file that will be decoded in few bits. Does nothing for other sources."""
    if isinstance(source, GGUFSource) and packed_bytes(source, device, dtype) is not None:
        source.fetch(report, _form(dtype))


def packed_bytes(source: Source, device: str | torch.device, dtype: str | torch.dtype) -> int | None:
    """Bytes of a model's matrices if it is decoded with weights of few bits, else None.

    Few bits need a CPU with the compiled forward pass, and the dtype `PACKED`, `ROUNDED` or `FOUR_BITS`, or
    "auto" for a GGUF file. ValueError if `dtype` is `PACKED` or `FOUR_BITS`, but that is not supported.
    """
    size: int | None = None
    if on_cpu(device) and dtype in ("auto", PACKED, ROUNDED, FOUR_BITS):
        form = _form(dtype)
        if isinstance(source, GGUFSource):
            size = source.packed_bytes(form)
        elif form in ROUNDED_KINDS:
            size = rounded_bytes(source.config(), form)
    if size is None and dtype in (PACKED, FOUR_BITS):
        raise ValueError(f"{source.name!r} can't be decoded with dtype={dtype!r}: that needs {_TAKES[dtype]}")
    return size


_TAKES = {
    PACKED: "a GGUF file of a Llama, Mistral, Qwen 2 or Qwen 3 with matrices of four to eight bits, and the "
    "compiled forward pass on a CPU",
    FOUR_BITS: f"{NEEDED}; draft_dtype='int8' rounds any draft",
}


def _form(dtype: str | torch.dtype) -> str:
    """The `form` argument of `converted_folder` for a dtype with few bits."""
    return PACKED if dtype == "auto" else str(dtype)


def _packed(source: Source, form: str, report: Report, output_ids: int | Sequence[int] | None) -> HFModel:
    if isinstance(source, GGUFSource):
        folder, path = source.fetch(report, form), source.path
    else:
        path = source.fetch(report).resolve()
        folder = rounded_folder(source.name, path, form, report)
    report(Progress("checking", source.name))
    return PackedModel(folder, _shown_name(source.name), partial(_load_in_bfloat16, path), output_ids)


def _load_in_bfloat16(path: Path) -> transformers.PreTrainedModel:
    """Load the model of a GGUF file or folder in bfloat16."""
    source = find_source(path)
    return _read(source.name, source.fetch(), dtype=torch.bfloat16)


def checked_device(device: str | torch.device, argument: str = "device") -> torch.device | None:
    """The device on which the model is loaded; None if it is spread over all GPUs.

    ValueError names the argument if this machine lacks the device.
    """
    if device == "auto":
        where = place("auto")
        return None if where == "auto" else torch.device(where)
    try:
        placement = torch.device(device)
    except (RuntimeError, TypeError):
        placement = None
    # "mps" is left out: races need float64, which it lacks.
    if placement is None or placement.type not in ("cpu", "cuda"):
        raise ValueError(f'{argument} = {device!r:.60} is none of "auto", "cpu", "cuda", "cuda:1", ...')
    num_devices = 1 if placement.type == "cpu" else torch.cuda.device_count()
    if (placement.index or 0) >= num_devices:
        raise ValueError(
            f'{argument} = {device!r:.60}: this machine has no such device; "cpu" or "auto" work'
        )
    return placement


def on_cpu(device: str | torch.device) -> bool:
    """Whether this `device` means that a model is loaded to the CPU. Errors as for `checked_device`."""
    placement = checked_device(device)
    return placement is not None and placement.type == "cpu"


def checked_dtype(dtype: str | torch.dtype, argument: str = "dtype") -> str | torch.dtype:
    """The dtype in which transformers reads the weights: "auto" or a value of `DTYPES`.

    It is float32 for `ROUNDED`, and "auto" for `PACKED` and `FOUR_BITS`. ValueError names the argument and
    lists the valid dtypes.
    """
    if dtype == ROUNDED:
        return torch.float32
    if dtype in (PACKED, FOUR_BITS):
        return "auto"
    if dtype == "auto" or dtype in DTYPES.values():
        return dtype
    if dtype not in DTYPES:
        raise ValueError(f"{argument} = {dtype!r:.60} is none of auto, {', '.join(NAMES)}")
    return DTYPES[dtype]


@contextmanager
def _weights_reported(name: str, report: Report) -> Iterator[None]:
    """Inside the block, transformers reports each weight that it reads to `report`, and shows no bar.

    If `report` raises, reading ends.
    """

    def reported(_factory: Any, args: tuple, kwargs: dict) -> Iterator[Any]:
        items = list(args[0] if args else kwargs["iterable"])
        for index, item in enumerate(items):
            report(Progress("reading", name, index, len(items)))
            yield item

    report(Progress("reading", name))
    previous = set_tqdm_hook(None if report is silent else reported)
    try:
        yield
    finally:
        set_tqdm_hook(previous)


def _load_to_device(
    name: str, folder: Path, device: torch.device | None, dtype: str | torch.dtype, report: Report
) -> transformers.PreTrainedModel:
    """Loads the model in a folder to this device; None spreads it over all GPUs."""
    with READING, _weights_reported(name, report):
        model = _read(name, folder, dtype=dtype, **({"device_map": "auto"} if device is None else {}))
    if device is not None:
        model.to(device)  # type: ignore[arg-type]  # transformers' decorator hides a method
    return model


def _read(name: str, folder: Path, **options: Any) -> transformers.PreTrainedModel:
    options |= {"use_safetensors": True, "local_files_only": True, "trust_remote_code": False}
    try:
        result: Any = transformers.AutoModelForCausalLM.from_pretrained(
            folder, **options, output_loading_info=True
        )
    except torch.OutOfMemoryError:
        raise
    except _BROKEN as error:
        raise ValueError(_load_problem(name, folder, error)) from error
    model, info = result
    if missing := sorted(info["missing_keys"]):
        # transformers would replace the missing weights with random numbers
        raise ValueError(f"{name!r} lacks {len(missing):,} weights, the first of them {missing[0]!r}")
    return model


def _shown_name(name: str) -> str:
    # Of a folder's path, only the last two names go into records and onto pages, which others may read.
    return "/".join(Path(name).parts[-2:]) if os.path.exists(name) else name


def _load_problem(name: str, folder: Path, error: Exception) -> str:
    text = cause_of(error).replace(str(folder), name)
    if "trust_remote_code" in text or "custom code" in text:
        return config_problem(name, folder, error)
    if isinstance(error, SafetensorError) or "No such file" in text or "ignore_mismatched_sizes" in text:
        return f"{name!r} has weights that are broken, missing or of other sizes than its config: {text}"
    if "safetensors" in text:
        return f"{name!r} has no safetensors weights; pickled ones are never loaded: {text}"
    return f"{name!r} can't be loaded as a causal language model: {text}"
