"""Matrices rounded to four or eight bits: close to those of the file, and lossless as a draft."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

import specdec
from specdec.models import cached_folders
from specdec.models.hf import HFModel
from specdec.models.kernels import compiled
from specdec.models.kernels.layout import QUANTISED
from specdec.models.kernels.quantised import rounded_fields
from specdec.models.packed import PackedModel
from specdec.models.packed_check import exact_logits
from specdec.models.packed_file import FILE, ROUNDED_KINDS
from specdec.models.selfcheck import relative_error
from specdec.shipped import EMBEDDED
from tests.models.test_gguf import IDS, SIZES, model_of, own_cache  # noqa: F401
from tests.models.test_packed import any_type_is_written, check_texts, file, scored  # noqa: F401

SMALL = SIZES | {"vocab_size": 2048, "num_hidden_layers": 1}
NEAR = {"int8": 0.02, "int4": 0.3}
"""Relative error of the logits of small random models."""


def folder(path, architecture="llama", dtype=torch.bfloat16, **options):
    model_of(architecture, vocab_size=2048, **options).to(dtype).save_pretrained(path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(EMBEDDED / "target" / name, path)
    return path


@pytest.mark.parametrize(("kind", "steps"), [("Q8_0", 254), ("Q4_0", 14)])
def test_no_number_is_rounded_by_much_more_than_half_a_step(kind, steps):
    values = np.random.default_rng(1).standard_normal((7, 96)).astype(np.float32)
    values[2, 32:64] = 0
    values[3] *= 1e-3
    have = rounded_fields(values, kind).values(kind)
    ranges = np.ptp(values.reshape(7, 3, 32), axis=-1, keepdims=True)
    errors = np.abs(have - values).reshape(7, 3, 32)
    assert (errors <= 1.1 * ranges / steps).all()
    assert (have[2, 32:64] == 0).all()
    assert np.array_equal(rounded_fields(have, kind).values(kind), have)


@pytest.mark.parametrize(
    ("architecture", "dtype"), [("llama", "int4"), ("llama", "int8"), ("qwen2", "int4"), ("qwen3", "int8")]
)
def test_a_folder_is_near_its_weights_and_keeps_the_text_of_plain_decoding(tmp_path, architecture, dtype):
    path = folder(tmp_path / "model", architecture, tied=architecture != "qwen2")
    exact = specdec.load_pair(path, dtype="float32").target
    pair = specdec.load_pair(path, path, dtype=dtype)
    assert type(pair.target) is type(pair.draft) is PackedModel
    assert ROUNDED_KINDS[dtype] in pair.target.arithmetic
    have, want = (scored(model) for model in (pair.target, exact))
    assert 1e-4 < relative_error(have, want) < NEAR[dtype]
    check_texts(pair)


@pytest.mark.parametrize("dtype", ROUNDED_KINDS)
def test_a_gguf_file_keeps_what_has_few_bits_and_rounds_the_rest(tmp_path, dtype):
    path = file(tmp_path / "model.gguf")
    own, rounded = (specdec.load_pair(path, dtype=each).target for each in ("packed", dtype))
    before, after = own.matrices, rounded.matrices
    most = QUANTISED[ROUNDED_KINDS[dtype]].bits
    for name, kind in before.kinds.items():
        if name == "model.embed_tokens.weight" or QUANTISED[kind].bits <= most:
            assert after.kinds[name] == kind
            assert torch.equal(after.tensors[name], before.tensors[name])
        else:
            assert after.kinds[name] == ROUNDED_KINDS[dtype]
            assert relative_error(after.values(name), before.values(name)) < 0.15
    config = own._prepared.module.config
    exact = [exact_logits(config, matrices, IDS) for matrices in (after, before)]
    assert relative_error(*exact) < NEAR[dtype]


def test_a_rounded_draft_changes_no_text_and_its_target_keeps_its_bits(tmp_path):
    path, draft = file(tmp_path / "model.gguf"), file(tmp_path / "draft.gguf", num_hidden_layers=1)
    pair = specdec.load_pair(path, draft, draft_dtype="int4")
    assert set(pair.draft.matrices.kinds.values()) <= {"Q4_0", "Q4_1", "Q4_K", "Q5_0"}  # the embedding's rows
    assert "Q8_0" in pair.target.arithmetic
    check_texts(pair)
    few = specdec.load_pair(path, draft, draft_dtype="int4", draft_ids=40)
    check_texts(few)


def test_a_folder_is_rounded_once_and_again_after_damage_or_a_change(tmp_path, monkeypatch):
    path = folder(tmp_path / "model")

    def logits():
        return scored(specdec.load_pair(path, dtype="int4").target, IDS[:4])

    first = logits()
    with monkeypatch.context() as patched:
        patched.setattr("specdec.models.rounded_folder.write_packed", None)
        assert torch.equal(first, logits())
    (cache_folder,) = (each for each in cached_folders._cache().iterdir() if each.is_dir())
    (cache_folder / FILE).write_bytes((cache_folder / FILE).read_bytes()[:-1])
    assert torch.equal(first, logits())
    folder(path, num_hidden_layers=1)
    assert not torch.equal(first, logits())
    assert sum(each.is_dir() for each in cached_folders._cache().iterdir()) == 1


def test_a_model_without_such_a_forward_is_refused_or_rounded_as_a_draft_by_rows(tmp_path, monkeypatch):
    path = folder(tmp_path / "model")
    monkeypatch.setenv(compiled.SWITCH, "0")
    for options in ({"dtype": "int4"}, {"draft_dtype": "int4"}, {"dtype": "int8"}):
        with pytest.raises(ValueError, match=r"Llama, Mistral, Qwen\s2 or Qwen 3"):
            specdec.load_pair(path, path, **options)
    assert type(specdec.load_pair(path, path, draft_dtype="int8").draft) is HFModel


def test_weights_that_do_not_fit_or_are_no_numbers_are_refused_by_name(tmp_path):
    path = folder(tmp_path / "model")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"intermediate_size": 128}))
    with pytest.raises(
        ValueError, match=r"model' has model\.layers\.0\.mlp\.down_proj\.weight of shape .*; its config"
    ):
        specdec.load_pair(path, dtype="int4")
    broken = model_of("llama", vocab_size=2048)
    broken.model.layers[0].mlp.up_proj.weight.data[1, 1] = float("nan")
    broken.save_pretrained(path)
    with pytest.raises(ValueError, match=r"not numbers: model\.layers\.0\.mlp\.up_proj\.weight"):
        specdec.load_pair(path, dtype="int8")


@pytest.mark.parametrize(
    ("build", "config"),
    [
        (MistralForCausalLM, MistralConfig(sliding_window=4, **SMALL)),
        (LlamaForCausalLM, LlamaConfig(hidden_act="gelu", **SMALL)),
        (LlamaForCausalLM, LlamaConfig(**SMALL | {"hidden_size": 48})),
    ],
    ids=["window", "gelu", "width"],
)
def test_a_draft_that_the_compiled_forward_can_not_take_is_rounded_by_rows(tmp_path, build, config):
    torch.manual_seed(0)
    path = folder(tmp_path / "draft")
    build(config).eval().save_pretrained(path)
    assert type(specdec.load_pair("stories", path, draft_dtype="int8").draft) is HFModel
    with pytest.raises(ValueError, match=r"draft' can't be decoded with dtype='int4'.*sliding window"):
        specdec.load_pair("stories", path, draft_dtype="int4")


def damaged(path, damage):
    weights = load_file(path / "model.safetensors")
    if damage == "cut":
        content = (path / "model.safetensors").read_bytes()
        (path / "model.safetensors").write_bytes(content[: len(content) // 2])
    elif damage == "generation":
        (path / "generation_config.json").write_text("{broken")
    else:
        weights["model.norm.weight"] = torch.tensor(1.0) if damage == "no dimension" else torch.ones(0)
        save_file(weights, path / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("damage", ["cut", "no dimension", "empty", "generation"])
def test_a_broken_folder_is_refused_by_its_name(tmp_path, damage):
    path = folder(tmp_path / "model")
    damaged(path, damage)
    with pytest.raises(ValueError, match=r"model'.* (can't be rounded to int4|has)"):
        specdec.load_pair(path, dtype="int4")


def test_weights_too_large_or_small_for_a_scale_are_named_and_a_tensor_may_lie_in_two_files(tmp_path):
    path = folder(tmp_path / "model", tied=False)
    weights = load_file(path / "model.safetensors")
    names = sorted(weights)
    parts = {"a.safetensors": names[:5], "b.safetensors": names[4:]}
    for part, some in parts.items():
        save_file({name: weights[name] for name in some}, path / part, metadata={"format": "pt"})
    (path / "model.safetensors").unlink()
    index = {name: part for part, some in parts.items() for name in some}
    text = json.dumps({"metadata": {"total_size": 1}, "weight_map": index})
    (path / "model.safetensors.index.json").write_text(text)
    assert type(specdec.load_pair(path, dtype="int8", device="cpu:0").target) is PackedModel
    good = weights["model.layers.0.mlp.up_proj.weight"]
    for factor in (1e9, 1e-6):
        weights["model.layers.0.mlp.up_proj.weight"] = good * factor
        save_file(weights, path / "b.safetensors", metadata={"format": "pt"})
        with pytest.raises(
            ValueError, match=r"too small to be rounded to Q4_0: model\.layers\.0\.mlp\.up_proj"
        ):
            specdec.load_pair(path, dtype="int4")


OTHERWISE = {
    "of the base model": lambda name, value: (name.removeprefix("model."), value),
    "under the name of the head": lambda name, value: (name.replace("model.embed_tokens", "lm_head"), value),
    "in double precision": lambda name, value: (name, value.double()),
}


@pytest.mark.parametrize("change", OTHERWISE.values(), ids=list(OTHERWISE))
def test_a_folder_may_name_or_store_its_weights_otherwise(tmp_path, change):
    path = folder(tmp_path / "model", dtype=torch.float32)
    before = [scored(specdec.load_pair(path, dtype=dtype).target) for dtype in ("float32", "int8")]
    weights = dict(change(*each) for each in load_file(path / "model.safetensors").items())
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    after = [scored(specdec.load_pair(path, dtype=dtype).target) for dtype in ("float32", "int8")]
    assert all(map(torch.equal, before, after))
