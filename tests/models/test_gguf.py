"""Models in GGUF files: the loaded model is the one that was written, and a broken file gives one message."""

import random
import re
import shutil
import struct
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import gguf
import numpy as np
import pytest
import torch
import transformers
from safetensors import SafetensorError

import specdec
from research.audit.writing import write
from specdec.models import cached_folders
from specdec.models.gguf import conversion, source
from specdec.models.gguf.fields import PLAIN, rows_of
from specdec.models.gguf.header import BrokenFileError, read_header
from specdec.models.gguf.weights import config_of
from specdec.models.kernels import compiled, layout
from specdec.models.source import find_source
from specdec.private_cache import private_folder
from tests.models.test_gguf_tokenizer import MERGES, TOKENS

SIZES = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
KINDS = {
    name: [getattr(transformers, name.capitalize() + part) for part in ("ForCausalLM", "Config")]
    for name in ("llama", "qwen2", "qwen3", "phi3", "gemma2")
}
K_SIZES = {"hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 16, "num_key_value_heads": 16}
"""The blocks of K-quants have 256 values."""
IDS = list(range(40, 60))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Empty caches of files. The compiled code is read from the usual cache, where all of it is made before.
    Gives the code's folder."""
    if workers := compiled.crew():
        for kind in (*layout.BYTES, *layout.QUANTISED):
            workers.multiply(kind)
    folder = private_folder(compiled._version())
    monkeypatch.setenv("SPECDEC_CACHE", str(tmp_path / "cache"))
    cached_folders._cache.cache_clear()
    yield folder
    cached_folders._cache.cache_clear()


def model_of(architecture, tied=True, **options):
    torch.manual_seed(0)
    kind, config = KINDS[architecture]
    ids = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 0)
    return kind(config(**SIZES | ids | options, head_dim=16, tie_word_embeddings=tied)).eval()


def written(path, model, kind="F32", **options):
    template = "{% for m in messages %}<|turn|>{{ m['content'] }}{% endfor %}"
    count = SIZES["vocab_size"]
    tokens, merges = TOKENS[:count], MERGES[: count - 258]  # two special tokens and 256 bytes come first
    return write(path, model, tokens, merges, kind=kind, chat_template=template, **options)


def logits(module):
    with torch.inference_mode():
        return module(torch.tensor([IDS])).logits[0].float()


@pytest.mark.parametrize(
    ("architecture", "tied"),
    [("llama", True), ("qwen2", True), ("qwen3", False), ("phi3", False), ("gemma2", True)],
)
def test_a_file_gives_the_logits_of_the_model_it_was_written_from(tmp_path, architecture, tied):
    model = model_of(architecture, tied)
    with torch.no_grad():
        for name, value in model.named_parameters():
            is_random = name.endswith("bias") or ("norm" in name and architecture == "gemma2")
            value.normal_(std=0.1) if is_random else value.mul_(3)
    pair = specdec.load_pair(written(tmp_path / "model.gguf", model))
    have, want = logits(pair.target.module), logits(model)
    assert type(pair.target.module) is type(model)
    assert (have - want).abs().max() < 1e-5 * want.abs().max()  # it was not rounded
    assert pair.tokenizer.decode(pair.encode("a cat, ü")) == "a cat, ü"
    assert pair.chat_text("Hi").startswith("<|turn|>Hi")
    assert 0 in pair.eos_ids


@pytest.mark.parametrize(("kind", "off"), [("F16", 1e-2), ("BF16", 2e-2), ("Q8_0", 3e-2), ("Q4_1", 0.5)])
def test_quantised_matrices_are_near_those_they_stand_for(tmp_path, kind, off):
    model = model_of("llama")
    module = specdec.load_pair(written(tmp_path / "model.gguf", model, kind)).target.module
    error = (logits(module) - logits(model)).abs().max() / logits(model).abs().max()
    assert error < off
    assert module.dtype == (torch.float16 if kind == "F16" else torch.bfloat16)


@pytest.mark.parametrize("kind", PLAIN)
def test_numbers_that_are_not_quantised_are_those_that_gguf_reads(kind):
    data = np.random.default_rng(0).integers(0, 60, (4, 16), dtype=np.uint8)
    want = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])
    assert np.array_equal(rows_of(data, kind), want, equal_nan=True)


