"""Loading models from folders and hubs: safetensors only, never remote code, errors that name the cause."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM

from specdec.models.hf import HFModel

DTYPES = {name: getattr(torch, name) for name in ("float32", "bfloat16", "float16", "float64")}


def load_hf_model(
    name_or_path: str | os.PathLike[str],
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    **kwargs,
) -> HFModel:
    """A causal language model from a local folder or the hub, from safetensors and without remote code.

    device: "auto" (all GPUs where there are any, else the CPU), "cpu", "cuda", "cuda:1".
    dtype: "auto" (as it was saved), "float32", "bfloat16", "float16" or a torch dtype. Further
    arguments go to `from_pretrained`. Raises ValueError naming what does not fit.
    """
    placement = _placement(device)
    folder = os.fspath(name_or_path)
    if os.path.isdir(folder):
        _check_folder(Path(folder))
    elif _looks_like_path(folder):
        raise ValueError(
            f"{folder!r} is not there; give a folder with config.json and model.safetensors, or a hub id"
        )
    options = {"dtype": _checked_dtype(dtype), "use_safetensors": True, "trust_remote_code": False}
    if placement is None:
        options["device_map"] = "auto"
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            folder, **(kwargs | options), output_loading_info=True
        )
    except torch.OutOfMemoryError:
        raise
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ValueError(_load_problem(folder, error)) from error
    if missing := sorted(info["missing_keys"]):
        # transformers would go on with random numbers in their place
        raise ValueError(f"{folder!r} lacks {len(missing):,} weights, the first of them {missing[0]!r}")
    # where a folder lies on this machine is nobody else's business: records and pages show its last names
    name = "/".join(Path(folder).parts[-2:]) if os.path.isdir(folder) else folder
    return HFModel(model if placement is None else model.to(placement), name=name)


def _placement(device: str | torch.device) -> torch.device | None:
    """The device to load to; None to spread the model over the GPUs."""
    if device == "auto":
        return None if torch.cuda.is_available() else torch.device("cpu")
    try:
        placement = torch.device(device)
    except (RuntimeError, TypeError):
        placement = None
    # "mps" has no float64, in which races are run
    if placement is None or placement.type not in ("cpu", "cuda"):
        raise ValueError(f'device = {device!r} is none of "auto", "cpu", "cuda", "cuda:1", ...')
    there = 1 if placement.type == "cpu" else torch.cuda.device_count()
    if (placement.index or 0) >= there:
        raise ValueError(f'device = {device!r}: this machine has no such device; "cpu" or "auto" work')
    return placement


def _checked_dtype(dtype: str | torch.dtype) -> str | torch.dtype:
    if dtype == "auto" or dtype in DTYPES.values():
        return dtype
    if dtype not in DTYPES:
        raise ValueError(f"dtype = {dtype!r} is none of auto, {', '.join(DTYPES)}")
    return DTYPES[dtype]


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "~", os.sep)) or name.count("/") > 1 or os.path.exists(name)


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise ValueError(f"folder {str(folder)!r} has no config.json: it holds no Hugging Face model")
    if any(folder.glob("*.safetensors")):
        return
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
        raise ValueError(
            f"folder {str(folder)!r} holds pickled weights, which can run code when loaded; "
            "save the model again as safetensors (save_pretrained does)"
        )
    raise ValueError(f"folder {str(folder)!r} has no weights: model.safetensors is missing")


def _load_problem(name: str, error: Exception) -> str:
    text = next(iter(str(error).splitlines()), type(error).__name__)
    if "trust_remote_code" in text or "custom code" in text:
        return f"{name!r} needs code of its own, which is never run; choose a model that transformers knows"
    if isinstance(error, SafetensorError) or "No such file" in text or "ignore_mismatched_sizes" in text:
        return f"{name!r} has weights that are broken, missing or of other sizes than its config: {text}"
    if "safetensors" in text:
        return f"{name!r} has no safetensors weights; pickled ones are never loaded: {text}"
    if isinstance(error, OSError) and not os.path.isdir(name):
        return f"{name!r} is not a local folder, and not found on the hub, or the hub is out of reach: {text}"
    return f"{name!r} can't be loaded as a causal language model: {text}"
