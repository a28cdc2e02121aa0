"""Pickled weights are never opened, even if an index, a configuration, an adapter or a link names them."""

import json
import shutil

import pytest
import torch

import specdec
from specdec.models import load_hf_model
from tests.helpers.small_hub import COMMIT, serving
from tests.helpers.tiny_checkpoints import change_config, save_checkpoint, tiny_model
from tests.helpers.tokenizers import byte_level_tokenizer

TOKENIZER = byte_level_tokenizer()
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@pytest.fixture
def opens(monkeypatch):
    """Records what is unpickled, and which weights are read, while a test runs."""
    files = []

    def noter(kind):
        def tell(file, *_args, **_options):
            files.append((kind, str(file)))
            raise RuntimeError("was opened")

        return tell

    monkeypatch.setattr("torch.load", noter("unpickled"))
    monkeypatch.setattr("transformers.modeling_utils.safe_open", noter("read"))
    return files


@pytest.fixture
def folder(tmp_path):
    """A model in two shards, with pickled weights beside them and in the parent folder."""
    folder, model = tmp_path / "model", tiny_model("llama", vocab_size=len(TOKENIZER))
    model.save_pretrained(folder, max_shard_size=3 * model.num_parameters())
    TOKENIZER.save_pretrained(folder)
    for place in (folder, tmp_path):
        torch.save(model.state_dict(), place / "weights.bin")
        torch.save(model.state_dict(), place / "adapter_model.bin")
    shutil.copy(folder / SHARDS[1], tmp_path / "outside.safetensors")
    return folder


def write_index(folder, second):
    """Put the tensors of the second shard into a file of this name."""
    index = folder / "model.safetensors.index.json"
    files = json.loads(index.read_text())["weight_map"]
    files = {name: second if file == SHARDS[1] else file for name, file in files.items()}
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": files}))


def add_link(folder):
    (folder / "linked.safetensors").symlink_to(folder.parent / "weights.bin")
    write_index(folder, "linked.safetensors")


def replace_by_link(folder):
    (folder / SHARDS[1]).unlink()
    (folder / SHARDS[1]).symlink_to(folder.parent / "outside.safetensors")


def link_the_index(folder):
    shutil.move(folder / "model.safetensors.index.json", folder.parent / "index.json")
    (folder / "model.safetensors.index.json").symlink_to(folder.parent / "index.json")


HARMS = {
    "pickle in the index": lambda folder: write_index(folder, "weights.bin"),
    "folder above": lambda folder: write_index(folder, "../outside.safetensors"),
    "absolute": lambda folder: write_index(folder, str(folder.parent / "weights.bin")),
    "below": lambda folder: write_index(folder, "sub/weights.safetensors"),
    "backslash": lambda folder: write_index(folder, "..\\outside.safetensors"),
    "line end": lambda folder: write_index(folder, "weights.bin\n.safetensors/../weights.bin"),
    "nothing": lambda folder: write_index(folder, ""),
    "list": lambda folder: write_index(folder, ["weights.bin"]),
    "missing file": lambda folder: write_index(folder, "model-00003-of-00003.safetensors"),
    "link to a pickle": add_link,
    "link out": replace_by_link,
    "index is a link": link_the_index,
    "no JSON": lambda folder: (folder / "model.safetensors.index.json").write_text("{"),
    "no map": lambda folder: (folder / "model.safetensors.index.json").write_text('{"metadata": {}}'),
    "named by the config": lambda folder: change_config(folder, transformers_weights="adapter_model.bin"),
    "adapter": lambda folder: (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}'),
    "distributed": lambda folder: (folder / "shard-00001-model-00001-of-00001.safetensors").touch(),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=list(HARMS))
def test_nothing_is_opened_of_a_folder_that_leads_elsewhere(folder, opens, harm):
    harm(folder)
    for load in (load_hf_model, specdec.load_pair):
        with pytest.raises(ValueError, match=str(folder)):
            load(folder)
    assert opens == []


def test_nothing_is_opened_of_a_cached_snapshot_that_leads_elsewhere(folder, opens, monkeypatch):
    write_index(folder, "../weights.bin")
    cache = folder.parent / "cache"
    snapshot = cache / "models--tests--model" / "snapshots" / COMMIT
    shutil.copytree(folder, snapshot)
    refs = cache / "models--tests--model" / "refs"
    refs.mkdir()
    (refs / "main").write_text(COMMIT)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    with pytest.raises(ValueError, match=r"tests/model.*pickled ones are never loaded"):
        specdec.load_pair("tests/model")
    assert opens == []


@pytest.fixture
def hub(folder, monkeypatch):
    with serving({"tests/model": folder}, monkeypatch, folder.parent / "cache") as hub:
        yield hub


@pytest.mark.parametrize("harm", ["pickle in the index", "named by the config", "adapter"])
def test_the_weights_of_a_hub_model_that_leads_elsewhere_are_not_even_fetched(hub, folder, opens, harm):
    HARMS[harm](folder)
    with pytest.raises(ValueError, match="tests/model"):
        specdec.load_pair("tests/model")
    assert opens == []
    assert not list((folder.parent / "cache").rglob("*.bin"))
    assert not list((folder.parent / "cache").rglob(SHARDS[0]))


def test_shards_load_from_a_folder_a_linked_folder_and_a_hub(hub, folder):
    (folder.parent / "linked").symlink_to(folder)
    for place in (folder, folder.parent / "linked", "tests/model"):
        assert load_hf_model(place).capability == "tree"


def test_a_pickle_beside_good_weights_is_left_alone(tmp_path):
    save_checkpoint(tmp_path, "llama")
    (tmp_path / "pytorch_model.bin").write_bytes(b"never read")
    (tmp_path / "model.safetensors.index.json").write_text("never read")
    assert load_hf_model(tmp_path).capability == "tree"
