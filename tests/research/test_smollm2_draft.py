"""A small version of training a draft that scores a part of its target's ids: a random target, a few
steps."""

import json
from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import specdec
from research.training.__main__ import main
from research.training.learner import gap_of, tempered
from research.training.llama import Shape
from research.training.loop import Rates
from research.training.smollm2_draft import LESSONS, MEASURED, Recipe, begun, most_used, train
from specdec.models import HFModel
from specdec.models.partial import CONFIG, load_partial
from specdec.pair import ModelPair

SMALL = Recipe(
    shape=Shape(1, 16, 24, 2),
    scored=48,
    context=64,
    records=2,
    rows=4,
    length=20,
    top=12,
    rates=Rates(warm_up=2, decay_from=0.5),
    lessons=replace(LESSONS, step_tokens=40),
    steps=4,
)


@pytest.fixture(scope="module")
def pair():
    """A random target with the story pair's tokenizer. Its likeliest tokens are the same few at every
    position."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
    tokenizer = specdec.load_pair("stories", device="cpu").tokenizer
    target = LlamaForCausalLM(LlamaConfig(vocab_size=2048, max_position_embeddings=64, **sizes)).eval()
    torch.nn.init.normal_(target.lm_head.weight, std=0.5)
    return ModelPair(HFModel(target, "target"), None, tokenizer)


@pytest.fixture(scope="module")
def trained(pair, tmp_path_factory):
    """The folder of a training that is complete."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "stories.txt").write_text("Tom has a red ball.<|endoftext|>Lily sees a big bird." * 10)
    train(folder / "stories.txt", folder, folder / "out", pair, SMALL)
    return folder


def test_the_written_draft_drafts_for_its_target(pair, trained, capsys):
    entries = json.loads((trained / "out" / CONFIG).read_text())
    assert entries["vocab_size"] == 2048
    ours = ModelPair(pair.target, load_partial(trained / "out", pair.target), pair.tokenizer)
    settings = {"max_new_tokens": 20, "seed": 0}
    plain = specdec.generate(ours, [5], method="ar", **settings)
    assert specdec.generate(ours, [5], method="ersd", **settings).token_ids == plain.token_ids


def test_only_missing_records_are_sampled(pair, trained):
    (trained / "train-000.pt").unlink()
    before = (trained / "train-001.pt").stat().st_mtime_ns
    train(trained / "stories.txt", trained, trained / "out", pair, SMALL)
    assert (trained / "train-000.pt").exists()
    assert (trained / "train-001.pt").stat().st_mtime_ns == before


def test_the_scored_ids_have_the_most_probability_in_all_records():
    top, p = torch.tensor([[[1, 2]], [[7, 2]]]), torch.tensor([[[0.6, 0.3]], [[0.5, 0.4]]]).half()
    assert most_used([{"top": top[:1], "p": p[:1]}, {"top": top[1:], "p": p[1:]}], 9, 2).tolist() == [1, 2]


@pytest.mark.parametrize(("heat", "late"), [(1.0, 0.0), (0.7, 0.5), (1.0, 1.0)])
def test_the_gradient_by_parts_is_the_gradient_of_the_loss(pair, trained, heat, late):
    """The gradient is computed for some positions at a time. Here autograd computes it from the whole
    loss."""
    embedding = pair.target.module.get_input_embeddings().weight.detach()
    _, learner = begun(embedding, trained, SMALL)
    record, rows = learner.records[0], torch.tensor([0, 2])
    weight = torch.rand(2 * SMALL.length, generator=torch.Generator().manual_seed(1))
    weight /= weight.sum()
    learner.add_gradients(record, rows, late, weight, heat)
    have = {name: p.grad.clone() for name, p in learner.model.named_parameters() if p.grad is not None}
    learner.model.zero_grad(set_to_none=True)
    logits = learner.logits(record, rows).float() / heat
    place = learner.place[record["top"][rows].long()].flatten(0, 1)
    q = logits.softmax(-1).gather(-1, place.clamp(min=0))
    gap = gap_of(tempered(record["p"][rows].flatten(0, 1).float(), heat), q, place >= 0)
    (((1 - 0.8 * late) * gap.kl + late * (gap.tv + gap.race)) @ weight).backward()
    for name, parameter in learner.model.named_parameters():
        if parameter.grad is not None:
            largest = parameter.grad.abs().max()
            assert (have[name] - parameter.grad).abs().max() < 0.03 * largest  # the gradients are bfloat16


def test_the_command_names_what_is_wrong(tmp_path):
    command = ["--pair", "smollm2-draft", "--work", str(tmp_path)]
    with pytest.raises(ValueError, match="needs --stories and --work"):
        main(command)
    with pytest.raises(ValueError, match=r"stories = .* is not a file"):
        main([*command, "--stories", str(tmp_path / "stories")])


def test_measured_records_are_held_out(pair, trained):
    for name, heat in MEASURED.items():
        record = torch.load(trained / name, weights_only=True)
        assert (record["temperature"] == heat).all()
