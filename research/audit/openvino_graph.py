"""Converts a decoder of transformers to an OpenVINO graph in the form that openvino-genai requires.

The model is traced with keys and values as inputs and outputs. OpenVINO turns each input and its output into
a state. The inputs have the names of optimum's exports: input_ids, attention_mask, position_ids and beam_idx.
"""

import copy
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from specdec.models.cache import cache_argument
from specdec.models.other_tokenizer import OtherTokenizerModel

INPUTS = ("input_ids", "attention_mask", "position_ids")


class _Past(DynamicCache):
    """A cache of keys and values that enter a traced model as inputs and leave it as outputs.

    past: the keys and the values of each layer, [batch, key-value heads, length, head size].
    """

    def __init__(self, past: tuple[Tensor, ...]):
        super().__init__()
        self._past = past
        self.grown: list[Tensor] = []

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        keys = torch.cat([self._past[2 * layer_idx], key_states], 2)
        values = torch.cat([self._past[2 * layer_idx + 1], value_states], 2)
        self.grown += [keys, values]
        return keys, values


class _Traced(nn.Module):
    """A decoder as a function of tensors. It returns logits, and the keys and values of all tokens."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, *past: Tensor
    ) -> tuple[Tensor, ...]:
        cache, places = _Past(past), torch.arange(attention_mask.shape[1])[None, None, None]
        mask = (places <= position_ids[:, None, :, None]) & (attention_mask[:, None, None] > 0)
        inputs = {"attention_mask": mask, "position_ids": position_ids, cache_argument(self.model): cache}
        return self.model(input_ids=input_ids, **inputs, use_cache=True).logits, *cache.grown


def convert(model: Any, folder: Path, tokenizer: PreTrainedTokenizerBase | None = None) -> Path:
    """Write a `PreTrainedModel` in float32: a decoder without sliding windows and without recurrent states.

    tokenizer: pipelines with a draft need one; None makes one with a name for each token (`names`).
    ModuleNotFoundError without openvino and openvino_tokenizers.
    """
    openvino = import_module("openvino")
    # The trace is made in float32, with torch's own attention.
    plain = copy.deepcopy(model).float().eval()
    plain.config._attn_implementation = "sdpa"
    graph = _graph(openvino, plain)
    folder.mkdir(parents=True, exist_ok=True)
    openvino.save_model(graph, folder / "openvino_model.xml", compress_to_fp16=False)
    plain.config.save_pretrained(folder)
    tokenizers = import_module("openvino_tokenizers").convert_tokenizer(
        tokenizer or names(plain.config.vocab_size), with_detokenizer=True
    )
    for part, name in zip(tokenizers, ("tokenizer", "detokenizer"), strict=True):
        openvino.save_model(part, folder / f"openvino_{name}.xml")
    return folder


def convert_pair(pair: Any, folder: Path) -> list[str]:
    """Write a pair's target, and its draft if it has one, below this folder; return their folders.

    ValueError if the draft has another tokenizer.
    """
    if isinstance(pair.draft, OtherTokenizerModel):
        raise ValueError(f"{pair.draft.name} lacks the target's tokenizer, which OpenVINO requires")
    roles = ("target", "draft") if pair.draft is not None else ("target",)
    return [str(convert(getattr(pair, role).module, folder / role, pair.tokenizer)) for role in roles]


def _graph(openvino: Any, model: Any) -> Any:
    heads, size = model.config.num_key_value_heads, model.model.layers[0].self_attn.head_dim
    parts = [f"{i}.{part}" for i in range(model.config.num_hidden_layers) for part in ("key", "value")]
    past = [torch.zeros(2, heads, 3, size) for _ in parts]
    ids_and_mask = torch.zeros(2, 2, dtype=torch.int64), torch.ones(2, 5, dtype=torch.int64)
    with torch.no_grad():
        example = (*ids_and_mask, torch.tensor([[3, 4]] * 2), *past)
        graph = openvino.convert_model(_Traced(model), example_input=example)
    reads, writes = [f"past_key_values.{part}" for part in parts], [f"present.{part}" for part in parts]
    ports = zip([*graph.inputs, *graph.outputs], [*INPUTS, *reads, "logits", *writes], strict=True)
    for port, name in ports:
        port.get_tensor().set_names({name})
    for parameter in graph.get_parameters():
        rank = len(parameter.get_output_partial_shape(0))
        shape = [-1, heads, -1, size] if rank == 4 else [-1, -1]
        parameter.set_partial_shape(openvino.PartialShape(shape))
    _with_states(openvino, graph, dict(zip(reads, writes, strict=True)), [heads, 0, size])
    return graph


def _with_states(openvino: Any, graph: Any, states: dict[str, str], empty: list[int]) -> None:
    """Turns the graph's inputs and outputs of keys and values into states.

    A state begins as zeros, [batch, *empty]. The new input beam_idx reorders the rows of each state.
    """
    operations = import_module("openvino.opset13")
    beams = operations.parameter(openvino.PartialShape([-1]), openvino.Type.i32, name="beam_idx")
    beams.output(0).get_tensor().set_names({"beam_idx"})
    first = operations.constant(0)
    for name in states:
        past = graph.input(name)
        readers = past.get_target_inputs()
        past_of_beams = operations.gather(past, beams, first)
        for reader in readers:
            reader.replace_source_output(past_of_beams.output(0))
    graph.add_parameters([beams])
    shape = operations.shape_of(graph.input("input_ids"), output_type="i64")
    batch = operations.gather(shape, operations.constant([0]), first)
    begin = operations.concat([batch, *(operations.constant([n]) for n in empty)], 0)
    graph.validate_nodes_and_infer_types()
    import_module("openvino._offline_transformations").apply_make_stateful_transformation(graph, states)
    for node in graph.get_ops():
        if node.get_type_name() == "ReadValue":
            node.set_arguments([operations.broadcast(operations.constant(np.float32(0)), begin)])
    graph.validate_nodes_and_infer_types()


def names(count: int) -> PreTrainedTokenizerFast:
    """A tokenizer with at least `count` tokens (bytes, then numbers), for models without a tokenizer."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pair = letters[0] + letters[1]  # OpenVINO needs a merge and a special token
    tokens = [*letters, pair, *(f"<{i}>" for i in range(len(letters) + 1, count))]
    tokenizer = Tokenizer(models.BPE({name: i for i, name in enumerate(tokens)}, [(letters[0], letters[1])]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")
