"""Decodes with onnxruntime-genai as an engine of the audit. The engine's own builder converts the pair."""

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from research.audit.openvino_graph import names
from specdec.exactness.audit.engines import Engine, installed
from specdec.exactness.audit.run import Counting, Sample, named


def onnxruntime(pair: Any, k: int) -> Sample:
    """A function that decodes with onnxruntime-genai in float32. The call converts the pair.

    k: drafted tokens per round; 0 drafts nothing. ModuleNotFoundError if onnxruntime-genai, onnx or onnx-ir
    is not installed.
    """
    genai = import_module("onnxruntime_genai")
    with TemporaryDirectory() as place:
        model = genai.Model(str(_pipeline(pair, Path(place), k)))

    def sample(prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float) -> Sequence[int]:
        params, length = genai.GeneratorParams(model), len(prompt_ids) + max_new_tokens
        settings = named(sampling) | {"do_sample": sampling[0] > 0, "temperature": sampling[0] or 1.0}
        params.set_search_options(**settings, random_seed=seed, max_length=length)
        generator = genai.Generator(model, params)
        generator.append_tokens(list(prompt_ids))
        while not generator.is_done():
            generator.generate_next_token()
        token_ids = generator.get_sequence(0)[len(prompt_ids) :].tolist()
        statistics = generator.get_speculative_stats() if k else None
        counting.calls += statistics["target_forward_passes"] if statistics else len(token_ids)
        return token_ids

    counting = Counting(sample)
    return counting


def _pipeline(pair: Any, folder: Path, k: int) -> Path:
    """Writes the pair in ONNX format. Returns the target's folder, whose configuration names the draft."""
    if not pair.eos_ids:
        raise ValueError("onnxruntime-genai needs a token that ends a text, and this pair has none")
    target, config = _converted(pair.target, folder / "target", pair.tokenizer)
    config["model"] |= {"eos_token_id": sorted(pair.eos_ids), "pad_token_id": min(pair.eos_ids)}
    if k:
        _, draft = _converted(pair.draft, folder / "draft", pair.tokenizer)
        config["model"]["draft"] = draft["model"]["decoder"] | {"filename": "../draft/model.onnx"}
        config["speculative"] = {"max_draft_tokens": k}
    (target / "genai_config.json").write_text(json.dumps(config), encoding="utf-8")
    return target


def _converted(model: Any, folder: Path, tokenizer: Any) -> tuple[Path, Any]:
    """Writes a model in ONNX format with genai's builder. Returns the folder and the configuration."""
    source = folder / "source"
    model.module.save_pretrained(source)
    (tokenizer or names(model.module.config.vocab_size)).save_pretrained(source)
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-p", "fp32", "-e", "cpu"]
    command += ["-i", str(source), "-o", str(folder), "-c", str(folder / "cache")]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise RuntimeError(f"onnxruntime-genai's builder failed: {process.stderr[-400:]}")
    return folder, json.loads((folder / "genai_config.json").read_bytes())


ENGINES = {
    name: Engine(rule, partial(onnxruntime, k=k), installed("onnxruntime", "onnxruntime-genai"))
    for name, rule, k in (
        ("onnxruntime", "plain sampling", 0),
        ("onnxruntime-draft", "min(1, p/q), residual", 3),
    )
}
