"""Many runs at once: each text is that of the run alone, whichever runs join, leave or fail."""

import pytest
import torch

import specdec
from research.batched import compared, plans
from specdec.context import ContextTree
from specdec.decoding import auto, run
from specdec.decoding.batch import PIECE, Batch
from specdec.models import HFModel, MarkovModel, attention, batching
from specdec.models.kernels import compiled
from specdec.models.lean import LeanDecoder
from specdec.race import Races
from specdec.topology import sequence, specinfer
from tests.helpers.context_trees import capricious
from tests.helpers.distributions import markov_pair
from tests.helpers.texts import endless, together_as_alone
from tests.helpers.tiny_checkpoints import tiny_model

PROMPTS = ([1], [3, 4, 5], [7] * 150)


@pytest.fixture(scope="module")
def pair():
    """A random pair on the lean forward pass. Both models have fewer keys than queries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(compiled.SWITCH, "0")  # the compiled forward pass has its own tests
        models = (HFModel(tiny_model("llama", num_hidden_layers=layers)) for layers in (3, 1))
        return endless(specdec.ModelPair(*models))


def joined(pair, *runs, **settings):
    """A batch, and runs in it of these prompts."""
    batch = Batch(pair)
    return batch, [batch.add(specdec.stream(pair, prompt, seed=0, **settings)) for prompt in runs]


def test_texts_are_those_of_the_runs_alone(pair):
    comparison = compared(pair, plans(pair, PROMPTS, runs=16, tokens=30, seed=1))
    assert comparison.different_tokens == 0
    assert comparison.tokens > 300
    assert comparison.together > 8


def test_noise_keyed_by_the_seat_would_be_noticed(pair):
    """Negative control: the places of runs decide which noise a run uses."""

    def by_seat(batch):
        for number, seat in enumerate(batch.members.values()):
            if seat.engine.races.seed != number:
                seat.engine.races = Races(number, pair.vocab_size)

    comparison = compared(pair, plans(pair, PROMPTS, runs=8, tokens=30, seed=1), by_seat)
    assert comparison.different_runs > 4


def test_seeing_another_run_s_cache_would_be_noticed(pair, monkeypatch):
    """Negative control: the attention of all texts uses the first text's cache."""
    init = attention.Attention.__init__

    def first_only(self, *arguments):
        init(self, *arguments)
        first, *others = self._texts
        for text in others:
            if text._keys[0].shape == first._keys[0].shape:
                text._keys, text._values = first._keys, first._values

    monkeypatch.setattr(attention.Attention, "__init__", first_only)
    with pytest.raises(AssertionError, match=r"^[12]"):  # the number of the run whose text differs
        together_as_alone(pair, [[3], [9], [20]], [1, 2, 3], topology=sequence(2), max_new_tokens=20)


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "mpt", "mamba", "qwen3_next"])
def test_models_without_a_lean_forward_answer_one_by_one(family):
    model = HFModel(tiny_model(family))
    pair = specdec.ModelPair(model, None if model.capability == "ar" else tiny_model(family, seed=1))
    settings = {"method": "ar"} if pair.draft is None else {"method": "gsd", "topology": sequence(3)}
    together_as_alone(pair, [[3], [4, 5], [6] * 90], [1, 2, 3], max_new_tokens=30, **settings)


def test_trees_grown_from_what_the_draft_shows_batch_too(pair):
    tree = ContextTree(capricious("ersd"), 5)
    settings = {"topology": [tree, sequence(2)], "max_new_tokens": 20}
    together_as_alone(pair, [[3], [4]], [1, 2], **settings)


@pytest.mark.parametrize("forward", ["lean", "compiled"])
def test_one_forward_of_the_target_scores_the_trees_of_all(pair, forward, monkeypatch):
    """Also of trees of other depths, which need more forwards of the draft."""
    if forward == "compiled":
        pair = endless(specdec.ModelPair(tiny_model("llama"), tiny_model("llama", num_hidden_layers=1)))
    calls, score = {}, batching._scored

    def counted(requests, pended):
        rows = [len(request.token_ids) for request in requests]
        calls.setdefault(requests[0].session.model, []).append(rows)
        return score(requests, pended)

    batch = Batch(pair)
    for method, tree in (("ar", None), ("ersd", sequence(1)), ("gsd", specinfer(8))):
        batch.add(specdec.stream(pair, [3], method=method, topology=tree, seed=0))
    batch.step()
    monkeypatch.setattr(batching, "_scored", counted)
    batch.step()
    assert calls[pair.target._prepared] == [[1, 2, 9]]
    assert len(calls[pair.draft._prepared][0]) == 2


