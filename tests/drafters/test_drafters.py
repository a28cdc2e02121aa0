"""Drafters that are not models change neither ERSD's text nor GSD's distribution. Mistakes are named."""

import itertools
import time
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch

import specdec
from specdec.decoding import experience
from specdec.decoding.engine import Engine
from specdec.decoding.trees import Trees
from specdec.drafters import NGram, Suffix
from specdec.drafters.automaton import SuffixAutomaton
from specdec.exactness.faults import FAULTS
from specdec.exactness.losslessness import joint_distribution
from specdec.methods import Residual, gsd
from specdec.models import MarkovModel
from specdec.probs import Sampling
from specdec.settings import RunSettings
from specdec.topology import Topology, batch, sequence
from tests.helpers.distributions import (
    FALSE_ALARM,
    TREE,
    chi_square_p_value,
    first_tokens,
    markov_pair,
    random_table,
)
from tests.helpers.texts import ersd_as_plain
from tests.helpers.tiny_checkpoints import tiny_model
from tests.helpers.tokenizers import byte_level_tokenizer

TARGET = MarkovModel(random_table(8, 1, seed=3), "target")
PAIR = specdec.ModelPair(TARGET)


class Proposing:
    """Fills the topology with the tokens that `choose(prefix, count)` gives for each node."""

    def __init__(self, choose, name="proposing"):
        self.choose, self.name = choose, name

    def propose(self, text_ids, topology):
        lines = {0: ()}
        for row, children in enumerate(topology.children):
            if row in lines:
                chosen = self.choose((*text_ids, *lines[row]), len(children))
                lines |= {child: (*lines[row], token) for child, token in zip(children, chosen, strict=False)}
        inner = {topology.parents[row] for row in lines}
        return [line for row, line in lines.items() if row not in inner]


def by_rank(prefix, count, first):
    return TARGET.log_table[prefix[-1]].argsort(descending=first)[:count].tolist()


DRAFTERS = [
    Proposing(partial(by_rank, first=False), "rarest"),
    Proposing(partial(by_rank, first=True), "likeliest"),
    Proposing(lambda prefix, count: [(sum(prefix) + i) % 8 for i in range(count)], "lies"),
    Proposing(lambda prefix, count: prefix[-1:] * min(count, 1), "repeats"),
    Proposing(lambda prefix, count: [], "nothing"),
    Proposing(lambda prefix, count: [7] if len(prefix) % 2 and count else [], "now and then"),
    NGram(),
    NGram(3),
    Suffix(),
    Suffix(0),
]


def generated(method, drafter, topology=TREE, pair=PAIR, seed=0, tokens=150, **options):
    settings = {"method": method, "topology": topology, "max_new_tokens": tokens, "seed": seed, **options}
    return specdec.generate(pair, [0], drafter=drafter, **settings)


# ---------------------------------------------------------------- exactness


@pytest.mark.parametrize("drafter", DRAFTERS, ids=lambda drafter: drafter.name)
def test_ersd_gives_the_text_of_autoregressive_decoding_whoever_drafts(drafter):
    uneven = Topology([(0,), (1,), (0, 0), (1, 0), (1, 0, 0)])
    ersd_as_plain(PAIR, [0], [sequence(4), batch(3), TREE, uneven], drafter=drafter, max_new_tokens=150)


def test_ersd_on_a_target_alone_writes_its_text_letter_by_letter():
    tokenizer = byte_level_tokenizer()
    target = tiny_model("llama", vocab_size=len(tokenizer), eos_token_id=None)
    alone = specdec.ModelPair(target, tokenizer=tokenizer)
    settings = {"temperature": 0.3, "max_new_tokens": 60}
    [run] = ersd_as_plain(alone, "the cat, the cat,", [None], [7], drafter=NGram(), **settings)
    assert run.num_target_calls < len(run.token_ids)


def begun(drafter, verifier=None, temperature=None):
    """Two tokens of GSD by the real engine. The runs are longer, so the trees of these tokens are not cut."""
    settings = RunSettings("gsd", 2 + TREE.depth, Sampling(), 0, False, temperature, drafter).checked()
    pair = PAIR if drafter is not None else markov_pair(8, seed=3)
    for seed in range(1000):
        yield first_tokens(Engine(pair, settings, Trees(TREE), [0], seed, verifier).rounds(), 2)


@pytest.mark.slow
@pytest.mark.parametrize("drafter", DRAFTERS[:3] + DRAFTERS[-3:], ids=lambda drafter: drafter.name)
def test_gsd_keeps_the_target_s_distribution_whoever_drafts(drafter):
    """A χ² test of two tokens, 1,000 runs: they show both faults. A false alarm has probability 1e-6."""
    assert chi_square_p_value(begun(drafter), joint_distribution(TARGET, [0], 2)) > FALSE_ALARM


