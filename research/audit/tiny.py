"""Tiny random models in transformers' format, with which any engine decodes thousands of texts quickly.

`models(engine, vocab_size)` returns the target and the draft for the audit of this engine, and the arguments
that make transformers' `generate` use the draft.
"""

from typing import Any
from unittest.mock import patch

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from specdec import ModelPair
from specdec.exactness.audit.transformers import draft_exactly
from specdec.models import HFModel

PROMPT = (1, 2, 1)
TOKENS = 16
DRAFTED = 2  # tokens that transformers drafts in each round
NEAR = ("llama.cpp", "node", "mlx", "sequential")
"""Engines that hardly accept tokens of an unrelated draft. Their draft is the target's first layer."""


def models(engine: str, vocab_size: int = TOKENS) -> tuple[ModelPair, dict[str, Any]]:
    """The pair for the audit of this engine, and the arguments of transformers' `generate` for its draft."""
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
        drafting["assistant_ensemble_weight"] = 0.5  # of the target: lossy by design
    if engine == "transformers-early-exit":
        drafting = {"assistant_early_exit": 1}
        target.generation_config.num_assistant_tokens = DRAFTED
    draft_exactly(drafting.get("assistant_model", target), DRAFTED)
    own = engine in ("transformers-gemma4", "transformers-early-exit")
    pair = ModelPair(HFModel(target), None if own else HFModel(draft))
    if engine.startswith(("onnxruntime", "llama.cpp", "node")):  # these need a token that ends a text
        pair.eos_ids = frozenset({vocab_size - 1})
    return pair, drafting


def llama(vocab_size: int, layers: int, seed: int) -> LlamaForCausalLM:
    """A Llama model with random weights and without a token that ends texts."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=layers,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    torch.nn.init.normal_(model.lm_head.weight, std=0.25)
    return model


def tokenizers(vocab_size: int) -> dict[str, PreTrainedTokenizerFast]:
    """Two tokenizers of words. The draft's has the target's words in reverse order, and one word more."""
    words = [f"w{i}" for i in range(vocab_size)]

    def tokenizer(words: list[str]) -> PreTrainedTokenizerFast:
        level = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0]))
        level.pre_tokenizer = WhitespaceSplit()
        return PreTrainedTokenizerFast(tokenizer_object=level, unk_token=words[0])

    return {"tokenizer": tokenizer(words), "assistant_tokenizer": tokenizer([*words[::-1], "other"])}


def gemma4(vocab_size: int) -> tuple[Any, Any]:
    """A Gemma 4 model and its assistant, with random weights. ImportError if transformers has no Gemma 4."""
    from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM, Gemma4ForCausalLM

    torch.manual_seed(1)
    target = Gemma4ForCausalLM(gemma4_config(vocab_size, 4, 8)).eval()
    config = gemma4_config(vocab_size, 2, 0)
    # transformers 5.23.0 refuses an assistant whose layers all share keys and values, without this property
    sharing = property(lambda config: ["reuse"] * config.num_hidden_layers)
    with patch.object(type(config), "kv_sharing_modes", sharing):
        draft = Gemma4AssistantForCausalLM(
            Gemma4AssistantConfig(text_config=config, backbone_hidden_size=16)
        ).eval()
    for model in (target, draft):
        torch.nn.init.normal_(model.get_input_embeddings().weight, std=0.3)
    return target, draft


def gemma4_config(vocab_size: int, layers: int, per_layer: int) -> Any:
    """A tiny configuration of Gemma 4. per_layer: size of the embeddings that each layer has; 0 for none."""
    from transformers import Gemma4TextConfig

    return Gemma4TextConfig(  # type: ignore[call-arg]
        vocab_size=vocab_size,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=layers,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=16,
        global_head_dim=16,
        hidden_size_per_layer_input=per_layer,
        vocab_size_per_layer_input=per_layer and vocab_size,
        num_kv_shared_layers=2,
        layer_types=["sliding_attention", "full_attention"] * (layers // 2),
        sliding_window=64,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
