"""Servers of llama.cpp and node-llama-cpp, started on a pair's GGUF files, as engines of the audit."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
import weakref
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from research.audit.writing import write
from specdec import ModelPair
from specdec.exactness.audit.engines import Engine
from specdec.exactness.audit.openai import llama
from specdec.exactness.audit.run import Sample

SECONDS = 120  # the longest time that a server may take to start
_DRAFT = ("--spec-type", "draft-simple", "-md", "{draft}")
_NGRAM = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "1", "--spec-ngram-simple-size-m", "2")
_RULES = {  # by name: the verification rule, and the options of llama-server
    "llama.cpp": ("plain sampling",),
    "llama.cpp-draft": ("a greedy draft is accepted where it is the target's sample", *_DRAFT),
    "llama.cpp-p-min": (
        "a greedy draft, likewise; unlikely and short drafts are dropped",
        *(*_DRAFT, "--spec-draft-p-min", "0.2", "--spec-draft-n-min", "2"),
    ),
    "llama.cpp-ngram": ("a copy is accepted where it is the target's sample", *_NGRAM),
    "node-llama-cpp": ("plain sampling",),
    "node-llama-cpp-draft": ("a sampled draft is accepted where it is the target's sample",),
}
_FLOAT32 = ("-fa", "off", "-ctk", "f32", "-ctv", "f32", "-ctkd", "f32", "-ctvd", "f32")
_ONE_THREAD = ("-t", "1", "-td", "1", "-lv", "2")


def engines(slots: int = 1) -> dict[str, Engine]:
    """The engines by name. slots: how many texts each server decodes at once."""
    return {
        name: Engine(rule, partial(served, name, slots=slots), partial(version, name.partition("-")[0]))
        for name, (rule, *_) in _RULES.items()
    }


def served(name: str, pair: ModelPair, slots: int = 1) -> Sample:
    """Starts llama.cpp's server or node-llama-cpp with the pair, and returns the function that decodes.

    The server is the function's attribute `process`, and ends when the function is deleted. Matrices of
    bfloat16 stay in bfloat16. name: the engine's name. slots: how many texts the server decodes at once.
    """
    family = name.partition("-")[0]
    command: list[Any] = [program(family)]
    place = TemporaryDirectory()
    folder = Path(place.name)
    files = {role: str(folder / f"{role}.gguf") for role in ("target", "draft")}
    for role, path in files.items():
        _write(Path(path), getattr(pair, role).module, min(pair.eos_ids))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    if family == "node":
        command = ["node", Path(__file__).with_name("node_llama.mjs"), *command, port, files["target"]]
        command += [files["draft"]] if name.endswith("-draft") else []
    else:
        command += ["-m", files["target"], "--host", "127.0.0.1", "--port", port]
        command += [*_FLOAT32, *_ONE_THREAD, "-np", str(slots), "-c", str(256 * slots)]
        command += [option.format(**files) for option in _RULES[name][1:]]
    sample: Any = llama(f"http://127.0.0.1:{port}")
    with (folder / "log").open("w") as output:
        sample.process = subprocess.Popen(command, stdout=output, stderr=output)
    weakref.finalize(sample, _end, sample.process, place)
    if not _answers(f"http://127.0.0.1:{port}/health", sample.process):
        raise RuntimeError(f"the server did not start: {(folder / 'log').read_text(encoding='utf-8')[-400:]}")
    return sample


def program(kind: str) -> Path:
    """The path of the program llama-server (named by LLAMA_SERVER, or found on PATH), or of the folder of the
    package node-llama-cpp (named by NODE_LLAMA_CPP). ModuleNotFoundError if it is missing."""
    variable = {"llama.cpp": "LLAMA_SERVER", "node": "NODE_LLAMA_CPP"}[kind]
    path = os.environ.get(variable) or (shutil.which("llama-server") if kind == "llama.cpp" else None)
    if not path or not Path(path).exists():
        raise ModuleNotFoundError(f"{kind} was not found: set {variable} to its path (docs/audit.md)")
    return Path(path).resolve()


def version(kind: str) -> dict[str, str]:
    """The version of a server as {name of its package: version}."""
    try:
        path = program(kind)
    except ModuleNotFoundError:
        return {kind: "not installed"}
    if kind == "node":
        return {"node-llama-cpp": json.loads((path / "package.json").read_bytes())["version"]}
    process = subprocess.run([path, "--version"], capture_output=True, text=True)
    return {"llama.cpp": (process.stdout + process.stderr).partition("version: ")[2].partition("\n")[0]}


def _answers(address: str, process: subprocess.Popen[bytes]) -> bool:
    """Waits until a server answers. False if it ends before that, or takes longer than `SECONDS`."""
    due = time.monotonic() + SECONDS
    while time.monotonic() < due and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=SECONDS):
                return True
        except OSError:
            time.sleep(0.1)
    return False


def _write(path: Path, model: Any, end: int) -> None:
    tokens = ["Ċ", *map(chr, range(ord("a"), ord("a") + model.config.vocab_size - 1))]  # Ċ: a new line
    write(path, model, tokens, ["a b"], kind="BF16" if model.dtype == torch.bfloat16 else "F32", end=end)


def _end(process: subprocess.Popen[bytes], place: TemporaryDirectory[str]) -> None:
    process.terminate()
    process.wait()
    place.cleanup()
