"""Laws of the trees of "auto": they are chosen by expected tokens per second, and plain decoding is one
choice."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

import specdec
from specdec import stats, theory, topology
from specdec.decoding import acceptance, auto, costs, experience, fastest
from specdec.decoding.batch import Batch
from specdec.methods import DRAFTING, METHODS
from specdec.models import MarkovModel
from specdec.payoff.setups import NOTHING
from specdec.probs import Sampling
from specdec.settings import RunSettings
from specdec.topology import Topology, sequence
from tests.helpers.distributions import markov_pair, pair_of, random_table, samplings
from tests.helpers.tokenizers import byte_level_tokenizer


def pair_of_twins() -> specdec.ModelPair:
    return pair_of(random_table(6, 0, 3), random_table(6, 0, 3))


def joint(seconds):
    """The cost of a forward pass by its rows, whatever texts they belong to."""
    return costs.JointCost({1: {n: seconds(n) for n in range(1, 40)}})


@pytest.fixture
def clock(monkeypatch):
    """Sets the times of rounds: seconds of a target forward pass by its rows, and of a draft forward pass."""
    monkeypatch.setattr(auto, "_SHARE", 1e9)  # trees are chosen in each round, however fast the machine is

    def set_times(target, draft):
        def add(self, rounds, *_):
            rows, levels = len(rounds[0].nodes) + 1, costs.work_of(rounds[0])[0]
            return added(self, rounds, levels * draft, target(rows))

        monkeypatch.setattr(costs.RoundTimes, "add", add)

    added = costs.RoundTimes.add
    return set_times


def trees_of(generation) -> list[Topology]:
    planted = {each.round: each.paths for each in generation.trees} or {0: generation.paths}
    trees = []
    for round in generation.rounds:
        trees.append(Topology(planted[round.number]) if round.number in planted else trees[-1])
    return trees


def decoded(pair, length=200, **settings):
    return specdec.generate(pair, [0], topology="auto", max_new_tokens=length, seed=0, **settings)


@pytest.mark.parametrize(
    ("method", "draft", "target", "fits"),
    [
        ("ersd", 2e3, lambda n: 1e3, lambda tree: tree.num_draft_tokens == 0),
        ("gsd", 1e-3, lambda n: 1e3, lambda tree: tree.depth >= 12),
        ("specinfer", 1e-3, lambda n: 1e3 * n**2, lambda tree: tree.num_draft_tokens <= 1),
    ],
    ids=["a draft dearer than the target: none", "all free: deep", "many at once are dear: none or one"],
)
def test_the_tree_follows_the_times_of_the_rounds(clock, draft, target, fits, method):
    clock(target, draft)
    trees = trees_of(decoded(pair_of_twins(), 400, method=method))
    last = trees[-max(4, len(trees) // 5) :]
    assert sum(map(fits, last)) > 0.7 * len(last)  # other trees are tried now and then


def test_the_first_round_of_a_pair_drafts_and_the_second_fifth_and_eighth_do_not(clock):
    clock(lambda n: 10.0 + n / 10, 1.0)
    pair = pair_of_twins()
    sizes = [tree.num_draft_tokens for tree in trees_of(decoded(pair, 60))]
    assert [number for number, size in enumerate(sizes) if size == 0] == [1, 4, 7]
    later = specdec.generate(pair, [0], topology="auto", max_new_tokens=30, seed=1)
    assert all(tree.num_draft_tokens for tree in trees_of(later))


@pytest.mark.parametrize("method", ["ersd", "gsd"])
def test_a_useless_draft_ends_at_plain_decoding_which_is_left_now_and_then(clock, method):
    clock(lambda n: 10.0 + n, 1.0)
    g = decoded(pair_of([0, 1, 0], [1, 0, 0]), 400, method=method)
    sizes = [tree.num_draft_tokens for tree in trees_of(g)]
    looks = [number for number in range(9, len(sizes)) if sizes[number] and not sizes[number - 1]]
    assert sum(map(bool, sizes[:50])) < 25
    assert 2 <= len(looks) <= 5
    assert (np.diff(looks, 2) > 0).all()  # later and later
    assert sum(map(bool, sizes[50:])) < 0.05 * len(sizes)


@pytest.mark.parametrize("prompt_length", [0, 5000])
def test_a_look_ends_after_three_rounds_even_if_no_tree_is_due(clock, monkeypatch, prompt_length):
    """Also while the prompt of another run is read."""
    clock(lambda n: 10.0 + n, 1.0)
    pair = pair_of([0, 1, 0], [1, 0, 0])
    decoded(pair, 200)
    monkeypatch.setattr(auto, "_SHARE", 1e-9)
    batch = Batch(pair)
    run = batch.add(specdec.stream(pair, [0], topology="auto", max_new_tokens=200, seed=1))
    for _ in range(17):
        batch.step()
    if prompt_length:
        batch.add(specdec.stream(pair, [0] * prompt_length, method="ar", max_new_tokens=1, seed=2))
    while run in batch:
        batch.step()
    sizes = "".join(str(tree.num_draft_tokens) for tree in trees_of(run.generation))
    assert sizes.startswith("0" * 16 + "111" + "0" * 32 + "111" + "0" * 64 + "111" + "0" * 60)


def test_a_run_beside_given_trees_and_one_that_takes_turns_draft_where_that_pays(clock, monkeypatch):
    clock(lambda n: 10.0 + n / 10, 1.0)
    pair = pair_of_twins()
    settings = {"max_new_tokens": 300, "detail": False}
    batch = Batch(pair)
    run = batch.add(specdec.stream(pair, [0], topology="auto", seed=0, **settings))
    for seed in (1, 2):
        batch.add(specdec.stream(pair, [0], topology=sequence(4), seed=seed, **settings))
    while run in batch:
        batch.step()
    assert all(tree.num_draft_tokens for tree in trees_of(run.generation)[9:])
    monkeypatch.setattr(auto, "_SHARE", 1e-9)  # no choice is due after the first ones
    pair = pair_of_twins()
    batch = Batch(pair)
    runs = [batch.add(specdec.stream(pair, [0], topology="auto", seed=n, **settings)) for n in range(2)]
    while len(batch) == 2:
        for each in runs:
            if each in batch:
                batch.step([each])
    for each in runs:
        assert all(tree.num_draft_tokens for tree in trees_of(each.generation)[9:])


def test_acceptance_of_a_first_child_that_was_never_accepted_sums_to_at_most_one():
    never = experience.Counts(np.array([50.0, 50.0]), np.array([0.0, 50.0]))
    assert 0 < never.vector()[0] < 1e-3
    assert never.vector().sum() <= 1


def test_a_draft_that_becomes_right_is_found_again(clock):
    """Token 0 is followed by 1 and so on up to 60, at which both models stay. Before that the draft errs."""
    clock(lambda n: 10.0 + 0.1 * n, 1.0)
    p = np.eye(61)[[*range(1, 61), 60]]
    q = np.eye(61)[[0] * 60 + [60]]
    sizes = [tree.num_draft_tokens for tree in trees_of(decoded(pair_of(p, q), 400))]
    assert min(sizes[20:60]) == 0
    assert min(sizes[-5:]) > 4


def test_the_tree_shrinks_as_more_runs_share_a_forward():
    """Up to eight rows cost the same. Each further row costs an eighth of that."""
    cost = costs.RoundCost(joint(lambda n: max(1.0, n / 8)), joint(lambda n: 1e-9), NOTHING)
    r = np.array([0.6, 0.15])
    sizes = [fastest.chosen(r, cost, texts).topology.num_draft_tokens for texts in (1, 2, 4, 8)]
    assert sizes[0] > sizes[1] > sizes[2] > sizes[3] == 0
    for each in fastest.chosen(r, cost).candidates:
        expected = theory.expected_tokens(r, each.topology) if each.paths else 1.0
        assert each.expected_tokens == pytest.approx(expected)


def test_the_next_run_begins_with_what_others_told(clock):
    clock(lambda n: 1e3, 1.0)
    pair = pair_of_twins()
    first = trees_of(decoded(pair))[0]
    second = specdec.generate(pair, [0], topology="auto", max_new_tokens=20, seed=0)
    other = specdec.generate(pair, [0], topology="auto", max_new_tokens=20, seed=1)
    assert trees_of(other)[0].depth > first.depth
    # a run with the same seed has the same noise, so only its times are used
    rates = experience.learned_of(pair).before(RunSettings("ersd", 1, Sampling(), 0, False), 0).vector()
    assert rates[0] < 1
    assert second.token_ids == decoded(pair, 20).token_ids


def test_what_is_remembered_of_a_pair_is_bounded(monkeypatch):
    pair = pair_of_twins()
    for seed in range(12):
        specdec.generate(pair, [0], topology="auto", max_new_tokens=3, seed=seed)
    for step in range(70):
        specdec.generate(pair, [0], topology="auto", max_new_tokens=2, temperature=0.1 * step, seed=0)
    learned = experience.learned_of(pair)
    assert max(map(len, learned.runs.values())) <= 8
    assert len(learned.runs) <= 64
    assert len(pickle.dumps(learned)) < 100_000
    assert pickle.loads(pickle.dumps(learned)).times.costs().target.seconds(1, 1) > 0
    monkeypatch.setattr(acceptance, "_REMEMBERED", 3)
    for temperature in (0.6, 0.7, 0.8, 0.9):
        specdec.measure_acceptance(pair, [0], temperature=temperature)
    assert [sampling.temperature for _, sampling, *_ in pair.measurements] == [0.7, 0.8, 0.9]


def test_busy_moments_do_not_count_and_more_tokens_never_cost_less():
    assert costs.undisturbed([1.0] * 6 + [50.0] * 2) == 1.0
    rising, falling = (costs.JointCost({1: table}) for table in ({1: 1.0, 5: 2.0}, {1: 1.0, 2: 3.0, 5: 2.0}))
    # beyond the last measured number, the cost grows as between the last two
    assert [rising.seconds(1, n) for n in (1, 3, 5, 9)] == [1.0, 1.5, 2.0, 3.0]
    assert [falling.seconds(1, n) for n in (1, 2, 3, 5)] == [1.0, 3.0, 3.0, 3.0]


def test_times_of_rounds_tell_what_rounds_cost():
    """A target's forward pass takes 10 + rows, a draft's 2 + rows, and other work 1 + 0.5 per node."""
    times, pair = costs.RoundTimes(), pair_of_twins()
    for tree in (Topology([]), sequence(4), topology.batch(4), sequence(9)):
        g = specdec.generate(pair, [0], topology=tree, max_new_tokens=100, seed=0)
        for round in g.rounds:
            if len(round.nodes) < tree.num_draft_tokens:
                continue
            levels, rows = costs.work_of(round)
            rest = specdec.trace.Seconds(verify=1.0, rest=0.5 * len(round.nodes))
            times.add([replace(round, seconds=rest)], 2.0 * levels + rows, 11.0 + len(round.nodes))
    cost = times.costs()
    assert [cost.target.seconds(1, n) for n in (1, 5, 10)] == pytest.approx([11, 15, 20])
    assert cost.draft.seconds(1, 1) == pytest.approx(3)
    over = cost.overhead
    assert (over.empty, over.drafting, over.node) == pytest.approx((1, 0.5, 0.5))


def test_rows_that_were_measured_in_a_busy_moment_cost_no_more_than_further_rows():
    times, pair = costs.RoundTimes(), pair_of_twins()
    for tree, seconds in ((Topology([]), 5.0), (sequence(2), 9.0), (sequence(4), 2.0), (sequence(8), 3.0)):
        for round in specdec.generate(pair, [0], topology=tree, max_new_tokens=60, seed=0).rounds:
            if len(round.nodes) == tree.num_draft_tokens:
                times.add([round], 0.1, seconds)
    target = times.costs().target
    assert [target.seconds(1, rows) for rows in (1, 3, 5, 9)] == [2, 2, 2, 3]


def test_a_first_slow_round_is_not_believed():
    times, pair = costs.RoundTimes(), pair_of_twins()
    plain = specdec.generate(pair, [0], method="ar", max_new_tokens=9, seed=0).rounds
    drafted = specdec.generate(pair, [0], topology=sequence(4), max_new_tokens=90, seed=0).rounds
    for round in plain[:4]:
        times.add([round], 0.0, 1.0)
    times.add(drafted[:1], 0.1, 1000.0)
    assert times.costs().target.seconds(1, 5) < 2
    for round in drafted[1:4]:
        times.add([round], 0.1, 1000.0)
    assert times.costs().target.seconds(1, 5) == 1000


@pytest.mark.parametrize("method", DRAFTING)
def test_nothing_is_decoded_but_the_text(method, monkeypatch):
    """Two runs of a new pair: each opens one session of each model, which reads the prompt and this text."""
    pair, sessions = markov_pair(4, seed=1), []
    session = MarkovModel.session
    monkeypatch.setattr(MarkovModel, "session", lambda model: sessions.append(session(model)) or sessions[-1])
    for number in (1, 2):
        run = decoded(pair, 60, method=method)
        assert len(sessions) == 2 * number
        assert sessions[-2].length == len(run.token_ids)  # the prompt's token too, but not the last one


def test_the_record_says_among_what_the_tree_would_be_chosen():
    pair = pair_of_twins()
    g = specdec.generate(pair, [0], topology="auto", max_new_tokens=40, seed=0)
    assert g.choice[0].paths == ()
    for candidate in g.choice:
        rate = 1000 * candidate.expected_tokens / candidate.milliseconds.total
        assert candidate.tokens_per_second == pytest.approx(rate)
    best = max(g.choice, key=lambda candidate: candidate.tokens_per_second)
    assert [candidate.chosen for candidate in g.choice] == [candidate is best for candidate in g.choice]
    assert specdec.Generation.from_json(g.to_json()) == g
    assert specdec.generate(pair, [0], max_new_tokens=4, seed=0).choice is None


@pytest.mark.parametrize("kind", ["target", "draft"])
def test_a_model_that_scores_sequences_only_gets_sequences(kind):
    pair = pair_of_twins()
    getattr(pair, kind).capability = "sequence"
    assert all(tree.is_sequence for tree in trees_of(decoded(pair)))


@pytest.mark.parametrize("context_length", [1, 2, 3, 6])
def test_a_draft_that_reads_little_is_measured_on_smaller_trees(context_length):
    table = random_table(6, 0, 3)
    pair = specdec.ModelPair(MarkovModel(table), MarkovModel(table, context_length=context_length))
    assert specdec.measure_acceptance(pair, method="gsd")[0] == 1.0
    assert len(decoded(pair, 20).token_ids) == 20


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_every_sampling_has_a_tree_of_its_own(method, monkeypatch):
    """Nodes have as many children as q has support. The rates of their children need not sum to 1."""
    monkeypatch.setattr(acceptance, "_TOKENS", 64)
    pair = markov_pair(12, seed=1)
    rose = 0
    for sampling in samplings((0.0, 0.3, 1.0, 2.0)):
        measured = specdec.measure_acceptance(pair, method=method, **sampling)
        assert (measured >= 0).all()
        assert measured.sum() <= 1 + 1e-12
        assert specdec.optimal_topology(measured, 5).num_draft_tokens == 5
        g = specdec.generate(pair, [1], method=method, topology="auto", max_new_tokens=3, seed=0, **sampling)
        assert len(g.token_ids) == 3
        rose += bool((np.diff(measured) > 0).any())
    assert rose, "a running minimum over what was measured would show here"


def test_a_child_that_is_accepted_where_the_first_never_is(clock):
    pair = pair_of([0.0, 1.0, 0.0], [1 - 1e-9, 1e-9, 0.0])
    for method in ("gsd", "ersd"):
        assert specdec.measure_acceptance(pair, method=method).tolist()[:2] == [0.0, 1.0]
        clock(lambda n: 1.0, 1e-9)
        assert trees_of(decoded(pair, method=method))[-1].paths[:2] == ((0,), (1,))
        learnt = specdec.learn.learn_context(pair, [[0]], method=method, tokens=50)
        assert learnt.average[:2] == (0.0, 1.0)
    assert specdec.optimal_topology([0, 1], 2).paths == ((0,), (1,))


def test_a_draft_that_is_never_right_is_told_from_one_that_was_not_asked_enough():
    pair = pair_of([0, 1, 0], [1, 0, 0])
    assert specdec.generate(pair, [0], topology="auto", max_new_tokens=4, seed=0).token_ids == [1, 1, 1, 1]
    with pytest.raises(ValueError, match="tokens = 30"):
        specdec.learn.learn_context(pair, [[0]], tokens=30)


def test_what_is_measured_does_not_depend_on_who_comes_first():
    vectors = []
    for prompt in ([0], [3]):
        pair = pair_of_twins()
        specdec.generate(pair, prompt, method="gsd", topology="auto", max_new_tokens=2, seed=0)
        vectors.append(specdec.measure_acceptance(pair, method="gsd").tolist())
    assert vectors[0] == vectors[1]


@pytest.mark.parametrize("method", DRAFTING)
def test_trees_grow_from_an_acceptance_that_all_trees_share(method):
    """The acceptance of the first child, alone and with seven siblings: 2,000 tokens, five standard errors
    (a false alarm has probability 1e-6)."""
    pair = pair_of(random_table(6, 0, 3), random_table(6, 0, 5))
    first = []
    for tree in (topology.sequence(1), topology.batch(8)):
        g = specdec.generate(pair, [0], method=method, topology=tree, max_new_tokens=2000, seed=1)
        first.append(stats.acceptance_by_index(g.rounds)[0])
    apart = abs(first[0].rate - first[1].rate) * min(entry.offered for entry in first) ** 0.5
    assert apart < 3.5 or not METHODS[method].by_index
    if method == "spectr":  # negative control: one threshold for all drafts, which rises with their number
        assert apart > 3.5
    grown_from = specdec.measure_acceptance(pair, [0], method=acceptance.measured_as(method))
    assert (specdec.measure_acceptance(pair, [0], method=method) == grown_from).all()
    assert (acceptance.measured_as(method) == method) == METHODS[method].by_index


def test_a_prompt_of_ones_own_is_measured_for_itself_and_for_its_end():
    """After token 0 the draft is always right, after token 1 never."""
    pair = pair_of(np.eye(3), [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    for other in ([], [1] * 100):
        assert specdec.measure_acceptance(pair, [*other, 0])[0] == 1.0
    for other in ([], [0] * 100):
        assert specdec.measure_acceptance(pair, [*other, 1])[0] < 0.01


def test_a_broken_chat_template_ends_no_measurement():
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template = "{{ 1 / 0 }}"
    table = torch.full((len(tokenizer),), 1 / len(tokenizer))
    pair = specdec.ModelPair(MarkovModel(table), MarkovModel(table), tokenizer)
    assert specdec.measure_acceptance(pair)[0] == 1
