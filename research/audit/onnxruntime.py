"""onnxruntime-genai, where it is installed, as an engine of the audit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from specdec.exactness.audit.engines import Engine, installed
from specdec.exactness.audit.run import Counting, Sample, named
from specdec.models import onnxruntime_genai

if TYPE_CHECKING:
    from specdec.pair import ModelPair


def onnxruntime(pair: ModelPair, drafts: bool, k: int = 3) -> Sample:
    """onnxruntime-genai on the pair, which is converted here.

    drafts: whether the pair's draft takes part, with k tokens in a round.
    """
    with TemporaryDirectory() as place:
        pipeline = onnxruntime_genai.Pipeline(pair, Path(place), k if drafts else 0)

    def sample(prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float) -> Sequence[int]:
        settings = named(sampling) | {"seed": seed, "max_new_tokens": max_new_tokens}
        token_ids, calls = pipeline.generate(prompt_ids, **settings)
        counting.calls += calls
        return token_ids

    counting = Counting(sample)
    return counting


_VERSIONS = installed("onnxruntime", "onnxruntime-genai")
ENGINES = {
    "onnxruntime": Engine("plain sampling", partial(onnxruntime, drafts=False), _VERSIONS),
    "onnxruntime-draft": Engine("min(1, p/q), residual", partial(onnxruntime, drafts=True), _VERSIONS),
}
