"""Rounds: what they record, when generation stops, and which arguments are refused."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import specdec
from specdec import methods
from specdec.models import MarkovModel
from specdec.models.kernels.compiled import crew
from specdec.topology import Topology, batch, sequence, specinfer
from tests.helpers.distributions import markov_pair, pair_of, random_table
from tests.helpers.texts import endless, ersd_as_plain
from tests.helpers.tiny_checkpoints import tiny_model

METHODS = ("ar", "gsd", "ersd")
ALL_METHODS = tuple(methods.METHODS)
TREE = Topology([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])


def endless_pair(target, draft):
    return endless(specdec.ModelPair(target, draft))


def run(method="ersd", topology=TREE, pair=None, **settings):
    settings = {"max_new_tokens": 60, "seed": 1, "detail": True} | settings
    return specdec.generate(pair or markov_pair(6), [0, 1], method=method, topology=topology, **settings)


@pytest.mark.parametrize("method", METHODS)
def test_tokens_of_the_rounds_are_the_generation(method):
    for length in (1, 2, 3, 7):
        assert len(run(method, max_new_tokens=length).token_ids) == length
    g = run(method)
    assert len(g.token_ids) == 60
    assert g.num_target_calls == len(g.rounds)
    assert g.block_efficiency == 60 / len(g.rounds)
    assert [round.number for round in g.rounds] == list(range(len(g.rounds)))
    position = 2
    for round in g.rounds:
        assert round.position == position
        position += len(round.tokens)
        if method == "ar":
            assert ([token.kind for token in round.tokens], round.nodes) == (["sampled"], ())
    assert [round.finish for round in g.rounds] == [None] * (len(g.rounds) - 1) + ["length"]


@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_accepted_tokens_are_the_accepted_nodes_and_the_last_kind_says_why(method):
    """Siblings of accepted nodes are rejected, and nodes below rejected ones are unvisited."""
    kinds = set()
    for round in run(method).rounds:
        status = {node.path: node.status for node in round.nodes} | {(): "accepted"}
        for node in round.nodes:
            assert (node.status == "unvisited") == (status[node.path[:-1]] != "accepted")
        accepted = [node for node in round.nodes if node.status == "accepted"]
        assert [node.token_id for node in accepted] == [token.id for token in round.tokens[:-1]]
        assert all(token.kind == "accepted" for token in round.tokens[:-1])
        end = accepted[-1].path if accepted else ()
        has_children = any(node.path[:-1] == end for node in round.nodes)
        assert (round.tokens[-1].kind == "bonus") == (not has_children)
        kinds.add(round.tokens[-1].kind)
    assert kinds == {"bonus", "residual" if method == "gsd" else "correction"}


@pytest.mark.parametrize("method", METHODS)
def test_steps_say_how_each_token_was_decided(method):
    for round in run(method).rounds:
        steps = [(step.token_id, step.kind, step.position) for step in round.steps]
        assert steps == [(token.id, token.kind, round.position + i) for i, token in enumerate(round.tokens)]
        for step in round.steps:
            by_p = min(step.leading, key=lambda arrival: arrival.arrival_p)
            assert by_p.token_id == step.winner_p
            if method != "gsd":
                assert step.token_id == step.winner_p
            if step.winner_q is not None:
                by_q = min(step.leading, key=lambda arrival: arrival.arrival_q)
                assert by_q.token_id == step.winner_q
            for arrival in step.leading:
                assert arrival.arrival_p == pytest.approx(arrival.exponential / arrival.p)


def test_node_probabilities_are_the_models_own():
    pair, last = markov_pair(6), 1
    p, q = (model.log_table.exp() for model in (pair.target, pair.draft))
    for round in run("ersd", pair=pair).rounds:
        tokens = {(): last} | {node.path: node.token_id for node in round.nodes}
        for node in round.nodes:
            place = tokens[node.path[:-1]], node.token_id
            assert (node.p, node.q) == pytest.approx((float(p[place]), float(q[place])))
        last = round.tokens[-1].id


@pytest.mark.parametrize("method", METHODS)
def test_without_detail_the_rounds_are_the_same_but_for_it(method):
    full, plain = run(method), run(method, detail=False)
    assert plain.token_ids == full.token_ids
    for a, b in zip(full.rounds, plain.rounds, strict=True):
        assert tuple(replace(node, q=None, p=None) for node in a.nodes) == b.nodes
        assert b.steps == ()


@pytest.mark.parametrize("method", METHODS)
def test_a_seed_gives_the_same_text_and_a_drawn_one_is_recorded_and_another(method):
    g = run(method, seed=None)
    assert run(method, seed=g.seed).token_ids == g.token_ids
    assert run(method, seed=None).token_ids != g.token_ids


def counting_pair(eos, draft_context=1 << 20, context=1 << 20):
    """Both models count upwards modulo 10. Everything is accepted, so paths are long."""
    table = torch.eye(10, dtype=torch.float64).roll(1, dims=1)
    target, draft = (MarkovModel(table, context_length=length) for length in (context, draft_context))
    pair = specdec.ModelPair(target, draft)
    pair.eos_ids = frozenset(eos)
    return pair


@pytest.mark.parametrize("method", ALL_METHODS)
@pytest.mark.parametrize("eos", range(3, 9))
def test_end_of_sequence_stops_also_inside_an_accepted_path(method, eos):
    g = specdec.generate(counting_pair([eos]), [1], method=method, topology=sequence(4), seed=0, detail=True)
    assert g.token_ids == list(range(2, eos + 1))
    assert g.rounds[-1].finish == "eos"
    last = g.rounds[-1]
    assert len(last.steps) == len(last.tokens)
    assert sum(node.status == "accepted" for node in last.nodes) == last.num_accepted
    assert specdec.Generation.from_json(g.to_json()) == g


@pytest.mark.parametrize("method", ALL_METHODS)
def test_a_rejected_end_ends_nothing_and_an_emitted_one_everything(method):
    pair = markov_pair(3)
    pair.eos_ids = frozenset({2})
    for seed in range(60):
        g = run(method, TREE, pair, seed=seed, detail=False)
        assert 2 not in g.token_ids[:-1]
        assert (g.token_ids[-1] == 2) == (g.rounds[-1].finish == "eos")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("context", [3, 4, 5, 9])
def test_the_context_ends_generation_cleanly(method, context):
    pair = counting_pair([], context=context)
    g = specdec.generate(pair, [1, 2], method=method, topology=sequence(4), seed=0)
    assert len(g.token_ids) == context - 2
    assert g.rounds[-1].finish == "context"


def test_a_draft_whose_context_ends_is_no_longer_asked():
    pair = counting_pair([], draft_context=8)
    g = specdec.generate(pair, [1, 2], topology=sequence(4), max_new_tokens=20, seed=0)
    assert len(g.token_ids) == 20
    assert all(len(round.tokens) == 1 for round in g.rounds[3:])


@pytest.mark.parametrize(("family", "topology"), [("llama", TREE), ("gpt2", "auto"), ("gemma3", TREE)])
def test_a_draft_that_has_no_room_takes_in_no_prompt(family, topology):
    context = "n_positions" if family == "gpt2" else "max_position_embeddings"
    pair = endless_pair(tiny_model("llama"), tiny_model(family, seed=1, **{context: 32}))
    ersd_as_plain(pair, [5] * 40, [topology], max_new_tokens=6)


@pytest.mark.parametrize("method", ALL_METHODS)
@pytest.mark.parametrize("draft_context", [32, 28, 27])
@pytest.mark.parametrize("topology", [sequence(8), batch(8)], ids=["sequence", "batch"])
def test_a_prompt_that_fits_is_decoded_with_the_drafts_that_fit(method, draft_context, topology):
    """Before the draft can propose anything it must score the root, which is the 28th token."""
    pair = counting_pair([], draft_context=draft_context, context=32)
    prompt = [number % 10 for number in range(28)]
    settings = {"method": method, "topology": topology}
    alone = specdec.generate(pair, prompt, seed=0, **settings)
    together, _ = specdec.generate_many(pair, [prompt, [1]], seeds=[0, 1], max_new_tokens=4, **settings)
    for g in (alone, together):
        assert g.token_ids == [8, 9, 0, 1]
        assert g.rounds[-1].finish == "context"
        assert any(round.nodes for round in g.rounds) == (method != "ar" and draft_context >= 28)


@pytest.mark.skipif(crew() is None, reason="what is promised of ties is promised of the compiled forward")
@pytest.mark.parametrize("top_k", [1, 3])
def test_tied_tokens_keep_the_text_of_plain_decoding_on_the_compiled_forward(top_k):
    """Half the rows of the output matrix are copies, so that top-k cuts between equal tokens."""
    target = tiny_model("llama")
    with torch.no_grad():
        rows = target.get_output_embeddings().weight
        rows[30:60] = rows[:30]
    pair = endless_pair(target, tiny_model("llama", seed=1))
    assert "compiled forward" in pair.target.arithmetic
    ersd_as_plain(pair, [5, 6, 7], [specinfer(8)], range(12), max_new_tokens=30, top_k=top_k)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen3", "gemma3"])
def test_ersd_is_drafter_invariant_on_real_architectures(family):
    """float32, 100 tokens per run, which is longer than the sliding windows. No mismatch is tolerated."""
    target = tiny_model(family)
    of_family, other = tiny_model(family, seed=1), tiny_model("gpt2", seed=2)
    for draft, trees in ((of_family, (sequence(5), TREE)), (other, [specinfer(9)])):
        runs = ersd_as_plain(endless_pair(target, draft), [1, 2, 3], trees, [4], max_new_tokens=100)
        assert all(len(run.token_ids) == 100 for run in runs)


@cache
def greedy(family):
    """A pair without tokens that end a text, and the text of transformers after [7, 8, 9, 10]."""
    target = tiny_model(family)
    target.generation_config.eos_token_id = None
    ids = torch.tensor([[7, 8, 9, 10]])
    text = target.generate(ids, do_sample=False, max_new_tokens=40, pad_token_id=0)[0, 4:].tolist()
    return endless_pair(target, tiny_model("llama", seed=3)), text


ONE_TOKEN = [
    (None, {"temperature": 0}),
    (batch(3), {"temperature": 0, "top_p": 0.9}),
    (TREE, {"top_p": 1e-6}),
    (TREE, {"temperature": 0.5, "top_k": 1}),
]
GREEDY = [
    (family, method, *ONE_TOKEN[(i + j) % 4])
    for i, family in enumerate(("llama", "gpt2", "qwen3", "gemma3"))
    for j, method in enumerate(ALL_METHODS)
]
"""Every family with every method, each of them with every case of `ONE_TOKEN`."""


@pytest.mark.parametrize(("family", "method", "tree", "sampling"), GREEDY, ids=str)
def test_where_one_token_is_left_a_text_is_that_of_transformers(family, method, tree, sampling):
    pair, text = greedy(family)
    settings = {"method": method, "topology": tree, "max_new_tokens": 40, "seed": 0} | sampling
    assert specdec.generate(pair, [7, 8, 9, 10], **settings).token_ids == text


@pytest.mark.parametrize("method", ALL_METHODS[1:])
def test_all_of_a_draft_that_is_the_target_is_accepted(method):
    """The models are as certain as greedy texts: five tokens per target call of the default tree."""
    pair = endless_pair(tiny_model("llama"), tiny_model("llama"))
    g = specdec.generate(pair, [7, 8], method=method, temperature=0, max_new_tokens=40, seed=0)
    assert len(g.rounds) == 8


WRONG = {"method": ["beam"], "max_new_tokens": [0, 2.5, 10**30], "topology": ["tree", [(0,)]]}
WRONG |= {"temperature": [10**400], "seed": [-5], "detail": ["no"]}


@pytest.mark.parametrize("name", WRONG)
def test_arguments_out_of_range_are_named_before_anything_is_computed(name):
    for value in WRONG[name]:
        with pytest.raises(ValueError, match=f"^{name} = "):
            specdec.stream(markov_pair(), [0], **{name: value})


@pytest.mark.parametrize(
    "prompt",
    [[], [3], [-1], ["a"], "text", [0.5], None, 3, b"\x01", {1: 2}, {1, 2}, np.array([[1], [2]])],
    ids=repr,
)
def test_prompts_that_do_not_fit_are_named(prompt):
    with pytest.raises(ValueError, match="prompt"):
        specdec.stream(markov_pair(3), prompt)


def test_a_pair_without_a_draft_decodes_autoregressively_only():
    pair = specdec.ModelPair(MarkovModel(random_table(4, 1, 0)))
    assert len(specdec.generate(pair, [0], method="ar", max_new_tokens=5).token_ids) == 5
    for topology in (None, "auto"):
        with pytest.raises(ValueError, match="needs a draft"):
            specdec.stream(pair, [0], topology=topology)


def test_models_that_cannot_take_trees_say_so():
    pair = markov_pair(4)
    pair.draft.capability = "sequence"
    assert specdec.generate(pair, [0], topology=sequence(3), max_new_tokens=9).token_ids
    with pytest.raises(ValueError, match="sequences only"):
        specdec.stream(pair, [0], topology=batch(2))
    pair.draft.capability = "ar"
    with pytest.raises(ValueError, match="token by token"):
        specdec.stream(pair, [0])


def test_closing_a_run_ends_it_and_keeps_its_record():
    run = specdec.stream(markov_pair(), [0], max_new_tokens=50, seed=0)
    first = next(run)
    run.close()
    assert list(run) == []
    assert run.generation.rounds == (first,)


@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_measured_acceptance_is_near_the_exact_one(method):
    """Index 0 on an order-0 source, with more than 100 trials: 5 standard errors. A false alarm has
    probability below 1e-6."""
    p, q = random_table(6, 0, 3), random_table(6, 0, 4)
    pair = pair_of(p, q)
    exact = float(getattr(specdec.theory, f"{method}_acceptance")(p, q))
    measured = specdec.measure_acceptance(pair, [0], method=method)
    assert abs(measured[0] - exact) < 5 * (exact * (1 - exact) / 100) ** 0.5
    assert measured.sum() <= 1 + 1e-12
    for wrong in ("beam", "ar"):
        with pytest.raises(ValueError, match=f"method = '{wrong}'"):
            specdec.measure_acceptance(pair, [0], method=wrong)


@pytest.mark.parametrize("length", [1, 4, 7])
def test_auto_works_up_to_the_contexts_end(length):
    pair = counting_pair([], context=8, draft_context=8)
    g = specdec.generate(pair, [1] * length, topology="auto", seed=0)
    assert len(g.token_ids) == 8 - length
    assert specdec.measure_acceptance(pair, [1] * length).ndim == 1
    with pytest.raises(ValueError, match="context of 8"):
        specdec.measure_acceptance(pair, [1] * 8)


def test_numbers_and_prompts_of_numpy_and_torch_are_taken():
    pair = markov_pair(6)
    plain = specdec.generate(pair, [1, 2], topology=sequence(3), max_new_tokens=9, seed=4, temperature=0.5)
    settings = {"max_new_tokens": np.int32(9), "seed": np.int64(4), "temperature": np.float32(0.5)}
    settings |= {"topology": sequence(np.int64(3)), "top_k": np.int64(0)}
    for prompt in ((1, 2), *(kind(ids) for kind in (np.array, torch.tensor) for ids in ([1, 2], [[1, 2]]))):
        g = specdec.generate(pair, prompt, **settings)
        assert g.token_ids == plain.token_ids
        assert specdec.Generation.from_json(g.to_json()) == g
    for wrong in (torch.tensor([[0], [1]]), torch.tensor(1)):
        with pytest.raises(ValueError, match="prompt has shape"):
            specdec.generate(pair, wrong)


@pytest.mark.parametrize("call", [specdec.generate, specdec.stream, specdec.measure_acceptance])
def test_what_is_no_pair_is_named(call):
    with pytest.raises(ValueError, match="pair = 'gpt2' is not a ModelPair"):
        call("gpt2", "Once")


def test_a_table_may_be_an_array():
    table = np.full((3, 3), 1 / 3)
    texts = [
        specdec.generate(specdec.ModelPair(MarkovModel(rows)), [0], method="ar", max_new_tokens=5, seed=1)
        for rows in (table, table.tolist(), torch.tensor(table))
    ]
    assert texts[0].token_ids == texts[1].token_ids == texts[2].token_ids
    for wrong in (np.float64(1.0), [["a"]], [[0.5, np.nan]] * 2, np.empty((0, 0)), table + 0j):
        with pytest.raises(ValueError, match="table"):
            MarkovModel(wrong)
