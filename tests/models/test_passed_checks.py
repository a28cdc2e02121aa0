"""A model that passed the self-check is checked again only if something changed that the check depends on."""

import shutil
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

import specdec
from specdec.models import load_hf_model, passed_checks, prepare
from specdec.models.cached_folders import LIST
from specdec.models.kernels import compiled, decoder
from specdec.models.kernels.compiled import crew
from specdec.private_cache import VARIABLE
from specdec.shipped import EMBEDDED
from tests.helpers.tiny_checkpoints import change_config

pytestmark = pytest.mark.skipif(crew() is None, reason="without the compiled forward nothing is remembered")
WEIGHTS = "model.safetensors"


@pytest.fixture
def checks(monkeypatch):
    """The names of the models that are checked from now on."""
    checked, names = prepare._checked, []

    def counting(module, name):
        names.append(name)
        return checked(module, name)

    monkeypatch.setattr(prepare, "_checked", counting)
    return names


@pytest.fixture
def folder(tmp_path, monkeypatch, checks):
    """A model whose check is remembered in a cache of its own."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    shutil.copytree(EMBEDDED / "draft", tmp_path / "model")
    load(tmp_path / "model")
    assert len(checks) == 1
    checks.clear()
    return tmp_path / "model"


def load(folder, **options):
    return load_hf_model(folder, "cpu", **{"dtype": "float32"} | options)


def folder_of_check(folder):
    cache = folder.parent / "cache" / "specdec" / passed_checks.CACHE
    (path,) = (each for each in cache.iterdir() if each.is_dir())
    return path


def test_a_second_start_takes_the_check_and_gives_the_same_model(folder, checks):
    first, second = (specdec.load_pair(folder, device="cpu", dtype="float32") for _ in range(2))
    assert checks == []
    assert second.target.decoder is not None
    assert second.target.capability == "tree"
    assert "as plain forward passes do" in second.target.capability_reason
    text = {"max_new_tokens": 20, "seed": 1, "method": "ar"}
    unremembered = specdec.ModelPair(second.target.module, None, second.tokenizer)
    assert len(checks) == 1
    for name in ("vocab_size", "context_length", "capability", "note", "arithmetic"):
        assert getattr(second.target, name) == getattr(unremembered.target, name)
    texts = {specdec.generate(pair, "Once", **text).text for pair in (first, second, unremembered)}
    assert len(texts) == 1


def other_weights(folder, _):
    weights = load_file(folder / WEIGHTS)
    weights["model.norm.weight"][0] += 0.5
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


def other_code(name):
    return lambda _, monkeypatch: monkeypatch.setattr(f"specdec.models.{name}", lambda *_: "another one")


CHANGES = {
    "weights": other_weights,
    "configuration": lambda folder, _: change_config(folder, rms_norm_eps=1e-3),
    "libraries": other_code("passed_checks.version"),
    "code": other_code("passed_checks.code"),
    "processor": other_code("kernels.processor.description"),
    "dtype": lambda *_: {"dtype": "bfloat16"},
}
"""Functions that change something. They return options of loading, or None."""


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_model_with_another_of_these_is_checked(folder, checks, monkeypatch, change):
    load(folder, **(change(folder, monkeypatch) or {}))
    assert len(checks) == 1


def test_weights_rounded_by_rows_are_checked(folder, checks, monkeypatch):
    """The weights in memory are not those of the files."""
    monkeypatch.setenv(compiled.SWITCH, "0")
    load(folder, dtype="int8")
    load(folder, dtype="int8")
    assert len(checks) == 2


DAMAGES = {
    "gone": (passed_checks.LOGITS, None),
    "cut off": (passed_checks.LOGITS, lambda good: good[:-100]),
    "empty": (passed_checks.WEIGHTS, lambda _: b""),
    "a bit": (passed_checks.WEIGHTS, lambda good: good[:-1] + bytes([good[-1] ^ 1])),
    "other JSON": (LIST, lambda _: b"{}"),
    "no text": (LIST, lambda _: b"\xe9"),
}


@pytest.mark.parametrize(("name", "damage"), DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_folder_is_replaced(folder, checks, name, damage):
    path = folder_of_check(folder) / name
    good = path.read_bytes()
    path.unlink()
    if damage is not None:
        path.write_bytes(damage(good))
        path.chmod(0o600)
    load(folder)
    assert len(checks) == 1
    assert path.read_bytes() == good


def test_a_forward_that_computes_something_else_is_checked(folder, checks, monkeypatch):
    """The files are the same, but other weights are read from them."""
    norm = decoder.CompiledDecoder._norm

    def larger(self, each):
        return norm(self, each and SimpleNamespace(**vars(each), weight=each.weight * 1.01))

    monkeypatch.setattr(decoder.CompiledDecoder, "_norm", larger)
    model = load(folder)
    assert len(checks) == 1
    assert model.arithmetic.startswith("lean")


def test_packed_weights_are_mapped_and_those_of_former_versions_are_removed(folder, checks, monkeypatch):
    stored = load(folder).decoder.packed_tensors()
    fresh = specdec.models.HFModel(load(folder).module).decoder.packed_tensors()
    assert stored.keys() == fresh.keys()
    assert all(torch.equal(stored[name], fresh[name]) for name in fresh)
    before = folder_of_check(folder).name
    monkeypatch.setattr(passed_checks, "code", lambda: "another one")
    load(folder)
    after = folder_of_check(folder).name
    assert before != after


def test_a_model_in_memory_is_always_checked_and_so_are_changed_weights(folder, checks):
    model = load(folder)
    specdec.models.HFModel(model.module)
    specdec.models.HFModel(model.module)
    model.module.half()
    model.refresh()
    assert len(checks) == 3
    assert model.dtype == torch.float16


def test_a_file_above_two_gibibytes_has_a_checksum_of_its_content(tmp_path):
    with (tmp_path / WEIGHTS).open("wb") as file:  # the file is sparse, so it takes no room on the disk
        file.truncate((2 << 30) + 5)
    first = passed_checks.files_checksum(tmp_path)
    with (tmp_path / WEIGHTS).open("r+b") as file:
        file.seek((2 << 30) + 3)
        file.write(b"x")
    assert passed_checks.files_checksum(tmp_path) != first
