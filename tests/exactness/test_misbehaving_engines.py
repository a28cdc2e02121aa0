"""The audit of engines that break their promises gives a verdict or a message, and never a wrong number."""

import json
import re

import numpy as np
import pytest
import torch

import specdec
from specdec.exactness.audit import audit
from specdec.exactness.audit.command import main
from specdec.exactness.audit.engines import ours
from tests.exactness.test_audit import PAIR, categorical
from tests.helpers.distributions import markov_pair

ENDS = (1, 4)


def sampled(prompt_ids, seed, count, ends=()):
    """Plain sampling of the target, up to a token that ends the text."""
    tokens = categorical(prompt_ids, seed, count)
    end = next((place for place, token in enumerate(tokens) if token in ends), count)
    return tokens[: end + 1]


def audited(change, pair=PAIR, ends=(), **settings):
    """change(tokens, seed): turns right tokens into those of the engine."""
    engine = lambda ids, seed, count, *_: change(sampled(ids, seed, count, ends), seed)  # noqa: E731
    return audit(engine, pair, [0], **{"decodes": 300, "top_k": 0} | settings)


@pytest.mark.parametrize("form", [np.array, torch.tensor, iter])
def test_tokens_may_come_in_any_list(form):
    """A false alarm has probability 1e-6."""
    audited(lambda tokens, _: form(tokens)).check()


@pytest.mark.parametrize(("length", "most"), [(1, 1), (2, 2), (6, 6)])
def test_few_tokens_are_enough(length, most):
    """A false alarm has probability 1e-6 for each."""
    audited(lambda tokens, _: tokens, length=length, max_new_tokens=most).check()


WRONG = {
    "says nothing": lambda tokens, _: [],
    "says an empty text": lambda tokens, _: "",
    "stops after two tokens": lambda tokens, _: tokens[:2],
    "repeats a token": lambda tokens, _: tokens[:1] * len(tokens),
    "has one text for all seeds": lambda tokens, _: [0, 1, 0, 1, 0, 1],
    "says an id beyond the vocabulary": lambda tokens, seed: tokens if seed % 99 else [tokens[0], 6, 0],
    "says an id of no machine": lambda tokens, seed: tokens if seed % 99 else [10**30],
    "begins with the prompt": lambda tokens, _: [0, *tokens],
}


@pytest.mark.parametrize("fault", WRONG)
def test_such_an_engine_is_wrong(fault):
    report = audited(WRONG[fault])
    assert report.verdict == "wrong"
    json.dumps(report.to_json(), allow_nan=False)
    assert "engine: wrong" in report.text()
    assert bool(report.trials[0].longer) == (fault == "begins with the prompt")
    if "id" in fault.split() or "stops" in fault:
        assert report.trials[0].impossible == (4 if "id" in fault.split() else 300)


def test_tokens_beyond_those_asked_for_are_told_and_not_judged():
    """A false alarm has probability 1e-6."""
    report = audited(lambda tokens, _: [*tokens, 5, 5, 5])
    report.check()
    assert "300 decodes have more tokens than requested" in report.text()


@pytest.mark.parametrize(
    "form",
    [
        lambda tokens, _: tokens,
        lambda tokens, _: [token for token in tokens if token not in ENDS],
        lambda tokens, _: [1 if token in ENDS else token for token in tokens],
    ],
)
def test_a_text_ends_with_the_token_that_ends_it_or_without(form):
    """A false alarm has probability 1e-6 for each. The control stops after the first token of every text."""
    pair = markov_pair(6, seed=2)
    pair.eos_ids = frozenset(ENDS)
    audited(form, pair, ENDS).check()
    assert audited(lambda tokens, _: tokens[:1], pair, ENDS).verdict == "wrong"


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda tokens, _: None, r"the result of sample\(\) = None is not a list"),
        (lambda tokens, _: [1.5], r"sample\(\)\[0\] = 1.5 is not an integer"),
        (lambda tokens, _: torch.tensor([tokens]), "is not an integer"),
        (lambda tokens, seed: "so" if seed == 50 else tokens, "gave 'so' with seed 50, but token ids with"),
        (lambda tokens, seed: tokens if seed == 50 else "so", "with seed 50, but a text with other seeds"),
    ],
)
def test_what_is_no_list_of_tokens_is_named(change, names):
    # texts need a pair with a tokenizer
    pair = specdec.load_pair("stories") if "text" in names else PAIR
    with pytest.raises(ValueError, match=names):
        audited(change, pair)


def test_an_error_of_the_engine_says_with_which_seed():
    def change(tokens, seed):
        if seed == 77:
            raise RuntimeError("out of memory")
        return tokens

    with pytest.raises(RuntimeError, match="out of memory") as error:
        audited(change)
    assert error.value.__notes__ == ["with seed 77"]


def test_more_tokens_than_the_context_has_are_named():
    pair = specdec.load_pair("stories")
    with pytest.raises(ValueError, match=r"9,000 new tokens are requested after a prompt of 2; .* room for"):
        audit(ours(pair), pair, [5, 6], max_new_tokens=9000)


def test_the_command_goes_on_behind_an_engine_that_fails(tmp_path, capsys):
    path = tmp_path / "found.json"
    arguments = ["--engine", "openai", "ours-ar", "--decodes", "100", "--tokens", "2", "--json", str(path)]
    assert main([*arguments, "--top-k", "4", "--url", "http://127.0.0.1:9/v1"]) == 2
    printed = capsys.readouterr()
    assert "openai: not audited, ConnectionError: http://127.0.0.1:9/v1/completions did not" in printed.err
    assert "(with seed 0)" in printed.err
    assert "ours-ar: no difference found" in printed.out
    assert [*json.loads(path.read_text())] == ["ours-ar, top_k 4"]
    with pytest.raises(ValueError, match="url = 'nowhere' is not an address"):
        main([*arguments, "--url", "nowhere"])


@pytest.mark.parametrize("content", ["{", "[1]", None])
def test_a_file_that_can_hold_no_reports_is_named_before_anything_is_decoded(content, tmp_path):
    path = tmp_path / "found.json" if content else tmp_path / "nowhere" / "found.json"
    if content:
        path.write_text(content)
    with pytest.raises(ValueError, match=re.escape(str(path))):
        main(["--engine", "ours-ar", "--json", str(path)])
