"""Laws of the models: whatever the cache does, the logits equal those of plain forward passes."""

from __future__ import annotations

from functools import cache

import pytest
import torch
import transformers

import specdec
from specdec.models import HFModel, load_hf_model
from specdec.models.cache import TreeCache
from specdec.models.selfcheck import PlainForwards, relative_error
from specdec.models.sessions.cached import SequenceSession
from specdec.models.sessions.own_forward import CompiledSession
from specdec.models.sessions.plain import PlainSession
from specdec.topology import batch, sequence, specinfer
from tests.helpers.sessions import Replay, random_line, random_tree, scored
from tests.helpers.texts import ersd_as_plain
from tests.helpers.tiny_checkpoints import (
    FAMILIES,
    VOCAB_SIZE,
    WINDOW,
    save_checkpoint,
    tiny_config,
    tiny_model,
)

TREE = ("llama", "qwen3", "mistral", "phi3", "gemma2", "gemma3", "gpt2", "opt", "gpt_neox")
SEQUENCE = ("mpt", "bloom", "gpt_neo")
STATES = ("lfm2", "qwen3_next", "mamba2")
LIMITS = {torch.float64: 1e-10, torch.float32: 2e-5}
# Softmax in float32, whatever the dtype of the model.
SINGLE_PRECISION_INSIDE = {"gemma2": 1e-6}


@cache
def model_of(family: str, dtype: torch.dtype = torch.float32, seed: int = 0) -> HFModel:
    return HFModel(tiny_model(family, dtype, seed), name=family)


@pytest.mark.parametrize("family", FAMILIES)
def test_self_check_finds_what_each_family_can_do(family):
    expected = "tree" if family in TREE else "ar" if family == "mamba" else "sequence"
    model = model_of(family)
    assert model.capability == expected, model.capability_reason
    assert model.capability_reason.startswith(family)
    assert model.vocab_size == VOCAB_SIZE


@pytest.mark.parametrize("prefix", [0, 1, 2 * WINDOW + 3])
@pytest.mark.parametrize("family", TREE)
def test_tree_logits_equal_plain_forwards_over_each_line(family, prefix):
    for dtype, limit in LIMITS.items():
        replay = Replay(model_of(family, dtype), seed=prefix, prefix=prefix)
        deeper_than_the_window = list(range(8, 8 + WINDOW + 2))
        have, want = replay.forward(random_tree(replay.rng, 9) + deeper_than_the_window)
        assert have.dtype == dtype
        limit = max(limit, SINGLE_PRECISION_INSIDE.get(family, 0))
        assert relative_error(have, want) < limit, (family, dtype)


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2"])
def test_400_rounds_of_trees_and_keeps_leave_the_cache_of_a_fresh_forward(family):
    """Long enough for the cache to grow."""
    replay = Replay(model_of(family, torch.float64), seed=1, prefix=3)
    for _ in range(400):
        parents = random_tree(replay.rng, 2)
        replay.advance(parents)
        if replay.rng.random() < 0.5:
            more = random_tree(replay.rng, 3, first=2)
            replay.advance(more)
            parents += more
        replay.commit(random_line(replay.rng, parents) if len(replay.committed) < 450 else [])
    have, want = replay.forward([-1, 0, 0])
    assert len(replay.committed) > 300
    assert relative_error(have, want) < 1e-9


@pytest.mark.parametrize("family", SEQUENCE)
def test_sequences_equal_plain_forwards(family):
    replay = Replay(model_of(family), seed=0, prefix=WINDOW + 5)
    assert isinstance(replay.session, SequenceSession)
    assert replay.largest_error(6) < 2e-5


@pytest.mark.parametrize(
    ("family", "parents", "message"),
    [
        *((family, [-1, -1], "not the chain") for family in (*SEQUENCE, *STATES)),
        ("mamba", [-1, 0], "one token at a time"),
    ],
)
def test_drafts_that_a_model_can_not_score_are_refused(family, parents, message):
    session = model_of(family).session()
    with pytest.raises(ValueError, match=message):
        session.forward(torch.tensor([5, 6]), parents)


@pytest.mark.parametrize("kind", ["own cache", "no cache"])
def test_token_by_token_equals_plain_forwards(kind):
    replay = Replay(model_of("mamba"), seed=0, prefix=5)
    if kind == "no cache":
        replay.session = PlainSession(replay.model)
        replay.session.prefill(replay.committed)
    assert replay.largest_error(8) < 2e-5


def test_a_model_that_ignores_masks_is_not_trusted_with_trees():
    class Deaf(transformers.LlamaForCausalLM):
        """Attends in its own way, whatever the mask says."""

        def forward(self, *args, **kwargs):
            return super().forward(*args, **kwargs | {"attention_mask": None, "position_ids": None})

    model = tiny_model("llama")
    model.__class__ = Deaf
    assert HFModel(model).capability == "sequence"


