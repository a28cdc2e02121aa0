"""The embedded pair: the committed files, and a small version of the whole training, killed and resumed."""

import json
import random
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from research.training.__main__ import main
from research.training.learner import gap_of, race_agreement
from research.training.loop import Trainer
from research.training.prompts import END
from research.training.records import sampled
from research.training.stories.recipe import SMOKE
from research.training.stories.stages import MODELS, train
from research.training.stories.texts import read_texts
from specdec import theory
from specdec.models import HFModel
from specdec.pair import ModelPair
from specdec.shipped import ASSETS, EMBEDDED


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """A file of random words."""
    path, words = tmp_path_factory.mktemp("corpus") / "stories.txt", list("abcdefgh")
    draw = random.Random(0)

    def text(count):
        return "\n".join(" ".join(draw.choices(words, k=12)) for _ in range(count // 12))

    path.write_text(f"\n{END}\n".join(text(48) for _ in range(120)))
    return path


def trained(stories, folder, recipe=SMOKE):
    train(stories, folder / "work", folder / "out", recipe)
    return weights(folder)


def weights(folder):
    files = [path for name in MODELS for path in sorted((folder / "out" / name).glob("*.safetensors"))]
    return {(path.parent.name, key): value for path in files for key, value in load_file(path).items()}


@pytest.fixture(scope="module")
def finished(stories, tmp_path_factory):
    """The folder of a training by the command."""
    folder = tmp_path_factory.mktemp("training")
    paths = f"--stories {stories} --work {folder / 'work'} --out {folder / 'out'}".split()
    main(["--pair=stories", *paths, "--smoke"])
    return folder


def test_a_killed_run_goes_on_and_ends_with_the_same_weights(stories, finished, tmp_path, monkeypatch):
    ours = weights(finished)
    one_step, killed = Trainer.one_step, set()

    def one_step_unless_killed(self, backward):
        self.checkpoint_seconds = 0.0
        if self.step == 4 and self.name not in killed:
            killed.add(self.name)
            raise KeyboardInterrupt
        one_step(self, backward)

    monkeypatch.setattr(Trainer, "one_step", one_step_unless_killed)
    for _ in MODELS:
        with pytest.raises(KeyboardInterrupt):
            trained(stories, tmp_path / "killed")
    theirs = trained(stories, tmp_path / "killed")
    assert killed == set(MODELS)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_the_command_trains_and_measures(finished):
    figures = json.loads((finished / "out" / "measurements.json").read_text())
    assert 0 < figures["acceptance"]["ersd"]["mean"] <= figures["acceptance"]["gsd"]["mean"] <= 1


def test_a_work_folder_belongs_to_one_recipe(stories, finished):
    with pytest.raises(ValueError, match="other settings"):
        trained(stories, finished, replace(SMOKE, seed=1))


def test_a_file_without_enough_stories_is_named(tmp_path):
    (tmp_path / "few.txt").write_text(END.join(["One.", "Two.", " \n"]))
    for path, message in ((tmp_path, "is not a file of texts"), (tmp_path / "few.txt", "has 2 stories; at")):
        with pytest.raises(ValueError, match=message):
            read_texts(path, 5)


def test_every_fifth_story_is_held_out_and_no_other(stories):
    parts = read_texts(stories, 5)
    texts = [text.strip() for text in stories.read_text().split(END)]
    assert parts["stories_held_out"] == texts[4::5]
    assert parts["stories"] == [story for number, story in enumerate(texts) if number % 5 != 4]


@pytest.mark.parametrize("left_out", [0, 2])
def test_the_loss_uses_the_exact_acceptance_of_both_methods(left_out):
    """left_out: tokens that the draft does not score. Their entries of q must be ignored."""
    logits = 2 * torch.randn(2, 50, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    inside = (torch.arange(12) >= left_out).expand(50, 12)
    p, q = logits[0].softmax(-1), logits[1].masked_fill(~inside, -torch.inf).softmax(-1)
    top = p.topk(11)  # the twelfth token is what is left to 1
    p_inside, entries = (each.gather(-1, top.indices) for each in (inside, q.where(inside, 0.1)))
    atol = 1e-5 if left_out else 1e-7
    gap = gap_of(top.values, entries, p_inside if left_out else None)
    torch.testing.assert_close(1 - gap.tv, theory.gsd_acceptance(p, q), atol=atol, rtol=0)
    torch.testing.assert_close(1 - gap.race, theory.ersd_acceptance(p, q), atol=atol, rtol=0)
    if not left_out:
        torch.testing.assert_close(race_agreement(p, q), theory.ersd_acceptance(p, q))
        torch.testing.assert_close(gap.kl / torch.tensor(2.0).log(), theory.kl_divergence(p, q))


@pytest.fixture(scope="module")
def embedded():
    return {
        name: AutoModelForCausalLM.from_pretrained(EMBEDDED / name, dtype=torch.float32) for name in MODELS
    }


@torch.no_grad()
def test_sampling_records_the_probabilities_of_a_plain_forward(embedded):
    model = embedded["draft"]
    record = sampled(ModelPair(HFModel(model)), [[0], [0, 5, 6]], 70, 16, seed=0)
    p = model(record["ids"][:, :-1].long()).logits.softmax(-1)
    torch.testing.assert_close(record["p"].float(), p.gather(-1, record["top"].long()), atol=1e-3, rtol=1e-3)
    assert record["ids"][1, :3].tolist() == [0, 5, 6]
    assert record["own"].sum(-1).tolist() == [70, 68]


def test_a_row_goes_on_after_the_end_of_a_text_with_what_is_given_next(embedded):
    def after(row, ids):
        assert (row, ids[-1]) == (0, 0)
        return [7, 8]

    record = sampled(ModelPair(HFModel(embedded["target"])), [[0]], 400, 1, seed=0, continuation=after)
    ids, own = record["ids"][0].tolist(), record["own"][0].tolist()
    ends = [place for place, token_id in enumerate(ids[:-3]) if own[place] and token_id == 0]
    assert ends
    for end in ends:
        assert ids[end + 1 : end + 3] == [7, 8]
        assert own[end : end + 4] == [True, False, False, True]


def test_the_committed_files_are_small_and_safe():
    files = [path for path in EMBEDDED.rglob("*") if path.is_file()]
    assert max(path.stat().st_size for path in files) < 10e6
    assert sum(path.stat().st_size for path in files) < 40e6
    assert {path.suffix for path in files} <= {".safetensors", ".json", ".md"}


def test_the_model_card_says_what_was_measured():
    figures, card = json.loads((EMBEDDED / "measurements.json").read_text()), EMBEDDED / "README.md"
    acceptance, losses = figures["acceptance"], figures["losses"]
    points = json.loads((ASSETS / "results" / "rules.json").read_text())["points"]
    table = [
        f"{row['value']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
        for row in points
        if row["temperature"] == 1
        and row["tree"] in ("sequence(4)", "optimal(16)")
        and row["method"] in ("gsd", "ersd")
    ]
    assert len(table) == 4
    expected = [
        f"**{figures['cost']['ratio']:.1f}** times",
        *(f"{count:,}" for count in figures["parameters"].values()),
        *(f"{acceptance[name]['mean']:.3f}" for name in ("gsd", "ersd", "kl_bits")),
        *(f"{losses[name]['nats_per_token']:.3f}" for name in losses if name != "copied"),
        *table,
    ]
    assert [figure for figure in expected if figure not in card.read_text()] == []


@pytest.mark.parametrize("text", ["Zoë says: 日本語 🙂", "  two  spaces \n\n and\ttab\r\n", "it 's a ."])
def test_any_text_comes_back_from_the_tokenizer(text):
    tokenizers = [AutoTokenizer.from_pretrained(EMBEDDED / name) for name in MODELS]
    assert tokenizers[0].get_vocab() == tokenizers[1].get_vocab()
    assert 2048 <= len(tokenizers[0]) <= 4096
    assert tokenizers[0].decode(tokenizers[0](text)["input_ids"]) == text
