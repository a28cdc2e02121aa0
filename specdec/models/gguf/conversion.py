"""Converts a GGUF file to a folder that transformers loads: configuration, safetensors and tokenizer.

The folder lies in a private cache. It is written under another name, with a list of its files and their
checksums, and renamed when it is complete. A folder that does not match its list is made again, and that of a
replaced file is removed. Matrices are rounded to bfloat16, unless the file holds them in 32 bits, or in 16
bits for an architecture of `CONFIGS`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, PreTrainedConfig

from specdec.checksum import quick_checksum
from specdec.models.gguf.header import BrokenFileError, Header, read_header
from specdec.models.gguf.keys import check_keys
from specdec.models.gguf.packed import write_packed
from specdec.models.gguf.tokenizer import check_tokenizer, ends_of, tokenizer_of
from specdec.models.gguf.weights import CONFIGS, config_of, dtype_of, names_of, weights_of
from specdec.models.memory import without_weights
from specdec.models.progress import READING
from specdec.private_cache import make_private, private_folder

VERSION = 3
"""Of the conversion: another one makes its folders anew."""
LIST = "files.json"
"""Names, sizes and checksums of all files of a folder, written last."""
_SOME, _IN_A_ROW = 64, 1 << 12
"""Places of a file, and bytes at each, that are compared before its folder in the cache is used."""
SHARD = 1 << 30
"""Bytes of a file of weights."""


def read_config(path: Path, header: Header) -> PreTrainedConfig:
    """The configuration of the model in a file; BrokenFileError if a key is neither used nor ignored."""
    if header.architecture in CONFIGS:
        config = _checked_config(path, header)
    else:
        options = {"gguf_file": path.name}
        config = _transformers(lambda: AutoConfig.from_pretrained(path.parent, **options), header)
        window = header.keys.get(f"{header.architecture}.attention.sliding_window")
        if header.architecture == "phi3" and window is not None:
            config.sliding_window = window  # transformers' reader leaves it out
    _transformers(lambda: check_keys(header, config), header)
    _transformers(lambda: check_tokenizer(header), header)
    return config


def kept(path: Path, packed: bool = False) -> Path | None:
    """The folder of a file's model, if the cache has it as it was written."""
    folder = _cache() / _name(path, packed)
    return folder if whole(folder) else None


def converted(
    path: Path, report: Any, packed: bool = False, header: Callable[[], Header] | None = None
) -> Path:
    """The folder of a file's model, from the cache or made now.

    packed: with the matrices in the blocks of the compiled forward (`packed`) instead of safetensors.
    header: reads the file's header; it is called if the folder is made now.
    report(done, total): called with the number of converted tensors. If several processes ask for one folder
    at the same time, one converts and the others wait. BrokenFileError if the file's content does not match
    its header.
    """
    from filelock import FileLock

    cache = _cache()
    folder = cache / _name(path, packed)
    of_path = folder.name.split("-")[0]
    with FileLock(cache / f"{of_path}.lock", mode=0o600):
        if whole(folder):
            return folder
        for old in cache.glob(f"{of_path}-*"):  # damaged, or of a file that lay there before
            shutil.rmtree(old, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=cache))
        try:
            _convert(path, header() if header else read_header(path), new, report, packed)
            (new / LIST).write_text(json.dumps(_listed(new)))
            make_private(new)
            new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return folder


def whole(folder: Path) -> bool:
    """Whether a converted folder exists and holds exactly the files that were written."""
    try:
        listed = json.loads((folder / LIST).read_text())
        sizes = all((folder / name).stat().st_size == size for name, (size, _) in listed.items())
        return sizes and all(quick_checksum(folder / name) == own for name, (_, own) in listed.items())
    except (OSError, ValueError, TypeError, AttributeError):
        return False


def _convert(path: Path, header: Header, folder: Path, report: Any, packed: bool) -> None:
    """Writes the files of a model into an empty folder."""
    config = read_config(path, header)
    if header.architecture in CONFIGS:
        if packed:
            write_packed(path, header, config, folder, report)
        else:
            _write_weights(folder, weights_of(path, header, config), len(header.tensors), report)
        config.save_pretrained(folder)
    else:
        own = dtype_of(header)
        # activations of some of these architectures, such as Gemma's, are too large for float16
        dtype = torch.bfloat16 if own is torch.float16 else own
        read = {"gguf_file": path.name, "dtype": dtype, "config": config}
        with READING:
            model = _transformers(lambda: _dequantised(path.parent, read), header)
        model.save_pretrained(folder, max_shard_size=SHARD)
    GenerationConfig(eos_token_id=ends_of(header) or None).save_pretrained(folder)
    _transformers(lambda: tokenizer_of(header), header).save_pretrained(folder)