def test_a_file_is_converted_once_and_a_damaged_or_missing_conversion_again(tmp_path):
    path = written(tmp_path / "model.gguf", model_of("llama"))
    steps = []
    with ThreadPoolExecutor(4) as pool:  # several processes that start for the first time
        folders = {*pool.map(lambda _: find_source(path).fetch(steps.append), range(4))}
    (folder,) = folders
    assert (steps[0].done, steps[0].total) == (0, len(read_header(path).tensors))
    assert len(steps) == len(read_header(path).tensors)
    assert not [each for each in folder.parent.iterdir() if each.name.startswith(".new")]
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.iterdir())
    weights = folder / "model.safetensors"
    for damage in (
        lambda: weights.write_bytes(b""),
        lambda: weights.write_bytes(b"x" * 100),
        lambda: (shutil.rmtree(folder), folder.write_text("no folder")),
        lambda: shutil.rmtree(folder.parent.parent),
    ):
        damage()
        assert not cached_folders.whole(folder)
        assert find_source(path).fetch() == folder
        assert cached_folders.whole(folder)
    specdec.load_pair(path)
    assert folder.parent.stat().st_mode & 0o077 == 0


def refusal(path):
    """The error of a file's header; None if there is none."""
    try:
        read_header(path)
    except BrokenFileError as error:
        return str(error)
    return None


def test_every_mutation_of_a_file_loads_or_gets_one_sentence(tmp_path):
    """400 broken files: bytes of the header are changed, files are cut, and lengths are made huge."""
    original = written(tmp_path / "good.gguf", model_of("llama"), "Q8_0").read_bytes()
    header = min(tensor.start for tensor in read_header(tmp_path / "good.gguf").tensors)
    draw, path, refused = random.Random(0), tmp_path / "bad.gguf", 0
    for _ in range(400):
        data = bytearray(original)
        kind = draw.randrange(4)
        if kind == 0:
            del data[draw.randrange(len(data)) :]
        elif kind == 1:
            i = draw.randrange(header - 8)
            data[i : i + 8] = struct.pack("<Q", draw.choice([0, 1 << 20, 1 << 32, 1 << 63, (1 << 64) - 1]))
        else:
            for _ in range(draw.choice([1, 1, 4, 64])):
                data[draw.randrange(header if kind == 2 else 64)] = draw.randrange(256)
        path.write_bytes(data)
        tracemalloc.start()
        message = refusal(path)
        refused += message is not None
        assert "\n" not in (message or "")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10 * len(original)
    assert refused > 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"llama.block_count": 10**9}, "claims 1,000,000,000 layers"),
        ({"llama.block_count": 1}, "describe a llama model without it"),
        ({"llama.attention.head_count": 0}, "0 attention heads"),
        ({"llama.attention.layer_norm_rms_epsilon": -1.0}, "epsilon = -1.0, where a number above 0"),
        ({"llama.rope.scaling.factor": float("inf")}, "factor = inf"),
        ({"llama.embedding_length": 1 << 31}, "configuration describes a model with"),
        ({"llama.attention.head_count_kv": 0}, "can't be read"),
        ({"llama.feed_forward_length": "many"}, "where a number belongs"),
        ({"llama.expert_count": 8}, "mixture of experts"),
        ({"llama.rope.scaling.type": "dream"}, "= 'dream'; supported: none, linear and yarn"),
        ({"llama.attention.head_count": 3}, "not a multiple"),
        ({"llama.context_length": 0}, "a context of 0 tokens"),
        ({"llama.rope.freq_base": 0.0}, "freq_base = 0.0, where a number of at least 1 belongs"),
    ],
)
def test_keys_that_describe_another_model_are_named(tmp_path, monkeypatch, change, message):
    path = written(tmp_path / "model.gguf", model_of("llama"))
    header = read_header(path)
    header.keys.update(change)
    monkeypatch.setattr(source, "read_header", lambda _: header)
    with pytest.raises(ValueError, match=message) as raised:
        specdec.load_pair(path)
    assert "model.gguf" in str(raised.value)
    assert "\n" not in str(raised.value)


def configuration(path, model, key, value):
    """The configuration of a file with one more key of the model's architecture."""
    keys = {f"{model.config.model_type}.{key}": value}
    return find_source(written(path / "m.gguf", model, keys=keys)).config()


YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 8}
YARN_ENTRIES = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}


