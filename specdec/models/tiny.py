"""Tiny models of transformers with random weights, and two tokenizers of words."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


def llama(vocab_size: int, layers: int, seed: int) -> LlamaForCausalLM:
    """A Llama model with random weights, which no token ends."""
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
    """Two tokenizers of words: the draft has the target's words in reverse order, and one of its own."""
    words = [f"w{i}" for i in range(vocab_size)]

    def tokenizer(words: list[str]) -> PreTrainedTokenizerFast:
        level = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0]))
        level.pre_tokenizer = WhitespaceSplit()
        return PreTrainedTokenizerFast(tokenizer_object=level, unk_token=words[0])

    return {"tokenizer": tokenizer(words), "assistant_tokenizer": tokenizer([*words[::-1], "other"])}


def gemma4(vocab_size: int) -> tuple[Any, Any]:
    """A Gemma 4 model and its assistant, with random weights. Transformers 5 before Gemma 4: ImportError."""
    from transformers import (
        Gemma4AssistantConfig,
        Gemma4AssistantForCausalLM,
        Gemma4ForCausalLM,
        Gemma4TextConfig,
    )

    def config(layers: int, extra: int) -> Any:
        return Gemma4TextConfig(  # type: ignore[call-arg]
            vocab_size=vocab_size,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=layers,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=16,
            global_head_dim=16,
            hidden_size_per_layer_input=extra,
            vocab_size_per_layer_input=extra and vocab_size,
            num_kv_shared_layers=2,
            layer_types=["sliding_attention", "full_attention"] * (layers // 2),
            sliding_window=64,
            max_position_embeddings=256,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=0,
        )

    torch.manual_seed(1)
    target = Gemma4ForCausalLM(config(4, 8)).eval()
    # 5.23.0 refuses to build an assistant, all of whose layers share keys and values: this says that they do
    sharing = property(lambda asked: ["reuse"] * asked.num_hidden_layers)
    with patch.object(Gemma4TextConfig, "kv_sharing_modes", sharing):
        draft = Gemma4AssistantForCausalLM(
            Gemma4AssistantConfig(text_config=config(2, 0), backbone_hidden_size=16)
        )
    for model in (target, draft.eval()):
        torch.nn.init.normal_(model.get_input_embeddings().weight, std=0.3)
    return target, draft
