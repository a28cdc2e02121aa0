"""Converts a GGUF file to a folder with its configuration, its weights (safetensors) and its tokenizer.

The folder lies in a private cache (`cached_folders`). Without a `form`, matrices are written in bfloat16. But
they stay float32 if all of them are, and float16 if all of them are and `CONFIGS` has the architecture.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, GenerationConfig, GgufConfig, PreTrainedConfig

from specdec.models.gguf.header import BrokenFileError, Header
from specdec.models.gguf.keys import check_keys
from specdec.models.gguf.tokenizer import check_tokenizer, ends_of, tokenizer_of
from specdec.models.gguf.weights import (
    CONFIGS,
    check_shapes,
    config_of,
    dtype_of,
    names_of,
    stored,
    weights_of,
)
from specdec.models.packed_file import ROUNDED_KINDS, write_packed, write_tensors
from specdec.models.progress import READING
from specdec.models.weight_files import WEIGHTS


def read_config(path: Path, header: Header) -> PreTrainedConfig:
    """The configuration of the model in a file. BrokenFileError if it can't express all keys of the file."""
    with _explained(header):
        if header.architecture in CONFIGS:
            config = config_of(path, header)
            names = names_of(header, config)
            check_shapes(
                {names[each.name]: each.shape for each in header.tensors if each.name in names}, config
            )
        else:
            config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
            window = header.keys.get(f"{header.architecture}.attention.sliding_window")
            if header.architecture == "phi3" and window is not None:
                config.sliding_window = window  # transformers' reader omits the window
        check_keys(header, config)
        check_tokenizer(header)
    return config


def write_converted(path: Path, header: Header, folder: Path, report: Any, form: str) -> None:
    """Converts a model and writes its weights, configuration and tokenizer into an empty folder.

    form: see `converted_folder`. report(done, total): called with the number of converted tensors.
    BrokenFileError if the file's content does not match its header.
    """
    config = read_config(path, header)
    if header.architecture in CONFIGS:
        if form:
            write_packed(folder, stored(path, header, config), ROUNDED_KINDS.get(form), report)
        else:

            def tensors() -> Iterator[tuple[str, list[torch.Tensor]]]:
                for number, (name, tensor) in enumerate(weights_of(path, header, config)):
                    report(number, len(header.tensors))
                    yield name, [tensor]

            write_tensors(folder / WEIGHTS, tensors(), len(header.tensors), lambda: {"format": "pt"})
        config.save_pretrained(folder)
    else:
        own = dtype_of(header)
        # activations of some of these architectures, such as Gemma's, are too large for float16
        dtype = torch.bfloat16 if own is torch.float16 else own
        options = {"dtype": dtype, "config": config, "quantization_config": GgufConfig(dequantize=True)}
        options |= {"gguf_file": path.name, "output_loading_info": True}
        with READING, _explained(header):
            result: Any = transformers.AutoModelForCausalLM.from_pretrained(path.parent, **options)
        model, info = result
        if missing := sorted(info["missing_keys"]):  # transformers fills these with random numbers
            raise BrokenFileError(f"lacks {len(missing):,} weights, the first of them {missing[0]!r}")
        model.save_pretrained(folder)
    GenerationConfig(eos_token_id=ends_of(header) or None).save_pretrained(folder)
    with _explained(header):
        tokenizer = tokenizer_of(header)
    tokenizer.save_pretrained(folder)


@contextmanager
def _explained(header: Header) -> Iterator[None]:
    """Turns errors of transformers' own code into a BrokenFileError, whose message has one line."""
    try:
        yield
    except (BrokenFileError, ImportError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        cause = " ".join(str(error).split()) or type(error).__name__
        raise BrokenFileError(
            f"of the architecture {header.architecture!r:.40} can't be read: {cause:.300}"
        ) from error
