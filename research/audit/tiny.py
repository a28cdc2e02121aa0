"""Tiny random models of transformers, on which thousands of texts of any engine are quick.

`models(engine, vocab_size)` is the pair of an engine and transformers' arguments for its draft.
"""

from __future__ import annotations

from typing import Any

from specdec.exactness.audit.transformers import draft_exactly
from specdec.models import HFModel
from specdec.models.tiny import gemma4, llama, tokenizers
from specdec.pair import ModelPair

PROMPT = (1, 2, 1)
TOKENS = 16
DRAFTED = 2
"""Tokens that transformers drafts in each round."""
NEAR = ("llama.cpp", "node", "mlx", "sequential")
"""Engines whose draft is the target's first layer. They hardly accept the tokens of another draft."""
WEIGHT = 0.5
"""The target's weight in transformers' ensemble, which is lossy by design."""


def models(engine: str, vocab_size: int = TOKENS) -> tuple[ModelPair, dict[str, Any]]:
    """The pair that an engine of this name is audited on, and arguments of transformers' `generate`."""
    if engine == "transformers-gemma4":
        target, draft = gemma4(vocab_size)
    else:
        target, draft = llama(vocab_size, layers=2, seed=1), llama(vocab_size, layers=1, seed=2)
    drafting: dict[str, Any] = {"assistant_model": draft}
    if engine.startswith(NEAR):
        draft.load_state_dict(target.state_dict(), strict=False)
    if engine == "transformers-universal":
        drafting |= {"assistant_model": llama(vocab_size + 1, layers=1, seed=2)} | tokenizers(vocab_size)
    if engine == "transformers-ensemble":
        drafting["assistant_ensemble_weight"] = WEIGHT
    if engine == "transformers-early-exit":
        drafting = {"assistant_early_exit": 1}
        target.generation_config.num_assistant_tokens = DRAFTED
    draft_exactly(drafting.get("assistant_model", target), DRAFTED)
    own = engine in ("transformers-gemma4", "transformers-early-exit")
    pair = ModelPair(HFModel(target), None if own else HFModel(draft))
    if engine.startswith(("onnxruntime", "llama.cpp", "node")):  # they need a token that ends a text
        pair.eos_ids = frozenset({vocab_size - 1})
    return pair, drafting
