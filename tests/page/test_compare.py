"""Columns of the comparison have one prompt and seed, any method, topology and draft, and run one after the
other."""

import json
import sys
from types import SimpleNamespace

import pytest
import torch

import specdec
from components.compare import run as compare_run
from components.compare.drafts import LABELS, Drafts, noisy
from components.runs import run, seats, zero_gpu
from components.runs.lazy import shared

PROMPT = "Tom had a red ball. One day"
LENGTH = 16


@pytest.fixture(scope="module")
def pairs(pair):
    return Drafts(pair)


def column(name="c1", **changes):
    return {"name": name, "method": "ersd", "topology": "sequence", "k": 4, "draft": "own"} | changes


def request(*columns, **changes):
    shared = {"prompt": PROMPT, "seed": 7, "max_new_tokens": LENGTH, "temperature": 1}
    return shared | {"columns": list(columns), "reference": True} | changes


def follows(pairs, *columns, **changes):
    """A request that uses the reference of an earlier one by the same models."""
    return request(*columns, reference=False, models=run.models(pairs.pair), **changes)


def received(pairs, body):
    return [json.loads(update) for update in compare_run.updates(pairs, body, interval=0.0)]


def texts(updates):
    """Token ids by column, in the order in which the columns were finished."""
    ids_of = {}
    for update in updates:
        for round in update["rounds"]:
            ids_of.setdefault(update["column"], []).extend(token["id"] for token in round["tokens"])
    return ids_of


def test_ersd_writes_what_autoregressive_decoding_writes_whatever_drafts(pairs):
    """Each topology with two drafts, and each draft on two topologies."""
    drafts = [*LABELS]
    all_columns = [
        column(f"{draft} {name}", draft=draft, topology=name)
        for place, name in enumerate(["simple", "sequence", "batch", "specinfer"])
        for draft in (drafts[place], drafts[place - 1])
    ]
    for start in range(0, len(all_columns), compare_run.MOST_COLUMNS):
        columns = all_columns[start : start + compare_run.MOST_COLUMNS]
        ids_of = texts(received(pairs, request(*columns)))
        assert len(ids_of) == 1 + len(columns)
        assert all(text == ids_of[compare_run.REFERENCE] for text in ids_of.values())


def test_gsd_writes_another_text_for_each_draft(pairs):
    columns = [column(draft, method="gsd", draft=draft) for draft in LABELS]
    ids_of = texts(received(pairs, request(*columns)))
    assert all(len(text) == LENGTH for text in ids_of.values())
    assert len({tuple(text) for text in ids_of.values()}) == 1 + len(LABELS)


@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_the_better_the_draft_the_fewer_target_calls(pairs, method):
    columns = [column(draft, method=method, draft=draft) for draft in LABELS]
    updates = received(pairs, follows(pairs, *columns, max_new_tokens=100))
    calls = {draft: sum(len(u["rounds"]) for u in updates if u.get("column") == draft) for draft in LABELS}
    assert calls["target"] == 20  # 100 tokens, with 4 accepted tokens and a bonus in each round
    assert calls["target"] < calls["own"] < calls["noisy"] < calls["uniform"] <= 100


def test_the_reference_comes_first_then_the_columns_in_their_order(pairs):
    updates = received(pairs, request(column("b", method="gsd"), column("a")))
    order = list(dict.fromkeys(update["column"] for update in updates if "column" in update))
    assert order == [compare_run.REFERENCE, "b", "a"]
    assert updates[0]["setup"]["seed"] == 7
    assert [model["dtype"] for model in updates[0]["setup"]["models"]] == ["float32", "float32"]
    assert updates[-1]["phase"] == "done"


def test_a_changed_column_runs_alone(pairs):
    first = texts(received(pairs, request(column())))
    second = texts(received(pairs, follows(pairs, column(draft="uniform", topology="batch"))))
    assert second == {"c1": first[compare_run.REFERENCE]}


