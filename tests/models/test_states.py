"""Models with recurrent or convolution states: after any rejections, logits equal those of plain forwards."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
import torch

import specdec
from specdec.decoding.fastest import repeated_tokens
from specdec.ecosystem.processors import ProcessedModel
from specdec.models import HFModel
from specdec.models.selfcheck import LIMITS
from specdec.models.sessions.states import MOST_REPEATED, StateSession
from specdec.topology import sequence
from tests.helpers.sessions import Replay
from tests.helpers.texts import ersd_as_plain
from tests.helpers.tiny_checkpoints import VOCAB_SIZE, tiny_model
from tests.models.test_models import STATES as FAMILIES
from tests.models.test_models import model_of

LIMIT = LIMITS[torch.float32][0]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("most_accepted", [2, 12], ids=["mostly rejected", "partly accepted"])
def test_after_any_rejections_logits_are_those_of_plain_forwards(family, most_accepted):
    """The texts grow beyond 64 tokens, the length of a chunk."""
    replay = Replay(model_of(family), seed=most_accepted, prefix=45)
    assert type(replay.session) is StateSession
    assert replay.largest_error(30, most_accepted) < LIMIT
    assert len(replay.committed) > 64
    replay.session.prefill(tokens := replay._tokens(70))
    replay.committed += tokens
    assert replay.largest_error(2, most_accepted) < LIMIT


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_whose_states_are_not_restored_fails_the_check(family, monkeypatch):
    """Negative control: without copies of the states, the check allows the family only token by token."""
    assert model_of(family).capability == "sequence"
    monkeypatch.setattr("specdec.models.sessions.states.copied", lambda value: value)
    monkeypatch.setattr("specdec.models.long_context._checks", {})
    assert HFModel(tiny_model(family)).capability == "ar"


@pytest.fixture
def rows(monkeypatch):
    """The rows of each forward pass over states from now on."""
    counted, read = [], StateSession._read

    def counting(self, module, end):
        counted.append(end - self._states[-1].length)
        return read(self, module, end)

    monkeypatch.setattr(StateSession, "_read", counting)
    return counted


@pytest.mark.parametrize("family", FAMILIES)
def test_a_round_is_one_forward_and_full_acceptance_repeats_nothing(family, rows):
    session = model_of(family).session()
    session.prefill(list(range(3, 12)))
    for accepted in (1, 3, 4, 2, 4):
        session.forward(torch.arange(20, 24), [-1, 0, 1, 2])
        session.commit(list(range(accepted)))
    assert rows == [9, 4, 1 + 4, 1 + 3 + 4, 4, 2 + 4]
    assert session.length == 9 + 14


def test_short_chunks_change_nothing_but_time_and_end_with_the_forward():
    module, sizes = tiny_model("mamba2", chunk_size=64), []
    mixer = next(part for part in module.modules() if hasattr(part, "A_log"))
    mixer.register_forward_pre_hook(lambda *_: sizes.append(mixer.chunk_size))
    model = HFModel(module)
    assert model.capability == "sequence"
    replay = Replay(model, seed=0, prefix=40)
    sizes.clear()
    assert replay.largest_error(6, 3) < LIMIT
    replay.session.forward(torch.arange(3, 23), range(-1, 19))
    assert {16, 32} <= set(sizes), "plain forwards of the comparison have the model's own"
    assert mixer.chunk_size == 64


@cache
def endless_pair() -> specdec.ModelPair:
    return specdec.ModelPair(tiny_model("mamba2", eos_token_id=None))


def other(token_id: int) -> int:
    return (token_id + 1) % VOCAB_SIZE


@cache
def plain_text(tokens: int) -> list[int]:
    run = specdec.generate(endless_pair(), [5, 6], method="ar", max_new_tokens=tokens, seed=0)
    return [5, 6, *run.token_ids]


def rows_of_rounds(rows, propose, k: int, tokens: int, processed: bool = False) -> list[int]:
    """The rows of the target's forward passes in a run with a drafter that proposes sequences of k tokens."""
    want = plain_text(tokens)
    rows.clear()
    settings = {"topology": sequence(k), "max_new_tokens": tokens, "seed": 0, "drafter": propose}
    pair = endless_pair()
    if processed:  # as in transformers' generate with a logits processor
        target = ProcessedModel(pair.target, lambda ids, logits: logits, frozenset(), 2)
        pair = specdec.ModelPair(target, pair.draft)
    run = specdec.generate(pair, [5, 6], method="ersd", **settings)
    assert len(rows) == 1 + run.num_target_calls, "a round is one forward, and so is the prefill"
    assert run.token_ids == want[2:]
    return rows[1:]


@pytest.mark.parametrize("processed", [False, True])
def test_after_many_rejections_a_round_drafts_nothing_and_the_state_catches_up(rows, processed):
    text = plain_text(60)

    def wrong(text_ids, topology):
        return [[other(token) for token in text[len(text_ids) :][: topology.depth]]]

    rows = rows_of_rounds(rows, wrong, 2, 60, processed)
    assert rows[:3] == [3, 4, 5]
    assert rows[MOST_REPEATED:][:4] == [MOST_REPEATED + 3, MOST_REPEATED + 2, 3, 4]
    assert max(rows) == MOST_REPEATED + 3


def test_the_tokens_that_are_read_again_are_as_many_as_auto_expects(rows):
    """The seeds are fixed. A count without the tokens that are read again would be off by a third."""
    rng, k, rate = random.Random(0), 3, 0.75
    text = plain_text(450)

    def mostly_right(text_ids, topology):
        right = text[len(text_ids) :][: topology.depth]
        return [[token if rng.random() < rate else other(token) for token in right]]

    rows = rows_of_rounds(rows, mostly_right, k, 450)
    expected = 1 + k + repeated_tokens(np.array([rate]), sequence(k), MOST_REPEATED)
    assert sum(rows) / len(rows) == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_of_ersd_are_those_of_plain_decoding(family):
    """The draft is of another family."""
    other = {"lfm2": "qwen3_next", "qwen3_next": "mamba2", "mamba2": "lfm2"}[family]
    pair = specdec.ModelPair(model_of(family), model_of(other, seed=1))
    ersd_as_plain(pair, [5, 6, 7], [sequence(1), sequence(5)], max_new_tokens=70)
