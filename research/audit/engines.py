"""All engines that `research.audit` examines, by name."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from research.audit import llama_cpp, mlx, onnxruntime, openvino, sequential
from specdec import ModelPair
from specdec.exactness.audit.engines import Engine, installed
from specdec.exactness.audit.engines import engines as users_engines
from specdec.exactness.audit.run import Sample
from specdec.exactness.audit.transformers import assisted, transformers

_DRAFTING = {
    "transformers-assisted": "min(1, p/q), residual",
    "transformers-universal": "min(1, p/q), residual; two tokenizers",
    "transformers-early-exit": "min(1, p/q), residual; the draft is the first layer",
    "transformers-gemma4": "min(1, p/q), residual; a greedy draft",
    "transformers-ensemble": "min(1, w p/q + 1 - w), residual; w = 0.5, lossy by design",
}
"""The verification rules of transformers' ways to draft, by name. `tiny.models` gives their arguments."""


def engines(url: str = "", drafting: Mapping[str, Any] | None = None, batch: int = 1) -> dict[str, Engine]:
    """All engines by name, including those of `specdec audit`. url: address of a server.

    drafting: transformers' arguments for the draft; None takes those of the pair's draft. batch: how many
    texts OpenVINO, or a server that this command starts, decodes at once.
    """

    def draft(name: str, pair: ModelPair) -> Sample:
        if drafting is not None:
            return transformers(pair, **drafting)
        if name != "transformers-assisted":
            raise ValueError(f"{name} is audited on random models only; leave out --target and --draft")
        return assisted(pair)

    versions = installed("transformers", "torch")
    of_transformers = {name: Engine(rule, partial(draft, name), versions) for name, rule in _DRAFTING.items()}
    ours = users_engines(url) | of_transformers | llama_cpp.engines(batch) | mlx.ENGINES
    return ours | sequential.ENGINES | openvino.engines(batch) | onnxruntime.ENGINES