def _dequantised(folder: Path, options: dict[str, Any]) -> Any:
    from transformers import GgufConfig

    return AutoModelForCausalLM.from_pretrained(
        folder, **options, quantization_config=GgufConfig(dequantize=True)
    )


def _checked_config(path: Path, header: Header) -> PreTrainedConfig:
    """The configuration of a file; BrokenFileError if the file's tensors do not fit it."""
    config = _transformers(lambda: config_of(path, header), header)

    def build() -> dict[str, tuple[int, ...]]:
        return {name: tuple(value.shape) for name, value in without_weights(config).state_dict().items()}

    wanted = _transformers(build, header)
    if config.tie_word_embeddings:
        wanted.pop("lm_head.weight", None)
    names = names_of(header)
    have = {names[tensor.name]: tensor.shape for tensor in header.tensors if tensor.name in names}
    for name in sorted(wanted.keys() | have.keys()):
        if wanted.get(name) != have.get(name):
            raise BrokenFileError(
                f"has {name} of shape {have.get(name)}; its keys describe a model with {wanted.get(name)}"
            )
    return config


def _write_weights(
    folder: Path, weights: Iterator[tuple[str, torch.Tensor]], count: int, report: Any
) -> None:
    """Writes tensors to files of at most `SHARD` bytes, or of one larger tensor.

    Several files get an index.
    """
    shards: list[list[str]] = []
    held: dict[str, torch.Tensor] = {}

    def write() -> None:
        save_file(held, folder / f"shard-{len(shards)}", metadata={"format": "pt"})
        shards.append(list(held))
        held.clear()

    for number, (name, tensor) in enumerate(weights):
        report(number, count)
        if held and sum(each.nbytes for each in held.values()) + tensor.nbytes > SHARD:
            write()
        held[name] = tensor
    write()
    if len(shards) == 1:
        (folder / "shard-0").rename(folder / "model.safetensors")
        return
    files = [f"model-{number + 1:05}-of-{len(shards):05}.safetensors" for number in range(len(shards))]
    for number, file in enumerate(files):
        (folder / f"shard-{number}").rename(folder / file)
    total = sum((folder / file).stat().st_size for file in files)
    index = {name: file for file, names in zip(files, shards, strict=True) for name in names}
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": index})
    )


def _transformers(read: Any, header: Header) -> Any:
    """The result of transformers' own code; BrokenFileError with its error in one line."""
    try:
        return read()
    except (BrokenFileError, ImportError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        cause = " ".join(str(error).split()) or type(error).__name__
        raise BrokenFileError(
            f"of the architecture {header.architecture!r:.40} can't be read: {cause:.300}"
        ) from error


@lru_cache(maxsize=1)
def _cache() -> Path:
    """The private cache. Without one: a folder that this process removes when it ends."""
    folder = private_folder("gguf")
    if folder is not None:
        return folder
    temporary = tempfile.TemporaryDirectory(prefix="specdec-gguf-")
    _temporary_folders.append(temporary)
    return Path(temporary.name)


_temporary_folders: list[Any] = []


def _name(path: Path, packed: bool) -> str:
    """The name of the folder with a file's converted weights: a part for its path and one for its content.

    A file that has changed gets another name, also if its size and its time of change are the same: no
    program can set `st_ctime_ns`. Where a system has none, some bytes of the file tell another model.
    """
    status = path.stat()
    times = status.st_mtime_ns, status.st_ctime_ns
    about = (str(path.resolve()), packed), (VERSION, status.st_size, *times, _some_bytes(path))
    return "-".join(hashlib.sha256(repr(part).encode()).hexdigest()[:24] for part in about)


def _some_bytes(path: Path) -> str:
    """SHA-256 of `_SOME` places of a file, from its header on."""
    total = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        for number in range(_SOME):
            file.seek(path.stat().st_size * number // _SOME)
            total.update(file.read(_IN_A_ROW))
    return total.hexdigest()


def _listed(folder: Path) -> dict[str, tuple[int, str]]:
    files = [file for file in folder.iterdir() if file.is_file()]
    return {file.name: (file.stat().st_size, quick_checksum(file)) for file in files}
