"""Pairs from folders and from memory, and arguments that are refused."""

import json
import shutil

import pytest
import tokenizers
import torch
import transformers

import specdec
from specdec.models import MarkovModel
from tests.helpers.texts import ersd_as_plain
from tests.helpers.tiny_checkpoints import change_config, save_checkpoint, tiny_model
from tests.helpers.tokenizers import byte_level_tokenizer

TOKENIZER = byte_level_tokenizer()
SIZE = len(TOKENIZER)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Checkpoints of two families with one tokenizer. The draft's logits are padded."""
    root = tmp_path_factory.mktemp("checkpoints")
    save_checkpoint(root / "target", "llama", tokenizer=TOKENIZER)
    save_checkpoint(root / "draft", "qwen3", seed=1, tokenizer=TOKENIZER, vocab_size=SIZE + 20)
    return root


def test_a_pair_from_folders_decodes_text_and_cuts_padding(folders):
    pair = specdec.load_pair(folders / "target", draft=folders / "draft", dtype="float32")
    assert pair.vocab_size == SIZE
    [g] = ersd_as_plain(pair, "the cat", [None], [2], max_new_tokens=30)
    assert g.prompt_ids == tuple(TOKENIZER.encode("the cat"))
    assert all(node.token_id < SIZE for round in g.rounds for node in round.nodes)


@pytest.mark.parametrize(
    ("options", "dtypes"),
    [
        ({"dtype": "bfloat16", "draft_dtype": "float32", "device": "cpu"}, (torch.bfloat16, torch.float32)),
        ({"dtype": torch.float32, "device": torch.device("cpu")}, (torch.float32, torch.float32)),
        ({"dtype": "float32", "device": "cpu:0"}, (torch.float32, torch.float32)),
    ],
)
def test_dtypes_and_devices_may_be_torch_s_own_and_the_draft_s_its_own(folders, options, dtypes):
    pair = specdec.load_pair(str(folders / "target"), folders / "draft", **options)
    assert (pair.target.dtype, pair.draft.dtype) == dtypes
    assert pair.target.device.type == "cpu"
    assert len(specdec.generate(pair, "the", max_new_tokens=9, seed=0).token_ids) <= 9


@pytest.mark.parametrize(
    "pair", [{"target": "stories"}, {"target": "smollm2"}, {"target": "no/such", "draft": "x/y"}]
)
def test_what_no_model_can_have_is_named_before_anything_is_read(pair, monkeypatch):
    monkeypatch.setattr("specdec.loading.find_source", None)
    dtypes = [("dtype", "x" * 90), ("draft_dtype", "int3"), ("draft_dtype", torch.int32)]
    for argument, value in (("device", "gpu"), ("draft_device", "cuda:99"), *dtypes):
        message = f"^{argument} = .{{1,60}}( is none of|: this machine has no such)"
        with pytest.raises(ValueError, match=message):
            specdec.load_pair(**pair, **{argument: value})


def test_the_name_of_a_pair_is_also_that_of_a_draft_for_other_targets(folders, monkeypatch):
    monkeypatch.setattr(specdec.smollm2, "weights", lambda: folders / "draft")
    pair = specdec.load_pair(folders / "target", "smollm2")
    assert pair.draft.name.endswith("/draft")
    with pytest.raises(ValueError, match="can't draft for this target"):
        # the draft of this project, which reads the real model's embedding
        specdec.load_pair("smollm2", "smollm2")


def uniform(size):
    return MarkovModel(torch.full((size,), 1 / size))


def test_a_prompt_in_memory_may_be_empty_and_holds_whole_characters():
    pair = specdec.ModelPair(uniform(SIZE), tokenizer=TOKENIZER)
    assert pair.encode("") == [TOKENIZER.eos_token_id]
    with pytest.raises(ValueError, match="empty and no id is given"):
        pair.encode([])
    with pytest.raises(ValueError, match="half a character"):
        pair.encode("\ud83d hi")


@pytest.mark.parametrize(("ids", "ends"), [([5, 6], {0, 5, 6}), (-1, {0})])
def test_texts_end_with_what_tokenizer_and_generation_settings_say(ids, ends):
    """A negative id ends no text. The settings' tokens are not cut off, though the tokenizer lacks them."""
    model = tiny_model("llama", vocab_size=SIZE)
    model.generation_config.eos_token_id = ids
    assert specdec.ModelPair(model, tokenizer=TOKENIZER).eos_ids == ends
    model.generation_config.eos_token_id = [9, 20]
    assert specdec.ModelPair(model, tokenizer=tokenizer_with_gaps()).vocab_size == 21