def test_a_model_whose_logits_forget_the_context_proves_nothing():
    model = tiny_model("llama")
    for layer in model.model.layers:
        torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
    checked = HFModel(model)
    assert checked.capability == "sequence"
    assert "under a wrong mask" in checked.capability_reason


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("family", ["llama", "gemma3", "mpt"])
def test_half_precision_errs_little_more_than_its_own_cached_decoding(family, dtype):
    model = model_of(family, dtype)
    assert model.capability == model_of(family).capability
    replay = Replay(model, seed=0, prefix=WINDOW + 4)
    have, want = replay.forward([-1, 0, 1])
    # the compiled forward pass sums in float32, and returns these sums
    assert have.dtype == (torch.float32 if isinstance(model.session(), CompiledSession) else dtype)
    own = PlainForwards(model.module, model.device).own_error(model._prepared, WINDOW + 1)
    assert relative_error(have.float(), want.float()) <= max(4 * own, 0.03)


def test_the_check_leaves_the_random_state_alone():
    model = tiny_model("llama")
    before = torch.get_rng_state()
    HFModel(model)
    assert torch.equal(before, torch.get_rng_state())


def test_a_long_prefill_in_chunks_equals_one_forward(monkeypatch):
    monkeypatch.setattr("specdec.models.sessions.cached.PREFILL_CHUNK", 7)
    for family in ("llama", "gemma3", "mistral", "gpt2", "mpt"):
        replay = Replay(model_of(family), seed=0, prefix=40)
        have, want = replay.forward([-1])
        assert relative_error(have, want) < 2e-5, family


def test_a_full_context_is_refused():
    model = HFModel(tiny_model("gpt2", n_positions=32))
    session = model.session()
    session.prefill([5] * 31)
    assert session.forward(torch.tensor([5]), [-1]).shape == (1, VOCAB_SIZE)
    with pytest.raises(ValueError, match="context of 32"):
        session.forward(torch.tensor([5]), [0])


def test_layers_of_any_shape_keep_the_same_rows():
    cache = TreeCache()
    rows = torch.arange(9.0).view(1, 1, 9, 1)
    for layer, (heads, size) in enumerate([(1, 2), (1, 2), (3, 4)]):
        cache.update(rows.expand(1, heads, 9, size), -rows.expand(1, heads, 9, 5), layer)
    cache.commit_all(3)
    for layer in cache.layers:
        layer.used = 9
    cache.commit(3, [1, 2, 4])
    for layer in cache.layers:
        assert layer.get_seq_length() == 6
        assert layer.keys[0, -1, :6, -1].tolist() == [0, 1, 2, 4, 5, 7]
        assert layer.values[0, -1, :6, -1].tolist() == [0, -1, -2, -4, -5, -7]


@pytest.mark.parametrize("family", ["llama", "gemma3", "mamba"])
def test_a_saved_model_loads_and_scores_the_same(tmp_path, family):
    folder = save_checkpoint(tmp_path / family, family)
    model = load_hf_model(folder, device="cpu")
    fresh = HFModel(tiny_model(family))
    assert relative_error(*(scored(each, [3, 4, 5], [6]) for each in (model, fresh))) < 1e-5
    assert (model.capability, model.dtype) == (fresh.capability, torch.float32)
    assert model.name == "/".join(folder.parts[-2:])


def test_dtype_is_taken_by_name_or_as_it_was_saved(tmp_path):
    folder = save_checkpoint(tmp_path, "llama", torch.bfloat16)
    assert load_hf_model(folder, device="cpu").dtype == torch.bfloat16
    assert load_hf_model(folder, device="cpu", dtype="float32").dtype == torch.float32
    assert load_hf_model(folder, device="cpu", dtype=torch.float16).dtype == torch.float16


def test_models_of_other_kinds_are_refused():
    torch.manual_seed(0)  # in one of eight random models of this kind, later tokens have hardly any effect
    sizes = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    bert = transformers.BertConfig(**sizes, intermediate_size=16, initializer_range=0.5)
    with pytest.raises(ValueError, match="not causal"):
        HFModel(transformers.BertForMaskedLM(bert))
    with pytest.raises(ValueError, match="no logits"):
        HFModel(transformers.GPT2Model(tiny_config("gpt2")))
    t5 = transformers.T5Config(vocab_size=20, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    with pytest.raises(ValueError, match="encoder-decoder"):
        HFModel(transformers.T5ForConditionalGeneration(t5))


@pytest.mark.parametrize("reported", [False, True])
def test_the_check_shows_a_bar_where_nothing_else_tells_the_progress(reported, tmp_path, capsys):
    transformers.utils.logging.enable_progress_bar()  # a command in this process may have switched them off
    save_checkpoint(tmp_path, "llama")
    load_hf_model(tmp_path, "cpu", **({"report": lambda progress: None} if reported else {}))
    assert (f"Checking {tmp_path.parent.name}/{tmp_path.name}: 100%" in capsys.readouterr().err) != reported


def test_the_embedded_pair_loads_offline_in_float32_and_takes_trees(pair):
    assert (str(pair.target.dtype), str(pair.draft.dtype)) == ("torch.float32", "torch.float32")
    assert (pair.target.capability, pair.draft.capability) == ("tree", "tree")


def test_ersd_on_the_embedded_pair_is_drafter_invariant_in_bfloat16():
    """Rounding once made two of three texts differ: now nothing depends on the tree. `test_processors.py` has
    float32."""
    pair = specdec.load_pair("stories", device="cpu", dtype="bfloat16")
    trees = (sequence(4), batch(4), specinfer(8), "auto")
    for seed, temperature in enumerate((0.0, 0.8, 1.0)):
        ersd_as_plain(pair, "Once upon a time", trees, [seed], max_new_tokens=80, temperature=temperature)
