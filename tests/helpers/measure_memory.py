"""Prints the estimated and the largest measured memory, in bytes, of a model with 27 M parameters."""

from __future__ import annotations

import tempfile
import threading
import time

import psutil
import torch
import transformers

import specdec
from specdec.models import load_hf_model
from specdec.models.memory import need_of, shape_of

SIZES = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 2, "num_attention_heads": 8}


def taken() -> int:
    """Bytes of this process that it shares with no other."""
    return psutil.Process().memory_full_info().uss


def watch(most: list[int]) -> None:
    while True:
        most.append(max(taken(), most.pop()))
        time.sleep(0.005)


def main() -> None:
    torch.set_num_threads(1)
    config = transformers.LlamaConfig(
        vocab_size=40_000, **SIZES, max_position_embeddings=2048, eos_token_id=None, tie_word_embeddings=True
    )
    embedded = specdec.load_pair("stories")  # the first use of libraries takes memory too
    specdec.generate(embedded, "Once upon a time", max_new_tokens=4, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        transformers.LlamaForCausalLM(config).save_pretrained(folder)
        before, most = taken(), [0]
        threading.Thread(target=watch, args=(most,), daemon=True).start()
        model = load_hf_model(folder, device="cpu")
        pair = specdec.ModelPair(model, model)
        tree = specdec.topology.batch(64)
        specdec.generate(pair, list(range(1500)), topology=tree, max_new_tokens=4, seed=0)
        print(need_of(shape_of(config), "float32", on_cpu=True).total, most[0] - before)


if __name__ == "__main__":
    main()