def test_what_is_no_end_of_text_is_named_from_a_folder(folders, tmp_path):
    shutil.copytree(folders / "target", tmp_path / "bad")
    settings = tmp_path / "bad" / "generation_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"eos_token_id": "</s>"}))
    with pytest.raises(ValueError, match="eos_token_id = "):
        specdec.load_pair(tmp_path / "bad")
    change_config(tmp_path / "bad", eos_token_id=2.5)
    with pytest.raises(ValueError, match=r"config.json.*eos_token_id"):
        specdec.load_pair(tmp_path / "bad")


@pytest.mark.parametrize("ids", [[[1, 2]], "</s>", True, 2.5, [1, "x"], {"a": 1}, [None]], ids=repr)
def test_what_is_no_end_of_text_is_named_in_memory(ids):
    model = tiny_model("llama", vocab_size=SIZE)
    model.generation_config.eos_token_id = ids
    with pytest.raises(ValueError, match="eos_token_id = "):
        specdec.ModelPair(model, tokenizer=TOKENIZER)


LETTERS = {"a": 0, "b": 1, "c": 2, "<unk>": 3}


def tokenizer_with_gaps(ids=LETTERS, end=9, **special):
    """Words are letters. The token that ends a text has an id after a gap."""
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({**ids, "</s>": end}, unk_token="<unk>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>", **special)


def ending_at(token_id, size):
    distribution = torch.full((size,), 0.5 / (size - 1))
    distribution[token_id] = 0.5
    return MarkovModel(distribution)


@pytest.mark.parametrize(("method", "size"), [("ar", 10), ("gsd", 16), ("ersd", 16)])
def test_texts_end_with_a_token_behind_a_gap_of_ids(method, size):
    model = ending_at(9, size)
    pair = specdec.ModelPair(model, ending_at(9, size), tokenizer_with_gaps())
    assert (len(pair.tokenizer), pair.vocab_size) == (5, 10)
    for seed in range(9):
        run = specdec.generate(pair, "a b", method=method, max_new_tokens=60, seed=seed)
        assert (run.rounds[-1].finish, run.token_ids[-1]) == ("eos", 9)
        assert max(run.token_ids) < 10


def test_ids_of_a_gap_are_tokens_like_any_other_and_those_beyond_are_refused():
    pair = specdec.ModelPair(ending_at(9, 12), tokenizer=tokenizer_with_gaps())
    assert pair.encode([5, 9, 0]) == [5, 9, 0]
    for ids in ([10], [-1], [0, 11]):
        with pytest.raises(ValueError, match="not in the vocabulary, 0 to 9"):
            pair.encode(ids)


def test_tokens_added_beyond_the_models_logits_are_refused_in_lists_and_texts_alike():
    tokenizer = tokenizer_with_gaps()
    tokenizer.add_tokens(["<image>"])
    image = tokenizer.convert_tokens_to_ids("<image>")
    pair = specdec.ModelPair(ending_at(9, image), tokenizer=tokenizer)
    assert pair.vocab_size == image
    for prompt in ("a <image> b", [0, image, 1]):
        with pytest.raises(ValueError, match=f"prompt token id {image} is not in the vocabulary"):
            pair.encode(prompt)


@pytest.mark.parametrize(
    ("target", "draft", "tokenizer"),
    [
        (SIZE, SIZE - 1, TOKENIZER),
        (SIZE, SIZE + 5000, TOKENIZER),
        (50, 60, None),
        (10, 9, tokenizer_with_gaps()),
        (2, 2, tokenizer_with_gaps()),
    ],
)
def test_different_vocabularies_are_named(target, draft, tokenizer):
    with pytest.raises(ValueError, match=f"{draft:,}.*share one vocabulary"):
        specdec.ModelPair(uniform(target), uniform(draft), tokenizer)


def test_a_tokenizer_whose_texts_could_never_end_is_named():
    tokenizer = tokenizer_with_gaps(end=4)
    tokenizer.add_special_tokens({"eos_token": "<end>"})
    with pytest.raises(ValueError, match=r"'<end>', id 5, but the target scores 5"):
        specdec.ModelPair(uniform(5), tokenizer=tokenizer)