@pytest.mark.parametrize(
    ("architecture", "keys", "entries"),
    [
        ("llama", {"rope.scaling.factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
        ("qwen2", {"rope.scale_linear": 4.0}, {"rope_type": "linear", "factor": 4.0}),
        ("llama", YARN, YARN_ENTRIES),
        ("qwen3", YARN | {"rope.scaling.yarn_beta_fast": 3.0}, YARN_ENTRIES | {"beta_fast": 3.0}),
        ("qwen2", YARN | {"rope.scaling.yarn_beta_slow": 0.5}, YARN_ENTRIES | {"beta_slow": 0.5}),
        ("llama", YARN | {"rope.scaling.yarn_attn_factor": 1.7}, YARN_ENTRIES | {"attention_factor": 1.7}),
        (
            "qwen3",
            YARN | {"rope.scaling.yarn_log_multiplier": 0.5},
            YARN_ENTRIES | {"mscale": 1.0, "mscale_all_dim": 0.5},
        ),
    ],
)
def test_scaled_positions_give_the_logits_of_the_same_configuration(tmp_path, architecture, keys, entries):
    model = model_of(architecture, rope_parameters={"rope_theta": 100.0, **entries})
    plain = model_of(architecture, rope_parameters={"rope_theta": 100.0, "rope_type": "default"})
    with torch.no_grad():
        for each in (model, plain):
            each.load_state_dict(model.state_dict())
            for layer in each.model.layers:
                for part in (layer.self_attn.q_proj, layer.self_attn.k_proj):
                    part.weight.mul_(20)  # attention that depends on positions
    keys = {f"{architecture}.{key}": value for key, value in keys.items()}
    pair = specdec.load_pair(written(tmp_path / "model.gguf", model, keys=keys))
    have, want = logits(pair.target.module), logits(model)
    assert torch.allclose(have, want, atol=1e-4)
    assert (logits(plain) - want).abs().max() > 1e-2 * want.abs().max()


NOT_COMPUTED = {
    "rope.scaling.type": "longrope",
    "rope.scaling.alpha": 50.0,
    "rope.scaling.attn_factor": 1.2,
    "rope.scaling.yarn_ext_factor": 0.5,
    "rope.scaling.yarn_beta_fast": 16.0,  # the file lacks rope.scaling.type = yarn
    "rope.dimension_count": 8,
    "rope.freq_base_swa": 123.0,
    "rope.something_new": 1,
    "attention.scale": 0.5,
    "attention.clamp_kqv": 8.0,
    "attention.causal": False,
    "attention.sliding_window_pattern": [True, False],
    "attention.max_alibi_bias": 8.0,
    "attention.value_length": 8,
    "attention.something_new": True,
    "attn_logit_softcapping": 50.0,
    "logit_scale": 0.5,
}
CHANGES_NOTHING = {
    "rope.scaling.type": "none",
    "rope.scaling.factor": 1.0,
    "rope.scaling.finetuned": True,
    "rope.scaling.original_context_length": 64,
    "rope.dimension_count": 16,
    "attention.scale": 0.25,
    "attention.clamp_kqv": 0.0,
    "attention.causal": True,
    "attention.sliding_window": 128,
    "attention.value_length": 16,
}


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "phi3"])
def test_keys_are_refused_by_name_and_value_unless_they_change_nothing(tmp_path, architecture):
    model = model_of(architecture)
    within = {} if architecture == "phi3" else {"attention.sliding_window": 64}  # see the test below
    for key, value in (NOT_COMPUTED | within).items():
        with pytest.raises(ValueError, match=re.escape(f"has {architecture}.{key} = ")) as raised:
            configuration(tmp_path, model, key, value)
        assert str(value) in str(raised.value)
        assert "\n" not in str(raised.value)
    for key, value in CHANGES_NOTHING.items():
        config = configuration(tmp_path, model, key, value)
        assert config.num_hidden_layers == SIZES["num_hidden_layers"]


def test_keys_of_other_architectures_are_compared_with_the_configuration(tmp_path):
    model, key = model_of("gemma2"), "final_logit_softcapping"
    window = configuration(tmp_path, model, "attention.sliding_window", 32)
    assert window.sliding_window == 32  # transformers reads this key
    assert configuration(tmp_path, model, key, 30.0).final_logit_softcapping == 30.0  # the default anyway
    with pytest.raises(ValueError, match=r"final_logit_softcapping = 9.0"):
        configuration(tmp_path, model, key, 9.0)


