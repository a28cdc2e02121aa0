"""Logits processors that remember their calls: the text is that of transformers, or a ValueError."""

import threading

import pytest
import torch
from transformers import LogitsProcessor

import specdec
from specdec.ecosystem.memory import Watched, isolated
from specdec.topology import specinfer
from tests.helpers.tiny_checkpoints import noisy, tiny_model

PROMPT = torch.tensor([[39, 44, 20, 57, 58, 38]])
ODD = torch.arange(61) % 2 == 1
STATE = {"on": False}


class Begins(LogitsProcessor):
    """A grammar that begins after a marker, with state of its own."""

    def __init__(self, marker):
        self.marker, self.on = marker, False

    def __call__(self, input_ids, scores):
        self.on = self.on or int(input_ids[0, -1]) == self.marker
        return scores.masked_fill(ODD, -torch.inf) if self.on else scores


class Toggles(Begins):
    """A marker begins the grammar, and the same marker ends it."""

    def __call__(self, input_ids, scores):
        self.on ^= int(input_ids[0, -1]) == self.marker
        return scores.masked_fill(ODD, -torch.inf) if self.on else scores


class BeginsElsewhere(Begins):
    def __call__(self, input_ids, scores):
        STATE["on"] = STATE["on"] or int(input_ids[0, -1]) == self.marker
        return scores.masked_fill(ODD, -torch.inf) if STATE["on"] else scores


def closure(marker):
    """A prefix function whose state is a variable that it closes over."""
    on = False

    def allowed(row, ids):
        nonlocal on
        on = on or int(ids[-1]) == marker
        return list(range(0, 61, 2)) if on else list(range(61))

    return allowed


@pytest.fixture(scope="module")
def models():
    target = tiny_model("llama")
    return target, noisy(target, 0.3)


def texts(models, name, marker):
    """The text of transformers, and ours or the message with which it is refused."""
    target, draft = models
    settings = {"do_sample": False, "max_new_tokens": 16, "eos_token_id": None, "pad_token_id": 0}
    STATE["on"] = False
    want = target.generate(PROMPT, **settings, **PROCESSORS[name](marker))
    STATE["on"] = False
    ours = {"custom_generate": specdec.custom_generate, "draft": draft, "method": "gsd"}
    try:
        own = PROCESSORS[name](marker)
        return want, target.generate(PROMPT, **settings, **own, **ours, topology=specinfer(8))
    except ValueError as error:
        return want, str(error)


PROCESSORS = {
    "Begins": lambda marker: {"logits_processor": [Begins(marker)]},
    "Toggles": lambda marker: {"logits_processor": [Toggles(marker)]},
    "BeginsElsewhere": lambda marker: {"logits_processor": [BeginsElsewhere(marker)]},
    "PrefixConstrainedLogitsProcessor": lambda marker: {"prefix_allowed_tokens_fn": closure(marker)},
}
"""Arguments of `generate`, by the name of the processor that they give."""


@pytest.mark.parametrize("name", PROCESSORS)
def test_a_processor_with_a_memory_is_right_or_refused(models, name):
    refused = 0
    for marker in range(3, 61, 6):
        want, have = texts(models, name, marker)
        is_refused = isinstance(have, str) and f"logits_processor ({name}) gives other scores" in have
        assert is_refused or torch.equal(have, want), marker
        refused += is_refused
    assert refused > 0


def test_a_processor_that_cannot_be_copied_is_named(models):
    target, draft = models
    locked = Begins(3)
    locked.lock = threading.Lock()
    settings = {"max_new_tokens": 4, "logits_processor": [locked]}
    with pytest.raises(ValueError, match="logits_processor Begins can't be copied"):
        target.generate(PROMPT, **settings, custom_generate=specdec.custom_generate, draft=draft)


def test_a_copy_shares_models_and_no_variables():
    model = torch.nn.Linear(1, 1)
    allowed = closure(5)
    allowed.model = model
    own = isolated(allowed)
    assert own(0, torch.tensor([5])) == list(range(0, 61, 2))
    assert allowed(0, torch.tensor([4])) == list(range(61))
    assert own.model is model


def test_each_of_the_two_checks_finds_what_the_other_does_not():
    """`check` compares with plain decoding, `check_again` with an earlier answer of the same processor."""
    text, logits = [1], torch.zeros(3)
    watched = Watched(lambda _, logits: logits, lambda _, logits: logits + 1, "A")
    answer = watched(text, logits)
    watched.check_again(text, logits, answer)
    with pytest.raises(ValueError, match="other scores than in plain decoding"):
        watched.check(text, logits, answer)
    calls = iter(range(9))
    watched = Watched(lambda _, logits: logits + next(calls), lambda _, logits: logits, "A")
    answer = watched(text, logits)
    watched.check(text, logits, answer)
    with pytest.raises(ValueError, match="same text in a second call"):
        watched.check_again(text, logits, answer)