def test_a_measured_topology_says_that_it_is_chosen_and_which_it_is(pairs):
    updates = received(pairs, follows(pairs, column(topology="optimal", k=3)))
    phases = [update["phase"] for update in updates[1:]]
    assert phases[: phases.index("running") + 1] == [*["choosing"] * phases.index("running"), "running"]
    assert updates[1 + phases.index("running")]["tree"]["num_draft_tokens"] == 3


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"k": None}, ["k is empty"]),
        ({"k": 1000}, ["k = 1000", "from 1 to 64"]),
        ({"topology": "bush"}, ["topology = 'bush'", "specinfer"]),
        ({"draft": "nobody"}, ["draft = 'nobody'", "uniform"]),
        ({"draft": None}, ["draft = None"]),
        ({"method": "best"}, ["method = 'best'"]),
    ],
)
def test_a_mistake_in_one_column_is_its_own(pairs, changes, parts):
    updates = received(pairs, request(column("wrong", **changes), column("right")))
    [failed] = [update for update in updates if update["phase"] == "failed"]
    assert failed["column"] == "wrong"
    assert all(part in failed["message"] for part in parts)
    assert len(texts(updates)["right"]) == LENGTH
    assert updates[-1]["phase"] == "done"


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"prompt": None}, ["prompt"]),
        ({"prompt": "word " * 1500}, ["prompt", "tokens"]),
        ({"seed": -1}, ["seed = -1"]),
        ({"max_new_tokens": None}, ["length is empty"]),
        ({"columns": [column()] * 5}, ["columns", "at most 4"]),
        ({"columns": "all"}, ["columns", "'all'"]),
        ({"columns": ["ersd"]}, ["'ersd'", "topology"]),
        ({"columns": [column("x" * 41)]}, ["The column is too long: 41 characters", "at most 40"]),
        ({"reference": False, "models": [{"name": "another"}]}, ["other models", "Run"]),
    ],
)
def test_a_mistake_in_what_is_shared_ends_the_comparison(pairs, changes, parts):
    updates = received(pairs, request(column(), **changes))
    assert updates[-1]["phase"] == "error"
    assert all(part in updates[-1]["message"] for part in parts)
    assert texts(updates) == {}


@pytest.mark.parametrize("body", [None, "text", 3, []])
def test_what_is_no_request_gets_a_message(pairs, body):
    [update] = received(pairs, body)
    assert update["phase"] == "error"


def test_an_empty_seed_is_drawn_and_told(pairs):
    updates = received(pairs, request(seed=None))
    seed = updates[0]["setup"]["seed"]
    assert texts(received(pairs, request(seed=seed))) == texts(updates)


def test_a_stopped_comparison_leaves_its_seat(pairs):
    updates = compare_run.updates(pairs, request(column(), max_new_tokens=300), interval=0.0)
    for _ in range(6):
        next(updates)
    assert seats.MODEL.num_seated == 1
    updates.close()
    assert seats.MODEL.num_seated == 0


def test_a_noisy_draft_scores_with_the_same_errors_everywhere(pair):
    with_errors, plain = noisy(pair.draft).session(), pair.draft.session()
    tokens = torch.tensor([5, 6, 7])
    for session in (with_errors, plain):
        session.prefill([1, 2, 3])
    errors = with_errors.forward(tokens, [-1, 0, 0]) - plain.forward(tokens, [-1, 0, 0])
    assert torch.allclose(errors, errors[0].expand_as(errors), atol=1e-4)
    assert errors[0].std().item() == pytest.approx(2, rel=0.1)
    with_errors.commit([0, 2])
    assert with_errors.length == 5


def test_a_pair_without_a_draft_still_compares_with_others(pair):
    alone = Drafts(specdec.ModelPair(pair.target, tokenizer=pair.tokenizer))
    columns = [column(draft, draft=draft) for draft in LABELS]
    updates = received(alone, request(*columns))
    failed = {update["column"]: update["message"] for update in updates if update["phase"] == "failed"}
    assert set(failed) == {"own", "noisy"}
    assert all("no" in message and "draft" in message for message in failed.values())
    assert set(texts(updates)) == {compare_run.REFERENCE, "target", "uniform"}


def test_a_lent_gpu_is_for_the_pair_s_own_draft(pair, monkeypatch):
    monkeypatch.setitem(sys.modules, "spaces", SimpleNamespace(GPU=lambda work, duration: work))
    pairs = Drafts(zero_gpu.Lender(pair, run.start))
    assert pairs.pair_with("own") is pairs.pair
    with pytest.raises(ValueError, match="only the pair's own draft can be used"):
        pairs.pair_with("target")


def test_drafts_follow_the_models_of_the_pair(pair):
    changing = shared(pair)
    pairs = Drafts(changing)
    current = pairs.now()
    blind = pairs.pair_with("uniform")
    assert pairs.pair_with("uniform") is blind  # the measurements of the draft are kept
    changing.exchange(specdec.ModelPair(pair.draft, pair.draft, pair.tokenizer))
    assert pairs.pair_with("uniform").target is pair.draft
    assert current.pair_with("uniform") is blind


def test_a_setting_of_drafting_is_a_column_s_and_every_other_one_is_shared(pairs):
    columns = [column("copies", drafter="copies"), {"name": "usual", "draft": "own"}]
    ids_of = texts(received(pairs, request(*columns, top_k=1)))
    assert ids_of["copies"] == ids_of["usual"] == ids_of[compare_run.REFERENCE]
    greedy = specdec.generate(pairs.pair, PROMPT, method="ar", temperature=0, max_new_tokens=LENGTH)
    assert ids_of["usual"] == greedy.token_ids
    [failed] = [each for each in received(pairs, request(column(drafter="no"))) if each["phase"] == "failed"]
    assert "drafter = 'no'" in failed["message"]
