"""Memory is known before a model is loaded: computed from the config, and compared with the free memory."""

import tempfile
import threading
import time

import psutil
import pytest
import torch
import transformers

import specdec
from components.runs import known_pairs
from specdec.models import HFModel, free_memory, load_hf_model, memory
from specdec.models.kernels.compiled import crew
from specdec.models.load import checked_device
from specdec.models.memory import Placement, Sizes, need_of, shape_of
from specdec.models.sessions.states import state_tensors
from tests.helpers.processes import printed
from tests.helpers.tiny_checkpoints import FAMILIES, VOCAB_SIZE, save_checkpoint, tiny_config, tiny_model
from tests.helpers.tokenizers import byte_level_tokenizer
from tests.models.test_models import STATES

SHAPE = Sizes(parameters=1_000_000, matrices=800_000, cached=100, vocab_size=50, context_length=512)


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_are_those_of_the_model(family):
    shape = shape_of(tiny_config(family))
    assert shape.parameters == sum(parameter.numel() for parameter in tiny_model(family).parameters())
    assert shape.vocab_size == VOCAB_SIZE


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2", "gemma3"])
def test_the_cache_of_a_session_has_the_size_that_was_counted(family):
    model = HFModel(tiny_model(family))
    session = model.session()
    session.prefill(list(range(3, 23)))
    cache = session._cache
    if model.decoder is not None:
        layers, heads, _, size = cache.buffer.shape
        per_token = layers * heads * size
    else:
        per_token = sum(2 * layer.keys.shape[1] * layer.keys.shape[3] for layer in cache.layers)
    assert per_token == shape_of(tiny_config(family)).cached


@pytest.mark.parametrize("family", STATES)
def test_the_states_of_a_session_have_the_size_that_was_counted(family):
    session = HFModel(tiny_model(family)).session()
    session.prefill(list(range(3, 23)))
    num_bytes = sum(state.nbytes for state in state_tensors(session._states[-1].cache))
    shape = shape_of(tiny_config(family))
    assert num_bytes == shape.states > 0
    without = need_of(shape._replace(states=0), "float32", on_cpu=True)
    assert need_of(shape, "float32", on_cpu=True).run == without.run + 2 * num_bytes


def test_what_a_cpu_packs_counts_twice():
    on_cpu, on_gpu = (need_of(SHAPE, "float32", on_cpu) for on_cpu in (True, False))
    assert (on_cpu.weights, on_cpu.packed) == (4_000_000, 3_200_000)
    assert on_gpu.total == on_cpu.total - on_cpu.packed
    assert need_of(SHAPE, "float16", on_cpu=True).packed == 0


def test_a_model_of_any_size_is_packed_where_there_is_room_and_loaded_where_there_is_none(monkeypatch):
    large = SHAPE._replace(parameters=3 << 40, matrices=2 << 40)
    plan = Placement("large/model", "bfloat16", "cpu", need_of(large, "bfloat16", on_cpu=True))
    assert plan.need.packed == 4 << 40
    module = tiny_model("llama")
    assert HFModel(module).arithmetic.startswith("compiled forward" if crew() else "lean forward, packed")
    monkeypatch.setattr(free_memory, "free", lambda where: plan.need.least)
    memory.check_fits([plan])
    monkeypatch.setattr(free_memory, "free", lambda where: sum(p.nbytes for p in module.parameters()))
    with pytest.raises(ValueError, match=r"not enough memory: large/model needs about 6,"):
        memory.check_fits([plan])
    model = HFModel(module)
    assert model.arithmetic.startswith("lean forward, float32")
    assert "no memory for a packed copy" in model.note or not crew()


def test_only_models_with_a_forward_of_ours_are_packed():
    packed = {family for family in FAMILIES if shape_of(tiny_config(family)).matrices}
    assert packed == {"llama", "qwen3", "mistral"}


def test_models_that_do_not_fit_together_are_refused_with_numbers(monkeypatch):
    plan = Placement("some/model", "float32", "cpu", need_of(SHAPE, "float32", on_cpu=True))
    monkeypatch.setattr(free_memory, "free", lambda where: int(1.5 * plan.need.least))
    memory.check_fits([plan])
    with pytest.raises(ValueError, match=r"some/model needs about 5 MB in float32.*free") as raised:
        memory.check_fits([plan, plan])
    assert memory.gigabytes(int(1.5 * plan.need.least)) in str(raised.value)


def test_a_pair_that_does_not_fit_is_refused_before_its_weights_are_read(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, "llama", tokenizer=byte_level_tokenizer())
    (tmp_path / "model.safetensors").write_bytes(b"never read")
    monkeypatch.setattr(free_memory, "free", lambda where: 1000)
    with pytest.raises(ValueError, match="not enough memory"):
        specdec.load_pair(tmp_path)