def test_a_long_prompt_does_not_hold_the_others(pair):
    batch, (quick, long) = joined(pair, [3], [7] * 400, topology=sequence(2), max_new_tokens=64)
    steps = 0
    while not long.rounds:
        batch.step()
        steps += 1
        assert len(quick.rounds) == steps
    assert steps == 1 + -(-399 // PIECE)


def test_many_prompts_are_taken_in_step_by_step(pair):
    batch, runs = joined(pair, *([[7] * 129] * 6), method="ar")
    batch.step()
    lengths = [seat.engine.target.length for seat in batch.members.values()]
    assert lengths == [64, 64, 0, 0, 0, 0]
    while not all(run.rounds for run in runs):
        batch.step()


def test_a_run_can_leave_and_its_record_stays(pair):
    batch, (one, other) = joined(pair, [3], [4], topology=sequence(2))
    batch.step()
    batch.remove(one)
    assert len(batch) == 1
    assert len(one.generation.rounds) == 1
    while batch:
        batch.step()
    alone = specdec.generate(pair, [4], topology=sequence(2), seed=0)
    assert other.generation.token_ids == alone.token_ids
    with pytest.raises(ValueError, match="not in this batch"):
        batch.remove(one)


@pytest.mark.parametrize("method", ["ar", "gsd", "ersd"])
def test_broken_logits_end_the_run_that_they_belong_to(pair, method, monkeypatch):
    batch, (broken, other) = joined(pair, [3], [4], method=method, topology=sequence(2))
    session, answered = batch.members[broken].engine.target, batching.answers

    def spoiled(forwards):
        answers = answered(forwards)
        return [a * torch.nan if f.session is session else a for f, a in zip(forwards, answers, strict=True)]

    monkeypatch.setattr(batching, "answers", spoiled)
    errors = {}
    while batch:
        for progress in batch.step():
            if progress.error is not None:
                errors[progress.run] = progress.error
    assert list(errors) == [broken]
    assert "NaN" in str(errors[broken])
    alone = specdec.generate(pair, [4], method=method, topology=sequence(2), seed=0)
    assert other.generation.token_ids == alone.token_ids


def test_a_forward_that_fails_for_all_is_tried_for_each(pair, monkeypatch):
    hidden = LeanDecoder.hidden

    def short_of_memory(self, token_ids, rotation, texts):
        if len(texts) > 1:
            raise RuntimeError("not enough memory")
        return hidden(self, token_ids, rotation, texts)

    monkeypatch.setattr(LeanDecoder, "hidden", short_of_memory)
    together_as_alone(pair, [[3], [7] * 90], [1, 2], topology=specinfer(8), max_new_tokens=20)


def test_a_session_s_own_error_is_its_run_s(pair, monkeypatch):
    batch, (one, other) = joined(pair, [3], [4], topology=sequence(2))

    def full(parents):
        raise ValueError("full")

    monkeypatch.setattr(batch.members[one].engine.target, "pend", full)
    first, second = batch.step()
    assert (first.run, first.round, str(first.error)) == (one, None, "full")
    assert (second.run, second.error) == (other, None)


def test_generate_many_takes_one_setting_for_all_or_one_for_each():
    pair = markov_pair(6)
    settings = {"method": ["ar", "gsd", "ersd"], "topology": sequence(2), "max_new_tokens": 9}
    many = together_as_alone(pair, [[0], [1], [2]], [5, 6, 7], at_once=2, **settings)
    assert [g.method for g in many] == settings["method"]
    assert [g.seed for g in specdec.generate_many(pair, [[0], [1]], seed=8, max_new_tokens=2)] == [8, 8]
    for topology in (sequence(2), [sequence(2)] * 2, (sequence(2), sequence(2))):
        many = specdec.generate_many(pair, [[0], [1]], seeds=[5, 6], topology=topology)
        assert [g.paths for g in many] == [sequence(2).paths] * 2
    assert specdec.generate_many(pair, []) == []


def test_a_tree_is_planted_on_runs_whose_draft_has_no_room(monkeypatch):
    pair = specdec.ModelPair(
        HFModel(tiny_model("llama")), HFModel(tiny_model("llama", max_position_embeddings=64))
    )
    monkeypatch.setattr(
        auto.AutoTrees, "trees", lambda _, runs, texts: {run: sequence(2) for run in runs if run.follows}
    )
    prompts, settings = [[7] * 70, [8] * 100], {"seeds": [1, 2], "max_new_tokens": 8}
    many = specdec.generate_many(pair, prompts, topology="auto", **settings)
    alone = specdec.generate_many(pair, prompts, method="ar", **settings)
    assert [g.token_ids for g in many] == [g.token_ids for g in alone]


def test_what_does_not_fit_is_named():
    pair, other = markov_pair(6), markov_pair(6, seed=4)
    for prompts, settings, message in (
        *((prompts, {}, f"prompts = {prompts!r} is not a list") for prompts in ("once", None, 5)),
        *(([[0], [1]], {"seeds": seeds}, f"seeds = {seeds!r} is not a list") for seeds in ("12", 5)),
        ([[0], [1]], {"seeds": [1, 2], "seed": 3}, "seed and seeds are both given"),
        ([[0], [1]], {"seeds": [1]}, "seeds has 1 values for 2 prompts"),
        ([[0], [1], [2]], {"method": ["ar", "gsd"]}, "method has 2 values for 3 prompts"),
        ([[0]], {"at_once": 0}, "at_once = 0"),
    ):
        with pytest.raises(ValueError, match=message):
            specdec.generate_many(pair, prompts, **settings)
    with pytest.raises(ValueError, match="the batch to"):
        Batch(other).add(specdec.stream(pair, [0]))
    run = specdec.stream(pair, [0])
    next(run)
    with pytest.raises(ValueError, match="begun already"):
        Batch(pair).add(run)
    member = Batch(pair).add(specdec.stream(pair, [0]))
    with pytest.raises(ValueError, match="begun already"):
        next(member)


def test_an_error_of_one_run_ends_generate_many():
    broken = MarkovModel(torch.eye(3), context_length=8)
    pair = specdec.ModelPair(broken)
    with pytest.raises(ValueError, match="leaves no room"):
        specdec.generate_many(pair, [[0], [0] * 8], method="ar")


def test_auto_is_chosen_for_as_many_runs_as_there_are(pair, monkeypatch):
    numbers, first_choice = [], run.first_choice

    def noted(pair, settings, seed, at_once):
        numbers.append(at_once)
        return first_choice(pair, settings, seed, at_once)

    monkeypatch.setattr(run, "first_choice", noted)
    settings = {"topology": "auto", "max_new_tokens": 4}
    specdec.generate_many(pair, [[3], [4], [5]], **settings)
    specdec.generate_many(pair, [[3], [4], [5]], at_once=2, **settings)
    specdec.generate(pair, [3], **settings)
    assert numbers == [3, 3, 3, 2, 2, 2, 1]


def test_an_interrupted_step_ends_its_runs_with_the_rounds_before_it(pair, monkeypatch):
    batch, runs = joined(pair, *PROMPTS, method="ersd", topology=sequence(2), max_new_tokens=20)
    alone = [specdec.generate(pair, run.prompt_ids, method="ar", seed=0, max_new_tokens=20) for run in runs]
    for _ in range(3):
        batch.step()
    calls, right = [], batching.answers

    def interrupted(requests):
        calls.append(requests)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return right(requests)

    monkeypatch.setattr(batching, "answers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        batch.step()
    assert not batch
    for each, text in zip(runs, alone, strict=True):
        ids = each.generation.token_ids
        assert ids == text.token_ids[: len(ids)]
