"""Models in the few bits of their GGUF files: close to the exact weights, and the same bits in every tree."""

from __future__ import annotations

import os
import pickle
import shutil

import gguf
import numpy as np
import pytest
import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

import specdec
from specdec.bench import bandwidth
from specdec.bench.contestants import Contestant
from specdec.models import HFModel, cached_folders, packed, packed_check, prepare
from specdec.models.gguf import source
from specdec.models.gguf.header import read_header
from specdec.models.gguf.weights import config_of, weights_of
from specdec.models.kernels import compiled
from specdec.models.kernels.layout import QUANTISED
from specdec.models.other_tokenizer import OtherTokenizerModel
from specdec.models.outline import Outline
from specdec.models.packed import PackedModel
from specdec.models.packed_check import exact_logits, packed_fault
from specdec.models.packed_file import EMBEDDING
from specdec.models.selfcheck import relative_error
from specdec.theory import total_variation
from specdec.topology import Topology
from tests.helpers import sessions
from tests.helpers.file_blocks import block_size, random_blocks
from tests.helpers.processes import printed
from tests.helpers.texts import endless, ersd_as_plain, together_as_alone
from tests.models.test_gguf import IDS, K_SIZES, KINDS, SIZES, model_of, own_cache, written  # noqa: F401
from tests.models.test_partial import write_partial