def test_a_container_has_less_than_its_machine(tmp_path):
    def write(folder, **files):
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)

    assert free_memory.container_limit(tmp_path) > 1 << 60
    statistics = "anon 5\ninactive_file 300\ntotal_inactive_file 400\n"
    write(tmp_path, memory__max="max\n", memory__current="700\n", memory__stat=statistics)
    assert free_memory.container_limit(tmp_path) > 1 << 60
    write(tmp_path, memory__max="1000\n")
    assert free_memory.container_limit(tmp_path) == 1000 - 700 + 300
    (tmp_path / "memory.max").unlink()
    write(
        tmp_path / "memory",
        memory__limit_in_bytes="1000",
        memory__usage_in_bytes="700",
        memory__stat=statistics,
    )
    assert free_memory.container_limit(tmp_path) == 1000 - 700 + 400


_SIZES = {
    "Qwen/Qwen3-8B": ("Qwen3", 151_936, 4096, 12_288, 36, 32, 8, 128, False),
    "Qwen/Qwen3-0.6B": ("Qwen3", 151_936, 1024, 3072, 28, 16, 8, 128, True),
    "Qwen/Qwen2.5-7B-Instruct": ("Qwen2", 152_064, 3584, 18_944, 28, 28, 4, 128, False),
    "Qwen/Qwen2.5-0.5B-Instruct": ("Qwen2", 151_936, 896, 4864, 24, 14, 2, 64, True),
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": ("Llama", 49_152, 2048, 8192, 24, 32, 32, 64, True),
    "HuggingFaceTB/SmolLM2-135M-Instruct": ("Llama", 49_152, 576, 1536, 30, 9, 3, 64, True),
    "meta-llama/Llama-3.1-8B-Instruct": ("Llama", 128_256, 4096, 14_336, 32, 32, 8, 128, False),
    "meta-llama/Llama-3.2-1B-Instruct": ("Llama", 128_256, 2048, 8192, 16, 32, 8, 64, True),
}
"""Entries of their config.json: the family, and values of `_NAMES`."""
_NAMES = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "tie_word_embeddings"),
)


def known_models():
    models = (model for pair in known_pairs.PAIRS for model in (pair.target, pair.draft))
    return [*dict.fromkeys(model for model in models if model is not None)]


@pytest.mark.parametrize("model", known_models(), ids=lambda model: model.hub_id)
def test_known_pairs_have_the_size_of_their_architectures(model):
    family, *sizes = _SIZES[model.hub_id]
    entries = dict(zip(_NAMES, sizes, strict=True)) | {"max_position_embeddings": model.context_length}
    if family == "Qwen2":
        entries.pop("head_dim")  # the model has none of its own
    config = getattr(transformers, f"{family}Config")(**entries)
    assert model.shape == shape_of(config)


def measured():
    """The estimated and the largest measured memory, in bytes, of a model with 27 M parameters."""
    sizes = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 2, "num_attention_heads": 8}
    sizes |= {"vocab_size": 40_000, "max_position_embeddings": 2048}
    config = transformers.LlamaConfig(**sizes, eos_token_id=None, tie_word_embeddings=True)
    embedded = specdec.load_pair("stories")  # the first use of libraries takes memory too
    specdec.generate(embedded, "Once upon a time", max_new_tokens=4, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        transformers.LlamaForCausalLM(config).save_pretrained(folder)
        most = [before := used_bytes()]
        threading.Thread(target=watch, args=(most,), daemon=True).start()
        model = load_hf_model(folder, device="cpu")
        pair = specdec.ModelPair(model, model)
        tree = specdec.topology.batch(64)
        specdec.generate(pair, list(range(1500)), topology=tree, max_new_tokens=4, seed=0)
        return need_of(shape_of(config), "float32", on_cpu=True).total, most[0] - before


def used_bytes():
    """Bytes of this process that it shares with no other."""
    return psutil.Process().memory_full_info().uss


def watch(most):
    while True:
        most.append(max(used_bytes(), most.pop()))
        time.sleep(0.005)


def test_loading_takes_about_what_was_estimated():
    """Measured in a separate process: the memory that loading and one round really take."""
    code = "from tests.models.test_memory import measured; print(*measured())"
    estimate, peak = map(float, printed(code).split()[-2:])
    assert 0.7 * peak < estimate < 1.4 * peak, (estimate, peak)


@pytest.mark.parametrize(("accelerate", "where"), [(True, "auto"), (None, "cuda:0")])
def test_auto_is_one_gpu_without_accelerate(monkeypatch, accelerate, where):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(free_memory, "find_spec", lambda name: accelerate)
    assert free_memory.place("auto") == where
    assert checked_device("auto") == (None if accelerate else torch.device("cuda:0"))


def test_names_of_one_place_are_one_place():
    assert free_memory.place("cpu:0") == free_memory.place("cpu") == "cpu"
    assert free_memory.place("cuda") == "cuda:0"


def test_the_dtype_that_auto_loads_is_the_stored_one():
    assert memory.stored_dtype(tiny_config("llama", dtype="bfloat16")) == "bfloat16"
    assert memory.stored_dtype(tiny_config("llama")) == "float32"
    assert memory.stored_dtype(tiny_config("llama", dtype=torch.float16)) == "float16"
