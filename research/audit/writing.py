"""Writes a model of transformers as a GGUF file, as llama.cpp's converter does."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any


def write(
    path: Path,
    model: Any,
    tokens: Sequence[str],
    merges: Sequence[str] = (),
    *,
    kind: str | Mapping[str, str] = "F32",
    end: int = 0,
    chat_template: str = "",
    keys: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a Llama, Qwen2, Qwen3 or Gemma 2 model with its tokens, and returns the path.

    merges: the merges of byte-level BPE; without them the tokens are SentencePiece's. kind: gguf's type name
    for all matrices, or a type for each last part of a module's name, such as "q_proj". end: id of the token
    that begins and ends a text; none is added to a prompt. keys: values that add or replace metadata of the
    file; None removes a key. ModuleNotFoundError without gguf.
    """
    gguf = import_module("gguf")
    writer = gguf.GGUFWriter(path, model.config.model_type)
    _write_sizes(writer, model.config)
    _write_tokenizer(writer, tokens, merges, end)
    if chat_template:
        writer.add_chat_template(chat_template)
    for key, value in (keys or {}).items():
        writer.kv_data[0].pop(key, None)
        if value is not None:
            adds = {bool: "bool", int: "uint32", float: "float32", str: "string", list: "array"}
            getattr(writer, f"add_{adds[type(value)]}")(key, value)
    _write_weights(gguf, writer, model, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_sizes(writer: Any, config: Any) -> None:
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_key_length(head_dim)
    if config.model_type == "llama":
        writer.add_rope_dimension_count(head_dim)


def _write_tokenizer(writer: Any, tokens: Sequence[str], merges: Sequence[str], end: int) -> None:
    writer.add_tokenizer_model("gpt2" if merges else "llama")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token.startswith("<|") else 1 for token in tokens])
    if merges:
        writer.add_tokenizer_pre("qwen2")
        writer.add_token_merges(merges)
    else:
        writer.add_token_scores([0.0] * len(tokens))
    for add in (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_pad_token_id):
        add(end)
    writer.add_add_bos_token(False)


def _write_weights(gguf: Any, writer: Any, model: Any, kind: str | Mapping[str, str]) -> None:
    config = model.config
    architecture = gguf.MODEL_ARCH[config.model_type.upper()]
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        base, _, suffix = name.rpartition(".")
        type_name = "F32"
        if value.dim() > 1:
            type_name = kind if isinstance(kind, str) else kind[base.rsplit(".", 1)[-1]]
        type_ = gguf.GGMLQuantizationType[type_name]
        array = _stored(base, value, config).float().numpy()
        if type_ is not gguf.GGMLQuantizationType.F32:
            array = gguf.quants.quantize(array, type_)
        writer.add_tensor(f"{names.get_name(base)}.{suffix}", array, raw_dtype=type_)


def _stored(base: str, value: Any, config: Any) -> Any:
    """A parameter with its rows in the order, and its values in the form, that llama.cpp uses."""
    part = base.rsplit(".", 1)[-1]
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(part)
    if config.model_type == "llama" and heads:  # llama.cpp rotates neighbouring rows, transformers two halves
        halves = value.view(heads, 2, -1, *value.shape[1:])
        return halves.transpose(1, 2).reshape(value.shape)
    if config.model_type == "gemma2" and "norm" in base:  # llama.cpp adds no 1 to the weight
        return value + 1
    return value