def test_chi_square_catches_broken_verifiers():
    """Negative control for drafts without probabilities: the emitted token is the sample that was not
    drafted.

    The control for drafts with probabilities is a verifier whose p does not change after a rejection.
    """

    def twice(drafted, log_p, noise):
        verdict = gsd.verify(drafted, log_p, noise)
        if verdict.kind != "residual":
            return verdict
        residual = Residual(log_p[(0, *verdict.rows)[-1]], None)
        u = noise.last((0,) * len(verdict.rows))
        return verdict._replace(token_id=residual.sample((u * 7919) % 1))

    for drafter, broken in ((DRAFTERS[1], twice), (Suffix(0), FAULTS["kept-target"].verifier)):
        assert chi_square_p_value(begun(drafter, broken), joint_distribution(TARGET, [0], 2)) < FALSE_ALARM


# ---------------------------------------------------------------- the draft's temperature


@pytest.mark.parametrize("temperature", [0, 0.3, 2.5])
def test_a_draft_temperature_changes_ersd_s_calls_and_not_its_text(temperature):
    pair = markov_pair(8, seed=3)
    plain = generated("ersd", None, pair=pair)
    other = generated("ersd", None, pair=pair, draft_temperature=temperature)
    assert other.token_ids == plain.token_ids
    assert len(other.rounds) != len(plain.rounds)
    assert (plain.draft_temperature, other.draft_temperature) == (None, temperature)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0, 0.3, 2.5])
def test_a_draft_temperature_leaves_gsd_s_distribution(temperature):
    """A χ² test of two tokens, 1,000 runs. A false alarm has probability 1e-6 for each temperature."""
    runs = begun(None, temperature=temperature)
    assert chi_square_p_value(runs, joint_distribution(markov_pair(8, seed=3).target, [0], 2)) > FALSE_ALARM


def test_auto_learns_for_each_draft_temperature():
    pair = markov_pair(8, seed=3)
    for temperature in (None, 0.5, None):
        generated("ersd", None, "auto", pair, tokens=5, draft_temperature=temperature)
    assert [len(runs) for runs in experience.learned_of(pair).runs.values()] == [2, 1]


# ---------------------------------------------------------------- what drafters know of the text


def texts():
    for seed in range(12):
        generator = torch.Generator().manual_seed(seed)
        yield torch.randint(0, 2 + seed % 3, (40,), generator=generator).tolist()


def places(text, string):
    ends = range(len(string) - 1, len(text))
    return [i for i in ends if text[i + 1 - len(string) : i + 1] == string]


def test_the_automaton_knows_every_string_and_its_places():
    for text in texts():
        automaton = SuffixAutomaton()
        automaton.follow([1, 2, 1])  # of another text
        automaton.follow(text[:23])
        automaton.follow(text)
        assert (automaton.text, automaton.whole_text.length) == (text, len(text))
        for start, end in itertools.combinations(range(len(text) + 1), 2):
            state = automaton.empty
            for token_id in text[start:end]:
                state = state.next[token_id]
            ends = places(text, text[start:end])
            assert (state.count, state.last) == (len(ends), ends[-1])
            assert state.previous == (ends[-2] if len(ends) > 1 else -1)


def test_a_text_of_equal_tokens_takes_linear_time():
    def seconds(count):
        start = time.process_time()
        SuffixAutomaton().follow([7] * count)
        return time.process_time() - start

    def least(count):  # a collection of garbage in a process of many objects may take longer than the text
        return min(seconds(count) for _ in range(3))

    assert least(16_000) < 16 * least(2000)  # it would take 64 times as long if the time were quadratic


def longest_seen_before(text):
    return next(text[i:] for i in range(1, len(text)) if len(places(text, text[i:])) > 1)


def test_n_grams_go_on_as_after_the_last_place_of_the_longest_suffix():
    drafter = NGram()
    for text in texts():
        suffix = longest_seen_before(text)
        expected = list(text)
        for i in range(places(text, suffix)[-2] + 1, places(text, suffix)[-2] + 6):
            expected.append(expected[i])
        assert drafter.propose(text, sequence(5)) == [expected[len(text) :]]


def test_n_grams_propose_nothing_where_no_suffix_that_is_long_enough_was_there_before():
    assert NGram().propose([1, 2, 3], sequence(4)) == []
    assert NGram(3).propose([1, 2, 9, 1, 2], sequence(4)) == []
    assert NGram(2).propose([1, 2, 9, 1, 2], sequence(4)) == [[9, 1, 2, 9]]


@pytest.mark.parametrize(
    ("shortest", "drafted", "weights"),
    [
        (1, (), {2: 0.5 + 0.5 * 1 / 5, 1: 0.5 * 2 / 5}),  # the tokens after 0 1 0, then those after 0
        (0, (), {2: 0.6 + 0.2 * 1 / 10, 1: 0.2 + 0.2 * 2 / 10, 0: 0.2 * 4 / 10}),  # then the tokens anywhere
        (2, (), {2: 0.5}),
        (4, (), {}),
        (1, (2,), {0: 0.5}),  # the tokens after 0 1 0 2
        (1, (2, 0), {1: 0.5 + 0.5 * 2 / 5, 2: 0.5 * 1 / 5}),  # the tokens after 0 1 0 2 0, then those after 0
        (1, (5,), {}),
    ],
)
def test_suffixes_share_out_chances_by_partial_matching(shortest, drafted, weights):
    assert Suffix(shortest).distribution([0, 1, 0, 2, 0, 1, 0], drafted) == pytest.approx(weights)


