"""A config.json with absurd entries is refused with a message, before anything is built from it."""

import contextlib
import json
from itertools import cycle

import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import CONFIG_MAPPING, Gemma4ForCausalLM, Gemma4TextConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import specdec
from specdec.models import HFModel, free_memory, load_hf_model, memory
from specdec.models.config_entries import check_entries
from tests.helpers.tiny_checkpoints import _LLAMA_LIKE, FAMILIES, tiny_config
from tests.helpers.tokenizers import byte_level_tokenizer

TOKENIZER = byte_level_tokenizer()
LAYERS = {"gpt2": "n_layer", "mpt": "n_layers", "bloom": "n_layer", "gpt_neo": "num_layers"}
WIDTHS = {"gpt2": "n_embd", "mpt": "d_model"}


def gemma4():
    """Two layers with heads of size 8 and 16."""
    sizes = {"num_hidden_layers": 2, "num_key_value_heads": 1, "vocab_size": len(TOKENIZER)}
    config = Gemma4TextConfig(
        **_LLAMA_LIKE | sizes,
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=8,
        global_head_dim=16,
        hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=len(TOKENIZER),
        num_kv_shared_layers=0,
    )
    return Gemma4ForCausalLM(config).eval()


def refused(folder, entries, message):
    """Refused by load_pair and load_hf_model alike, with a message that names the entry.

    entries: those of config.json, or its text.
    """
    (folder / "config.json").write_text(entries if isinstance(entries, str) else json.dumps(entries))
    (folder / "model.safetensors").write_bytes(b"never read")
    for load in (specdec.load_pair, load_hf_model):
        with pytest.raises(ValueError, match=message):
            load(folder)


VALUES = [-1, 0, 10_000, 10**9, 10**30, 1e9, "many", None, 2.5, [3]]


@pytest.mark.parametrize(("family", "value"), [*zip(FAMILIES, cycle(VALUES), strict=False)])
def test_an_absurd_number_of_layers_is_refused_for_each_family(tmp_path, family, value):
    key = LAYERS.get(family, "num_hidden_layers")
    entries = tiny_config(family).to_dict()
    entries.pop("layer_types", None)
    refused(tmp_path, entries | {key: value}, "config")


@pytest.mark.parametrize(
    ("family", "value"), [("llama", -5), ("gemma3", 0), ("gpt2", "wide"), ("mpt", 10**12), ("llama", 10**12)]
)
def test_an_absurd_width_or_vocabulary_is_refused(tmp_path, family, value, monkeypatch):
    monkeypatch.setattr(free_memory, "free", lambda where: 1 << 34)
    for key in (WIDTHS.get(family, "hidden_size"), "vocab_size"):
        refused(tmp_path, tiny_config(family).to_dict() | {key: value}, "config|memory")


def test_experts_in_all_layers_are_counted(tmp_path):
    sizes = {key: value for key, value in _LLAMA_LIKE.items() if key != "head_dim"}
    for entries in (
        {"model_type": "mixtral", "num_local_experts": 10**6},
        {"model_type": "jamba", "num_experts": 200, "num_hidden_layers": 900},
    ):
        refused(tmp_path, sizes | entries, "experts")


@pytest.mark.parametrize(
    ("model_type", "path", "number"),
    [
        ("llama", ["num_labels"], 10**5),
        ("llama", ["_num_labels"], 10**12),
        ("gemma3", ["text_config", "num_hidden_layers"], 1e9),
        ("xlstm", ["num_blocks"], 10**5),
        ("prophetnet", ["num_decoder_layers"], 10**12),
        ("hrm_text", ["num_layers_per_stack"], 1e9),
        ("hrm_text", ["L_cycles"], 10**5),
        ("gemma3", ["vision_config", "depth"], 10**12),
    ],
)
def test_whatever_is_built_so_many_times_is_counted_by_its_name(tmp_path, model_type, path, number):
    entries = number
    for key in reversed(path):
        entries = {key: entries}
    refused(tmp_path, {"model_type": model_type, **entries}, f"{path[-1]} = .*; it must be at most")


def test_what_the_architectures_ask_for_themselves_is_no_absurd_number():
    counted = 0
    for model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.keys() & CONFIG_MAPPING_NAMES.keys():
        # some types have no valid defaults, others only in other versions
        with contextlib.suppress(StrictDataclassError):
            entries = json.loads(json.dumps(CONFIG_MAPPING[model_type]().to_dict(), default=str))
            check_entries(entries, model_type)
            counted += 1
    assert counted > 100


def test_layers_of_sizes_of_their_own_are_loaded(tmp_path):
    """Gemma 4's full attention has larger heads: a size that its configuration as a whole does not give."""
    model = gemma4()
    model.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    assert specdec.load_pair(tmp_path, tmp_path).target.capability == HFModel(model).capability == "tree"
    windowed, full = 2 * 1 * 8, 2 * 1 * 16
    assert memory.shape_of(model.config).cached == windowed + full


def test_a_context_of_no_length_is_one_that_is_not_named():
    for length in (-1, 0):
        shape = memory.shape_of(tiny_config("llama", max_position_embeddings=length))
        assert shape.context_length == memory.TOKENS


@pytest.mark.parametrize("text", ["{", '"llama"', "[" * 5000, "\x00"])
def test_what_is_no_configuration_at_all_is_named(tmp_path, text):
    refused(tmp_path, text, r"config\.json")


@pytest.mark.parametrize(
    "quantisation",
    [
        {"quant_method": "gptq", "bits": 4},
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
        {"quant_method": "unheard-of"},
        {"bits": 4},
        "gptq",
    ],
    ids=str,
)
def test_quantised_weights_without_their_package_are_named(tmp_path, quantisation):
    """None of these packages is required. Without the check, a load would end with another kind of error."""
    entries = tiny_config("llama").to_dict() | {"quantization_config": quantisation}
    refused(tmp_path, entries, r"quantised weights|config\.json")


KERNELS = ("attn_implementation", "_attn_implementation", "experts_implementation")
CODE = [{key: "somebody/kernels"} for key in KERNELS]
CODE.append({"model_type": "own", "auto_map": {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"}})


@pytest.mark.parametrize("entries", CODE, ids=str)
def test_kernels_from_the_hub_and_python_files_are_code_of_its_own_which_is_not_run(tmp_path, entries):
    (tmp_path / "own.py").write_text("raise SystemExit('was run')")
    refused(tmp_path, tiny_config("llama").to_dict() | entries, "needs code of its own")


@pytest.mark.parametrize("name", [5, b"folder", [], True], ids=repr)
def test_what_is_no_name_of_a_model_is_named(name):
    for names in ((name,), (specdec.loading.EMBEDDED / "target", name), ("stories", name)):
        with pytest.raises(ValueError, match="no name of a model"):
            specdec.load_pair(*names)
