"""The list of model pairs that the page offers, with the facts that a visitor needs before loading one.

The models of a pair share a vocabulary. Sizes are computed from the architectures, so that the memory is
known before anything is fetched. A test builds the architectures and checks the sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec import coder
from specdec.shipped import CODER

if TYPE_CHECKING:
    from specdec.models.memory import Sizes

DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class KnownModel:
    """A model on the hub. Counts are as in `specdec.models.memory.Sizes`; context is in tokens.

    gated: the visitor must accept its licence on the hub first.
    """

    hub_id: str
    licence: str
    parameters: int
    matrices: int
    cached: int
    vocab_size: int
    context_length: int
    gated: bool = False

    @property
    def shape(self) -> Sizes:
        """The sizes from which the model's memory is computed."""
        from specdec.models.memory import Sizes

        return Sizes(self.parameters, self.matrices, self.cached, self.vocab_size, self.context_length)


@dataclass(frozen=True)
class KnownPair:
    """A target and a draft with one vocabulary. title: its name on the page.

    shipped: the pair's name for `specdec.load_pair`; None for a pair that is loaded by its hub ids. target,
    draft: the facts that the page states about each model; None for a shipped model without such facts.
    """

    name: str
    title: str
    target: KnownModel | None = None
    draft: KnownModel | None = None
    shipped: str | None = None

    @property
    def hub_ids(self) -> tuple[str | None, str | None]:
        """Target and draft, as `specdec.load_pair` takes them."""
        if self.shipped is not None:
            return self.shipped, None
        target, draft = (None if model is None else model.hub_id for model in (self.target, self.draft))
        return target, draft

    @property
    def stored(self) -> int:
        """Bytes to download if both models are stored in bfloat16."""
        return 2 * sum(model.parameters for model in (self.target, self.draft) if model is not None)

    def memory(self, dtype: str, on_cpu: bool) -> int:
        """Bytes of memory for both models in this dtype."""
        from specdec.models.memory import need_of

        models = [model for model in (self.target, self.draft) if model is not None]
        return sum(need_of(model.shape, dtype, on_cpu).total for model in models)


_QWEN3, _LLAMA = 151_936, 128_256
_SMOLLM2_DRAFT = KnownModel(
    "HuggingFaceTB/SmolLM2-135M-Instruct", "Apache 2.0", 134_515_008, 134_479_872, 11_520, 49_152, 8192
)
_SMOLLM2 = KnownModel(
    "HuggingFaceTB/SmolLM2-1.7B-Instruct", "Apache 2.0", 1_711_376_384, 1_711_276_032, 98_304, 49_152, 8192
)
_QWEN3_600M = KnownModel("Qwen/Qwen3-0.6B", "Apache 2.0", 596_049_920, 595_984_384, 57_344, _QWEN3, 40_960)
_QWEN3_8B = KnownModel("Qwen/Qwen3-8B", "Apache 2.0", 8_190_735_360, 7_568_097_280, 73_728, _QWEN3, 40_960)
_QWEN25_DRAFT = KnownModel(
    "Qwen/Qwen2.5-0.5B-Instruct", "Apache 2.0", 494_032_768, 493_961_216, 6_144, _QWEN3, 32_768
)
_QWEN25 = KnownModel(
    "Qwen/Qwen2.5-7B-Instruct", "Apache 2.0", 7_615_616_512, 7_070_285_824, 28_672, 152_064, 32_768
)
_LLAMA_1B = KnownModel(
    "meta-llama/Llama-3.2-1B-Instruct",
    "Llama 3.2 Community",
    *(1_235_814_400, 1_235_746_816, 16_384, _LLAMA, 131_072),
    gated=True,
)
_LLAMA_8B = KnownModel(
    "meta-llama/Llama-3.1-8B-Instruct",
    "Llama 3.1 Community",
    *(8_030_261_248, 7_504_658_432, 65_536, _LLAMA, 131_072),
    gated=True,
)

STORIES = KnownPair("stories", "Stories 15M: instant", shipped="stories")
PAIRS = (
    KnownPair("smollm2", "SmolLM2 135M: chat", _SMOLLM2_DRAFT, shipped="smollm2"),
    STORIES,
    KnownPair(CODER, f"Qwen2.5-Coder 1.5B with 0.5B: code, {coder.SIZE}", shipped=CODER),
    KnownPair("smollm2-1.7b", "SmolLM2 1.7B with 135M", _SMOLLM2, _SMOLLM2_DRAFT),
    KnownPair("qwen2.5-7b", "Qwen2.5 7B with 0.5B", _QWEN25, _QWEN25_DRAFT),
    KnownPair("qwen3-8b", "Qwen3 8B with 0.6B", _QWEN3_8B, _QWEN3_600M),
    KnownPair("llama-3.1-8b", "Llama 3.1 8B with 3.2 1B", _LLAMA_8B, _LLAMA_1B),
)
BY_NAME = {pair.name: pair for pair in PAIRS}