def test_runs_that_share_a_drafter_have_indices_of_their_own():
    drafter = Suffix(0)
    settings = {"drafter": drafter, "topology": TREE, "max_new_tokens": 60, "detail": False}
    runs = [specdec.stream(PAIR, [0], seed=seed, **settings) for seed in (1, 2)]
    together = [*zip(*itertools.zip_longest(*runs), strict=True)]
    for seed, rounds in zip((1, 2), together, strict=True):
        alone = generated("ersd", Suffix(0), seed=seed, tokens=60)
        assert [each.nodes for each in alone.rounds] == [each.nodes for each in rounds if each]


# ---------------------------------------------------------------- records and mistakes


@pytest.mark.parametrize("drafter", [NGram(), Suffix(0)], ids=lambda drafter: drafter.name)
@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_records_of_drafters_are_read_back(method, drafter):
    g = generated(method, drafter, detail=True, tokens=40)
    assert specdec.Generation.from_json(g.to_json()) == g
    assert g.draft == drafter.name
    nodes = [node for round in g.rounds for node in round.nodes]
    assert nodes
    assert all((node.q is None) == isinstance(drafter, NGram) for node in nodes)


class Saying:
    name = "saying"

    def __init__(self, **answers):
        for method, answer in answers.items():
            setattr(self, method, lambda *_, answer=answer: answer)


@pytest.mark.parametrize(
    ("drafter", "names"),
    [
        (object(), "drafter = <object .* has neither propose"),
        (Saying(propose=3), r"saying: propose\(\) gave 3, which is not a list of continuations"),
        (Saying(propose="abc"), r"propose\(\) gave 'abc'"),
        (Saying(propose=[1, 2]), r"propose\(\)\[0\] = 1 is not a list"),
        (Saying(propose=[[1, 2.5]]), r"propose\(\)\[0\]\[1\] = 2.5 is not an integer"),
        (Saying(propose=[[1], [8]]), r"propose\(\)\[1\]: token id 8 is not in the vocabulary, 0 to 7"),
        (Saying(propose=[[1, 2], [1]]), r"propose\(\)\[1\] repeats another continuation"),
        (Saying(propose=[[1], [2], [3]]), r"propose\(\)\[2\] does not fit .* path \(\) has 2 children"),
        (Saying(propose=[[1, 2, 3]]), r"path \(0, 0\) has 0 children"),
        (Saying(distribution=[0.5, 0.5]), r"distribution\(\) gave \[0.5, 0.5\], which are not weights"),
        (Saying(distribution={9: 1.0}), r"distribution\(\): token id 9 is not in the vocabulary"),
        (Saying(distribution={1: -1.0}), r"distribution\(\)\[1\] = -1.0 is not a weight"),
        (Saying(distribution={1: float("nan")}), r"distribution\(\)\[1\] = nan is not a weight"),
        (Saying(propose=[], new_run=None), r"saying: new_run\(\) gave None"),
        (Saying(propose=[], new_run=3), "drafter = 3 has neither propose"),
        (NGram, "drafter = <class .*NGram'> is a class"),
    ],
)
def test_what_is_proposed_is_checked(drafter, names):
    with pytest.raises(ValueError, match=names):
        generated("ersd", drafter)


@pytest.mark.parametrize(
    ("token_id", "weight"),
    [(3, Fraction(1, 2)), (np.int64(3), np.float32(0.5)), (torch.tensor(3), torch.tensor(0.5))],
)
def test_weights_are_numbers_of_any_kind(token_id, weight):
    drafter = Saying(distribution={token_id: weight})
    assert generated("ersd", drafter).token_ids == generated("ar", None).token_ids


NOTHING = [{"propose": []}, {"propose": [[]]}, {"distribution": {}}, {"distribution": {3: 0}}]


@pytest.mark.parametrize("answers", NOTHING)
def test_nothing_at_all_is_an_answer(answers):
    assert len(generated("gsd", Saying(**answers), tokens=20).rounds) == 20


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: generated("ersd", None), "needs a draft model"),
        (lambda: generated("traversal", Suffix()), "method = 'traversal' needs a draft model"),
        (lambda: generated("ersd", NGram(), "auto"), "topology = 'auto' needs a draft model"),
        (lambda: generated("ersd", None, draft_temperature=-1), "draft_temperature = -1 is not"),
        (lambda: generated("ersd", NGram(), TREE, stepping("sequence")), "can score sequences only"),
        (lambda: generated("ersd", NGram(), TREE, stepping("ar")), "only decode token by token"),
        (lambda: NGram(0), "shortest = 0"),
        (lambda: Suffix(-1), "shortest = -1"),
    ],
)
def test_mistakes_are_named(make, names):
    with pytest.raises(ValueError, match=names):
        make()


def stepping(capability):
    model = MarkovModel(random_table(8, 1, seed=3))
    model.capability = capability
    return specdec.ModelPair(model)