MIXED = {
    "embed_tokens": "Q5_0",
    "lm_head": "Q6_K",
    "q_proj": "Q4_K",
    "k_proj": "Q5_K",
    "v_proj": "Q6_K",
    "o_proj": "Q8_0",
    "gate_proj": "Q4_1",
    "up_proj": "Q5_1",
    "down_proj": "Q4_0",
}
"""Files of all kinds, also with matrices of several kinds in one product."""
OTHER = MIXED | {"q_proj": "F16", "gate_proj": "Q4_K", "up_proj": "Q4_K"}
OTHER |= {"v_proj": "BF16", "down_proj": "F32"}
TIED = {name: kind for name, kind in MIXED.items() if name != "lm_head"} | {"embed_tokens": "Q6_K"}
NARROW = MIXED | {"o_proj": "Q5_0"}
"""The inputs of no matrix are multiples of 256."""
MODELS = {
    "llama": ("llama", MIXED, {}),
    "qwen2": ("qwen2", OTHER, {}),
    "qwen3": ("qwen3", OTHER, {}),
    "tied": ("llama", TIED, {}),
    "Llama 3": ("llama", NARROW, {"num_attention_heads": 16, "num_key_value_heads": 4}),
    "Nemo": ("llama", NARROW, {"num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 331}),
    "Qwen 2": ("qwen2", NARROW, {"num_attention_heads": 14, "num_key_value_heads": 2}),
    "Qwen 3": ("qwen3", NARROW, {"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 304}),
}
"""Some with fewer heads of keys and values than of queries, with heads that together are narrower or wider
than the model, and with vocabularies that do not fill their last block of sixteen."""
TREE = Topology([(0,), (1,), (0, 0), (0, 1), (0, 0, 0)])


@pytest.fixture(autouse=True)
def any_type_is_written(monkeypatch):
    """gguf can't write K-quants, so their matrices are random blocks."""
    quantize, seeds = gguf.quants.quantize, iter(range(1000))

    def blocks(array, type_):
        if type_.name not in QUANTISED:
            return quantize(array, type_)
        return random_blocks(type_.name, *array.shape, seed=next(seeds), size=0.004)

    monkeypatch.setattr(gguf.quants, "quantize", blocks)


def file(path, architecture="llama", kinds=MIXED, **options):
    model = model_of(architecture, tied="lm_head" not in kinds, **K_SIZES | options)
    if architecture == "qwen2":
        for layer in model.model.layers:
            for part in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
                torch.nn.init.normal_(part.bias, std=0.1)
    return written(path, model, kinds)


def unpacked(path):
    """The model of a file in float32, read by gguf."""
    header = read_header(path)
    config = config_of(path, header)
    config.dtype = torch.float32
    model = KINDS[header.architecture][0](config).eval()
    model.load_state_dict(dict(weights_of(path, header, config)), strict=False)
    with torch.inference_mode():
        return model(torch.tensor([IDS])).logits[0]


def scored(model, ids=IDS, parents=None):
    """Logits of all tokens but the first, which is prefilled. parents: of the nodes; None for a line."""
    return sessions.scored(model, ids[:1], ids[1:], parents)


@pytest.mark.parametrize(("architecture", "kinds", "sizes"), MODELS.values(), ids=list(MODELS))
def test_a_file_is_near_its_weights_and_keeps_plain_decoding_s_text(tmp_path, architecture, kinds, sizes):
    """The unpacked model is exact. The packed one differs only by the rounding of inputs, and does differ."""
    path = file(tmp_path / "model.gguf", architecture, kinds, **sizes)
    pair = specdec.load_pair(
        path, file(tmp_path / "draft.gguf", architecture, kinds, **sizes, num_hidden_layers=1)
    )
    assert type(pair.target) is type(pair.draft) is PackedModel
    assert pair.target.capability == "tree"
    want = unpacked(path)
    exact = exact_logits(pair.target._prepared.module.config, pair.target.decoder.matrices, IDS)
    assert relative_error(exact, want) < 1e-5
    have = scored(pair.target)
    assert 1e-4 < relative_error(have, want[1:]) < 0.05
    assert total_variation(have.softmax(-1), want[1:].softmax(-1)).max() < 0.05
    check_texts(pair)


def test_a_node_has_the_same_bits_in_every_tree(tmp_path):
    model = specdec.load_pair(file(tmp_path / "model.gguf")).target
    line = scored(model, IDS[:6])
    tree = [IDS[0], IDS[1], 99, IDS[2], 98, IDS[3], 97, IDS[4], IDS[5]]
    parents = [-1, -1, 0, 0, 2, 2, 4, 6]
    have = scored(model, tree, parents)
    assert torch.equal(have[[0, 2, 4, 6, 7]], line)
    alone = [scored(model, [*IDS[:count], 97])[-1] for count in (1, 2)]
    assert not torch.equal(alone[0], alone[1])  # the control


def test_runs_beside_others_write_what_each_writes_alone(tmp_path):
    path, draft = file(tmp_path / "model.gguf"), file(tmp_path / "draft.gguf", num_hidden_layers=1)
    pair = endless(specdec.load_pair(path, draft))
    prompts = [[3, 4], [5] * 40, [6, 7, 8]]
    together_as_alone(pair, prompts, [1, 2, 3], max_new_tokens=30, topology=TREE)


def test_the_file_is_packed_once_and_checked_once(tmp_path, monkeypatch):
    path = file(tmp_path / "model.gguf")
    first = scored(specdec.load_pair(path).target)
    for module, step in ((packed, "packed_fault"), (source, "write_converted"), (source, "read_header")):
        monkeypatch.setattr(module, step, None)  # a second start would fail if it repeated the work
    second = specdec.load_pair(path, dtype="packed").target
    assert torch.equal(scored(second), first)


def test_the_check_notices_matrices_in_the_wrong_place(tmp_path):
    model = specdec.load_pair(file(tmp_path / "model.gguf")).target
    matrices, tensors = model.decoder.matrices, model.decoder.matrices.tensors
    assert packed_fault(model._prepared, matrices) is None
    one, other = [f"model.layers.{layer}.self_attn.o_proj.weight" for layer in (0, 1)]
    swapped = {**tensors, one: tensors[other], other: tensors[one]}
    assert "off by" in packed_fault(model._prepared, type(matrices)(swapped, matrices.kinds))


def test_a_model_that_does_not_pass_is_converted_as_before(tmp_path, monkeypatch, caplog):
    path = file(tmp_path / "model.gguf")
    monkeypatch.setattr(packed_check, "LARGEST_ERROR", 1e-7)
    model = specdec.load_pair(path).target
    assert type(model) is HFModel
    assert "not decoded in the bits of its file" in caplog.text
    with pytest.raises(ValueError, match="off by"):
        specdec.load_pair(path, dtype="packed")


def test_another_dtype_or_no_compiled_forward_gives_the_model_as_before(tmp_path, monkeypatch):
    path = file(tmp_path / "model.gguf")
    assert specdec.load_pair(path, dtype="bfloat16").target.dtype == torch.bfloat16
    assert type(specdec.load_pair(path, dtype="float32").target) is HFModel
    monkeypatch.setenv(compiled.SWITCH, "0")
    assert type(specdec.load_pair(path).target) is HFModel
    with pytest.raises(ValueError, match="dtype='packed'"):
        specdec.load_pair(path, dtype="packed")


def test_a_file_without_few_bits_is_read_as_before(tmp_path):
    path = written(tmp_path / "model.gguf", model_of("llama"), "F16")
    assert type(specdec.load_pair(path).target) is HFModel
    with pytest.raises(ValueError, match="four to eight bits"):
        specdec.load_pair(path, dtype="packed")


def test_the_model_of_transformers_is_made_when_it_is_asked_for(tmp_path):
    pair = specdec.load_pair(file(tmp_path / "model.gguf"))
    copy = pickle.loads(pickle.dumps(pair.target))
    assert torch.equal(*(scored(m) for m in (pair.target, copy)))
    assert "module" not in vars(pair.target)
    assert pair.target.module.dtype == torch.bfloat16
    assert 0 in pair.eos_ids
    with pytest.raises(ValueError, match="packed for a CPU"):
        pair.target.to("cuda")
    assert prepare.TREES in pair.target.capability_reason


@pytest.mark.parametrize(
    ("tensor", "block", "message"), [("blk.0.ffn_down", 0, "down_proj"), ("token_embd", -1, "embed_tokens")]
)
def test_a_scale_that_is_no_number_is_refused(tmp_path, tensor, block, message):
    path = file(tmp_path / "m.gguf")
    [stored_as] = [each for each in read_header(path).tensors if each.name == f"{tensor}.weight"]
    size = block_size(stored_as.type)[1]
    content = bytearray(path.read_bytes())
    offset = range(stored_as.start, stored_as.start + stored_as.nbytes, size)[block]
    content[offset : offset + 2] = np.float16("nan").tobytes()
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{message}\.weight holds NaN or infinity"):
        specdec.load_pair(path, dtype="packed")


def test_a_file_replaced_under_its_size_and_time_is_packed_anew(tmp_path):
    path, other = file(tmp_path / "m.gguf"), file(tmp_path / "other.gguf")
    first, status = specdec.load_pair(path, dtype="packed").target, path.stat()
    assert (path.read_bytes() != other.read_bytes(), other.stat().st_size) == (True, status.st_size)
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    second, want = specdec.load_pair(path, dtype="packed").target, specdec.load_pair(other).target
    rows = [scored(model) for model in (first, second, want)]
    assert torch.equal(rows[1], rows[2])
    assert not torch.equal(rows[0], rows[1])
    folders = [each for each in cached_folders._cache().iterdir() if each.is_dir()]
    assert len(folders) == 2  # the cache of the replaced file is removed


def check_texts(pair):
    """ERSD's texts are those of plain decoding. The draft is used, and its tree is not always empty."""
    runs = ersd_as_plain(endless(pair), IDS[:5], [TREE], (1, 2), max_new_tokens=20)
    assert all("int8 inputs" in run.arithmetic for run in runs)


@pytest.mark.parametrize("dtype", ["auto", "packed", "int4"])
def test_a_draft_of_a_part_of_the_vocabulary_reads_the_embedding_of_a_packed_target(tmp_path, dtype):
    torch.manual_seed(1)
    sizes = SIZES | {"num_hidden_layers": 1}
    model = LlamaForCausalLM(LlamaConfig(**sizes))
    write_partial(tmp_path / "draft", model, sizes, torch.randn(64, 256), range(0, 210, 3))
    pair = specdec.load_pair(file(tmp_path / "model.gguf"), tmp_path / "draft", dtype=dtype)
    assert "module" not in vars(pair.target)  # the model was not converted to a module
    check_texts(pair)


def test_a_draft_with_another_tokenizer_beside_a_packed_target(tmp_path):
    pair = specdec.load_pair(file(tmp_path / "model.gguf"), "stories")
    assert isinstance(pair.draft, OtherTokenizerModel)
    check_texts(pair)


def test_a_later_start_imports_no_modelling_code_of_transformers(tmp_path, own_cache):  # noqa: F811
    """Importing it takes two seconds."""
    files = [str(file(tmp_path / f"{layers}.gguf", "qwen2", num_hidden_layers=layers)) for layers in (2, 1)]
    unfinished = shutil.ignore_patterns("*.tmp.*")  # another process may write to the code's folder
    shutil.copytree(own_cache, tmp_path / "cache" / "specdec" / own_cache.name, ignore=unfinished)
    specdec.load_pair(*files)  # converts and checks both
    run = printed(
        f"import sys, specdec; run = specdec.generate(specdec.load_pair(*{files}), [5, 6], max_new_tokens=4);"
        "print(run.arithmetic, 'transformers.modeling_utils' in sys.modules)"
    )
    assert "int8 inputs" in run
    assert run.endswith(" False\n")


ROPES = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    | {"original_max_position_embeddings": 64},
]


def parts(module):
    """Shapes of numbers, and constants, of the parts of a model, by name."""
    constants = ("head_dim", "scaling", "variance_epsilon")
    return {
        name: [
            *(each.shape for each in part.parameters(recurse=False)),
            *(getattr(part, constant, None) for constant in constants),
        ]
        for name, part in module.named_modules()
        if not name.endswith("act_fn")
    }


@pytest.mark.parametrize(("kind", "rope"), [*zip(["Llama", "Mistral", "Qwen2", "Qwen3"], ROPES, strict=True)])
def test_an_outline_has_the_parts_of_transformers_model(kind, rope):
    sizes = SIZES | {"head_dim": 24, "rope_parameters": {"rope_theta": 1e4, **rope}}
    config = getattr(transformers, f"{kind}Config")(**sizes)
    model = getattr(transformers, f"{kind}ForCausalLM")(config)
    outline = Outline(config, {name: each for name, each in model.named_parameters() if each.ndim == 1})
    assert parts(outline) == parts(model)
    inputs = torch.ones(1), torch.arange(300)[None]
    cosines_and_sines = [torch.stack(each.model.rotary_emb(*inputs)) for each in (outline, model)]
    assert torch.equal(*cosines_and_sines)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (transformers.GPT2Config(), "gpt2"),
        (transformers.LlamaConfig(rope_parameters={"rope_type": "dynamic", "factor": 2.0}), "'dynamic'"),
    ],
)
def test_a_model_that_the_compiled_forward_cannot_decode_has_no_outline(config, message):
    with pytest.raises(ValueError, match=message):
        Outline(config, {})


def test_plain_decoding_is_compared_with_the_bytes_of_the_file(tmp_path, monkeypatch):
    """transformers' contestant reads the same weights in bfloat16."""
    monkeypatch.setattr(bandwidth, "BYTES", 1 << 20)
    pair = specdec.load_pair(file(tmp_path / "model.gguf"))
    each = [
        Contestant(f"{kind} autoregressive", kind, "packed", 1, None) for kind in ("specdec", "transformers")
    ]
    limits = bandwidth.limits(each, {"packed": pair})
    ours, theirs = (limit["bandwidth"] / limit["tokens_per_second"] for limit in limits.values())
    matrices = [name for name in pair.target.matrices.kinds if name != EMBEDDING]
    values = sum(pair.target.matrices.values(name).numel() for name in matrices)
    assert 0.5 < ours / values < 1.5
    assert 1.9 < theirs / values < 2.1