@pytest.mark.parametrize("missing", ["nowhere/at-all", "./no such folder"])
def test_what_is_not_there_is_named(missing, folders, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for options in ({"target": missing}, {"target": folders / "target", "draft": missing}):
        with pytest.raises(ValueError, match=missing):
            specdec.load_pair(**options)
    with pytest.raises(ValueError, match="needs a target"):
        specdec.load_pair(draft=folders / "draft")
    with pytest.raises(ValueError, match="report = 5"):
        specdec.load_pair(report=5)
    with pytest.raises(ValueError, match="download = 'no'"):
        specdec.load_pair(download="no")


def break_weights(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda folder: change_config(folder, num_hidden_layers=5), "lacks .* weights"),
        (lambda folder: change_config(folder, hidden_size=64), "other sizes"),
        (break_weights, "broken"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "no tokenizer"),
        (lambda folder: (folder / "model.safetensors").unlink(), "has no weights"),
        (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), "pickled"),
        (lambda folder: (folder / "config.json").unlink(), "no config.json"),
        (lambda folder: change_config(folder, model_type="unheard-of"), "config.json"),
        (lambda folder: change_config(folder, num_attention_heads="many"), "config.json"),
    ],
    ids=["layers", "sizes", "truncated", "tokenizer", "weights", "pickle", "config", "type", "values"],
)
def test_a_broken_checkpoint_is_refused_with_its_cause(tmp_path, harm, message):
    save_checkpoint(tmp_path, "llama", tokenizer=TOKENIZER)
    harm(tmp_path)
    with pytest.raises(ValueError, match=message):
        specdec.load_pair(tmp_path)


ENTRIES = [("llama", "sliding_window"), ("llama", "output_hidden_states"), ("gpt2", "sliding_window")]
ENTRIES += [("mistral", "sliding_window"), ("gemma3", "sliding_window"), ("gemma3", "query_pre_attn_scalar")]
VALUES = [2.5, "x", [1], {"a": 1}, -4, "x", -4, [1], "x", 2.5, {"a": 1}, -4]
"""Two for each entry, each value for a sliding window."""


@pytest.mark.parametrize(
    ("family", "key", "value"), [(*entry, value) for entry, value in zip(ENTRIES * 2, VALUES)], ids=str
)
def test_entries_that_make_no_sense_are_named_or_ignored_as_the_model_does(tmp_path, family, key, value):
    save_checkpoint(tmp_path, family, tokenizer=TOKENIZER)
    change_config(tmp_path, **{key: value})
    try:
        pair = specdec.load_pair(tmp_path)
        specdec.generate(pair, "the cat", method="ar", max_new_tokens=12, seed=0)
        text = pair.target.name
    except ValueError as error:
        text = str(error)
    assert tmp_path.name in text


@pytest.mark.parametrize("value", ["w1", 5, {}, transformers.PreTrainedTokenizerFast], ids=str)
def test_what_is_no_tokenizer_is_named(value):
    for tokenizer, its_own in ((value, None), (TOKENIZER, value)):
        with pytest.raises(ValueError, match="is not a tokenizer of a language model"):
            specdec.ModelPair(uniform(SIZE), uniform(SIZE), tokenizer, its_own)


def test_a_text_that_the_tokenizer_can_not_split_is_named():
    pair = specdec.ModelPair(ending_at(1, 2), tokenizer=tokenizer_with_gaps({"a": 0}, end=1))
    assert pair.encode("a") == [0]
    with pytest.raises(ValueError, match="can't split the prompt"):
        pair.encode("zz")


def test_a_tokenizer_that_panics_is_named_and_what_ends_a_program_is_not_held_back(monkeypatch):
    class PanicException(BaseException):
        """Raises errors as Rust's panics arrive in Python."""

    pair = specdec.ModelPair(uniform(SIZE), tokenizer=byte_level_tokenizer())
    for raised, expected in ((PanicException, ValueError), (KeyboardInterrupt, KeyboardInterrupt)):

        def fails(*_, raised=raised, **__):
            raise raised("at the first letter")

        monkeypatch.setattr(type(pair.tokenizer), "__call__", fails)
        with pytest.raises(expected, match="at the first letter"):
            pair.encode("the cat")


@pytest.mark.parametrize("model", [None, "gpt2", torch.nn.Linear(2, 2), [tiny_model("llama")]], ids=type)
def test_what_is_no_model_is_named_in_short(model):
    with pytest.raises(ValueError, match=r"^.{,200}can't be used as a model.{,200}$"):
        specdec.ModelPair(model)
