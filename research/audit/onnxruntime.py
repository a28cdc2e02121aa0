"""onnxruntime-genai as an engine of the audit, if it is installed. Its own builder converts the pair."""

from __future__ import annotations

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


class Pipeline:
    """A `Sample` of onnxruntime-genai in float32. calls: the target's forwards.

    The models are written below `folder`, which is not needed afterwards. k: drafted tokens in a round; 0
    drafts nothing. Raises ModuleNotFoundError if onnxruntime-genai, onnx or onnx-ir is not installed.
    """

    def __init__(self, pair: Any, folder: Path, k: int):
        self._genai = import_module("onnxruntime_genai")
        if not pair.eos_ids:
            raise ValueError("onnxruntime-genai needs a token that ends a text, and this pair has none")
        target = _converted(pair.target, folder / "target", pair.tokenizer)
        config = json.loads((target / "genai_config.json").read_text())
        config["model"] |= {"eos_token_id": sorted(pair.eos_ids), "pad_token_id": min(pair.eos_ids)}
        if k:
            draft = _converted(pair.draft, folder / "draft", pair.tokenizer)
            drafting = json.loads((draft / "genai_config.json").read_text())["model"]["decoder"]
            config["model"]["draft"] = drafting | {"filename": "../draft/model.onnx"}
            config["speculative"] = {"max_draft_tokens": k}
        (target / "genai_config.json").write_text(json.dumps(config))
        self._drafts, self._model, self.calls = k > 0, self._genai.Model(str(target)), 0

    def __call__(
        self, prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float
    ) -> list[int]:
        """The ids of one text."""
        temperature, top_k, top_p = sampling
        params = self._genai.GeneratorParams(self._model)
        settings: dict[str, Any] = {"do_sample": temperature > 0, "temperature": temperature or 1.0}
        length = len(prompt_ids) + max_new_tokens
        settings |= {"top_k": top_k, "top_p": top_p, "random_seed": seed, "max_length": length}
        params.set_search_options(**settings)
        generator = self._genai.Generator(self._model, params)
        generator.append_tokens(list(prompt_ids))
        while not generator.is_done():
            generator.generate_next_token()
        token_ids = generator.get_sequence(0)[len(prompt_ids) :].tolist()
        statistics = generator.get_speculative_stats() if self._drafts else None
        self.calls += statistics["target_forward_passes"] if statistics else len(token_ids)
        return token_ids


def onnxruntime(pair: Any, k: int) -> Pipeline:
    """The engine on the pair, which is converted here. k: drafted tokens in a round; 0 drafts nothing."""
    with TemporaryDirectory() as place:
        return Pipeline(pair, Path(place), k)


def _converted(model: Any, folder: Path, tokenizer: Any) -> Path:
    """Writes a model as ONNX with the builder of onnxruntime-genai. Returns the folder."""
    source = folder / "source"
    model.module.save_pretrained(source)
    (tokenizer or names(model.module.config.vocab_size)).save_pretrained(source)
    asked = {"-i": source, "-o": folder, "-p": "fp32", "-e": "cpu", "-c": folder / "cache"}
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder"]
    command += [str(part) for option in asked.items() for part in option]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode:
        raise RuntimeError(f"onnxruntime-genai's builder failed: {built.stderr[-400:]}")
    return folder


_VERSIONS = installed("onnxruntime", "onnxruntime-genai")
ENGINES = {
    "onnxruntime": Engine("plain sampling", partial(onnxruntime, k=0), _VERSIONS),
    "onnxruntime-draft": Engine("min(1, p/q), residual", partial(onnxruntime, k=3), _VERSIONS),
}
