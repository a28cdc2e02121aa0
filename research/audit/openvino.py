"""openvino-genai, where it is installed, as an engine of the audit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch

from specdec.exactness.audit.engines import Engine, installed
from specdec.exactness.audit.run import Sample, named
from specdec.models.openvino import Pipeline, convert_pair

if TYPE_CHECKING:
    from specdec.pair import ModelPair


def engines(folders: Sequence[str] = (), batch: int = 1) -> dict[str, Engine]:
    """The engines by name. folders: converted target and draft; without, the pair is converted.

    batch: texts that are decoded at once.
    """
    rules = {"openvino": "plain sampling", "openvino-draft": "min(1, p/q), residual"}
    versions = installed("openvino", "openvino-genai")
    start = partial(_on_pair, folders, batch)
    return {name: Engine(rule, partial(start, name), versions) for name, rule in rules.items()}


def _on_pair(folders: Sequence[str], batch: int, name: str, pair: ModelPair) -> Sample:
    drafts = name.endswith("-draft")
    with TemporaryDirectory() as place:
        folders = folders or convert_pair(pair, Path(place))
        if drafts and len(folders) < 2:
            raise ValueError(f"{name}: there is no draft beside {folders[0]}")
        dtype = getattr(getattr(pair.target, "module", None), "dtype", None)
        precision = "bf16" if dtype == torch.bfloat16 else "f32"
        return openvino(folders[0], folders[1] if drafts else None, precision=precision, batch=batch)


def openvino(
    folder: str | Path, draft: str | Path | None = None, k: int = 3, precision: str = "f32", batch: int = 1
) -> Sample:
    """openvino-genai on the converted model in this folder.

    draft: folder of a draft; k: its tokens per round. precision and batch: see `Pipeline`.
    """
    pipeline = Pipeline(folder, draft, precision)

    def sample(prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float) -> Sequence[int]:
        settings = named(sampling) | {"seed": seed, "max_new_tokens": max_new_tokens}
        return pipeline.generate(prompt_ids, k=k, batch=batch, **settings)

    return sample