def test_phi_3_attends_to_the_window_of_the_file(tmp_path):
    model = model_of("phi3", tied=False, sliding_window=8)
    keys = {"phi3.attention.sliding_window": 8}
    pair = specdec.load_pair(written(tmp_path / "m.gguf", model, keys=keys))
    assert pair.target.module.config.sliding_window == 8
    assert torch.allclose(logits(pair.target.module), logits(model), atol=1e-5)


def test_positions_scaled_twice_are_refused(tmp_path):
    path = written(tmp_path / "m.gguf", model_of("llama"), keys={"llama.rope.scaling.factor": 2.0})
    header = read_header(path)
    factors = header.tensors[0]._replace(name="rope_freqs.weight")
    with pytest.raises(BrokenFileError, match=r"by linear and by rope_freqs\.weight"):
        config_of(path, replace(header, tensors=(*header.tensors, factors)))


def test_every_token_that_ends_a_text_ends_a_decoded_one(tmp_path):
    model = model_of("qwen2")
    path = written(tmp_path / "model.gguf", model, keys={"tokenizer.ggml.eot_token_id": 41})
    pair = specdec.load_pair(path)
    assert pair.eos_ids == {0, 41}  # <|end|> ends a text by its key and its name; 41 by its key
    text = specdec.generate(pair, "abc", method="ar", seed=0, max_new_tokens=400, temperature=5.0)
    assert text.token_ids[-1] in (0, 41)
    assert not set(text.token_ids[:-1]) & {0, 41}


@pytest.mark.parametrize(
    ("architecture", "before", "after", "message"),
    [
        ("llama", "blk.0.ffn_up.weight", "blk.0.ffn_up.weighX", "(lacks|holds) .*(up_proj|ffn_up)"),
        ("gemma2", "blk.0.ffn_up.weight", "blk.0.ffn_up.weighX", "(lacks|holds) .*(up_proj|ffn_up)"),
        ("llama", "output_norm.weight", "output_norm.weighX", "holds .*output_norm"),
        ("llama", "llama", "alpac", "of the architecture 'alpac' can't be read"),
    ],
)
def test_a_file_with_another_name_of_a_tensor_or_architecture_is_refused(
    tmp_path, architecture, before, after, message
):
    path = written(tmp_path / "model.gguf", model_of(architecture))
    path.write_bytes(path.read_bytes().replace(before.encode(), after.encode()))
    with pytest.raises(ValueError, match=rf"model\.gguf' {message}"):
        specdec.load_pair(path)


def test_the_first_part_of_a_split_model_is_told_from_a_broken_file(tmp_path):
    path = written(tmp_path / "model.gguf", model_of("llama"), keys={"split.count": 3})
    with pytest.raises(ValueError, match=r"model\.gguf' is one of 3 parts of a model; `llama-gguf-split"):
        specdec.load_pair(path)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("os error 28")])
def test_a_full_disk_is_told_with_the_folder_to_change(tmp_path, monkeypatch, error):
    path = written(tmp_path / "model.gguf", model_of("llama"))
    monkeypatch.setattr(conversion, "write_tensors", Mock(side_effect=error))
    with pytest.raises(ValueError, match=r"can't be converted: .*SPECDEC_CACHE can name another folder"):
        specdec.load_pair(path, dtype="float32")
    monkeypatch.undo()
    assert specdec.load_pair(path, dtype="float32").target.vocab_size


def test_a_file_of_another_kind_is_not_called_missing(tmp_path):
    file = tmp_path / "file.py"
    file.write_text("print()")
    for name in (file, str(file)):
        with pytest.raises(ValueError, match=r"file\.py' is neither a folder with a model nor a GGUF file"):
            specdec.load_pair(name)
    with pytest.raises(ValueError, match="does not exist"):
        specdec.load_pair(tmp_path / "nothing.gguf")


def test_a_file_that_is_replaced_while_it_is_read_is_never_stored(tmp_path):
    """The old header would describe the new weights, at every later start."""
    path, other = (written(tmp_path / f"{name}.gguf", model_of("llama")) for name in ("model", "other"))
    model = find_source(path)
    model.config()  # reads the header
    Path(other).replace(path)
    with pytest.raises(ValueError, match=r"model\.gguf' was replaced while it was read"):
        model.fetch()
    assert find_source(path).fetch().is_dir()
