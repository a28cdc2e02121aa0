"""Paths copied from the text change neither ERSD's text nor the distribution of any rule's, in any tree."""

from itertools import pairwise

import pytest
import torch

import specdec
from specdec.decoding import engine
from specdec.decoding.engine import Engine
from specdec.decoding.trees import Trees
from specdec.drafters import copies
from specdec.drafters.catalogue import COPIES, DRAFTERS, MODEL_AND_COPIES
from specdec.drafters.copies import Copies, joined
from specdec.drafters.stopping import Price
from specdec.exactness.losslessness import joint_distribution
from specdec.methods import DRAFTING, Drafted, Residual, followed
from specdec.probs import Sampling
from specdec.settings import RunSettings
from specdec.topology import Topology, batch, sequence
from tests.helpers.distributions import (
    FALSE_ALARM,
    TREE,
    chi_square_p_value,
    first_tokens,
    markov_pair,
    pair_of,
    random_table,
)
from tests.helpers.texts import ersd_as_plain, together_as_alone

REPEATING = [0, 1, 2, 3] * 4
COPYING = (COPIES, MODEL_AND_COPIES)
OTHER_THAN_ERSD = [method for method in DRAFTING if method != "ersd"]


def repetitive_pair():
    """A target whose texts repeat, with a draft that does not know this."""
    table = random_table(4, 1, 5) + 2 * torch.eye(4).roll(1, 1)
    return pair_of(table / table.sum(-1, keepdim=True), random_table(4, 1, 6))


PAIR = repetitive_pair()


def generated(method, drafter, pair=PAIR, topology=TREE, tokens=150, seed=0, **options):
    settings = {"method": method, "topology": topology, "max_new_tokens": tokens, "seed": seed, **options}
    return specdec.generate(pair, REPEATING, drafter=drafter, **settings)


def copied(generation, status="accepted"):
    return [n for round in generation.rounds for n in round.nodes if n.copied and n.status == status]


# ---------------------------------------------------------------- exactness


@pytest.mark.parametrize(
    ("drafter", "temperature"), [(COPIES, 1), (COPIES, 0.3), (MODEL_AND_COPIES, 0), (MODEL_AND_COPIES, 1.7)]
)
def test_ersd_gives_the_text_of_autoregressive_decoding(drafter, temperature):
    trees, settings = [sequence(4), batch(3), TREE, "auto"], {"drafter": drafter, "temperature": temperature}
    assert all(map(copied, ersd_as_plain(PAIR, REPEATING, trees, max_new_tokens=150, **settings)))


@pytest.mark.parametrize("drafter", COPYING)
@pytest.mark.parametrize(("method", "tree"), [*((method, TREE) for method in DRAFTING), ("ersd", "auto")])
def test_every_run_of_a_batch_writes_its_text_as_alone(method, tree, drafter):
    settings = {"method": method, "drafter": drafter, "topology": tree, "max_new_tokens": 60}
    prompts = [REPEATING, [2, 3], [0, 0, 0], REPEATING[1:]]
    assert all(map(copied, together_as_alone(PAIR, prompts, range(4), **settings)))


def begun(method, drafter):
    """Three tokens by the real engine, in one round or several. The texts are longer, so no tree is cut. In
    some texts the draft model stops where the path is likely right."""
    settings = RunSettings(method, 8, Sampling(), 0, drafter=drafter)
    tree = TREE if drafter == MODEL_AND_COPIES else Topology([])
    for seed in range(1000):
        run = Engine(PAIR, settings, Trees(tree), REPEATING, seed)
        run.follow(tree, (None, Price(0.02, 0.0), Price(0.1, 0.0))[seed % 3])
        yield first_tokens(run.rounds(), 3)


EXPECTED = joint_distribution(PAIR.target, REPEATING, 3)


@pytest.mark.slow
@pytest.mark.parametrize("drafter", COPYING)
@pytest.mark.parametrize("method", OTHER_THAN_ERSD)
def test_every_rule_keeps_the_target_s_distribution(method, drafter):
    """A χ² test of three tokens, 1,000 runs: they show both faults. A false alarm has probability 1e-6."""
    assert chi_square_p_value(begun(method, drafter), EXPECTED) > FALSE_ALARM


def same_noise(drafted, verdict, log_p, noise):
    """Broken on purpose: the token after a copied one is sampled with the uniform that decided the copy."""
    rows, token_id = [*verdict.rows], verdict.token_id
    u = noise.last(drafted.topology.path([0, *rows][-1]))
    for copy in drafted.copied:
        if drafted.topology.parents[copy] != [0, *rows][-1] or drafted.token_ids[copy] != token_id:
            break
        rows.append(copy)
        token_id = Residual(log_p[copy], None).sample(u)
    return verdict._replace(rows=tuple(rows), token_id=token_id)


def unchecked(drafted, verdict, log_p, noise):
    """Broken on purpose: the first copied token replaces the target's own token."""
    [*rows], copy = verdict.rows, next(iter(drafted.copied), None)
    if copy is not None and drafted.topology.parents[copy] == [0, *rows][-1]:
        verdict = verdict._replace(token_id=drafted.token_ids[copy])
    return followed(drafted, verdict, log_p, noise)


@pytest.mark.parametrize("broken", [same_noise, unchecked])
@pytest.mark.parametrize("drafter", COPYING)
def test_chi_square_catches_broken_verification_of_copies(drafter, broken, monkeypatch):
    monkeypatch.setattr(engine, "followed", broken)
    assert chi_square_p_value(begun("gsd", drafter), EXPECTED) < FALSE_ALARM


@pytest.mark.parametrize("method", DRAFTING)
def test_greedy_texts_are_equal_and_copies_save_calls(method):
    for drafter in COPYING:
        plain = generated("ar", drafter, temperature=0, seed=1)
        assert plain.num_target_calls == len(plain.token_ids)
        assert not any(round.nodes for round in plain.rounds)
        run = generated(method, drafter, temperature=0, seed=1)
        assert run.token_ids == plain.token_ids
        assert len(run.rounds) < len(generated(method, "model", temperature=0, seed=1).rounds)


# ---------------------------------------------------------------- the paths


def test_a_path_needs_a_repeated_suffix_and_is_as_long_as_it_is_likely():
    lengths = []
    for text in ([0, 1, 2, 3], [0, 1, 2, 9, 2], [7, 0, 1, 2, 3, 9, 0, 1, 2], REPEATING):
        paths = Copies()
        paths.follow(text)
        tokens, chances = paths.path(16)
        assert len(chances) == len(tokens)
        assert all(1 >= a >= b > 0 for a, b in pairwise([1, *chances]))
        lengths.append(len(tokens))
    assert lengths[:2] == [0, 0]
    assert 0 < lengths[2] < lengths[3]


def test_paths_go_on_as_n_grams_do():
    paths = Copies()
    paths.follow(REPEATING)
    tokens, _ = paths.path(9)
    assert [tokens] == specdec.drafters.NGram().propose(REPEATING, sequence(len(tokens)))


def test_shares_follow_the_text_and_not_its_rounds():
    wrong, right, at_once = Copies(), Copies(), Copies()
    share = Copies().share(16)
    for length in range(len(REPEATING), 80):
        right.follow(([0, 1, 2, 3] * 20)[:length])
        wrong.follow((REPEATING + [9, 8, 7, 6, 5] * 13)[:length])
    at_once.follow(REPEATING)
    at_once.follow(([0, 1, 2, 3] * 20)[:79])
    assert right.share(16) > share
    assert [at_once.share(1 << n) for n in range(5)] == [right.share(1 << n) for n in range(5)]
    assert wrong.share(16) < right.share(16)


def test_a_copy_beside_another_draft_counts_where_the_text_tells():
    def tokens_after(disputed, text):
        paths = Copies()
        paths.follow(REPEATING)
        paths.follow(REPEATING + text)
        paths.settle(len(REPEATING), disputed)
        return sum(paths.path(16, 0)[1])

    unknown = tokens_after([0, 1, 2], [0, 1])
    assert tokens_after([0, 3], [0, 1]) < unknown < tokens_after([0, 1], [0, 1])
    assert tokens_after([1, 1], [0, 1]) == unknown


def test_a_path_shares_the_nodes_that_the_tree_has_and_hangs_below_them():
    tree = Drafted(TREE, [5, 1, 2, 3, 4], [None] * 5, [[1, 2, 1], [3], [4], [], []])
    joint, rows = joined(tree, [2, 4, 6, 7])
    assert joint.topology.paths == ((0,), (1,), (0, 0), (1, 0), (1, 0, 0), (1, 0, 0, 0))
    assert (joint.token_ids, joint.copied) == ([5, 1, 2, 3, 4, 6, 7], (5, 6))
    assert rows == [0, 1, 2, 3, 4, None, None]
    joint, rows = joined(tree, [1, 9])
    assert joint.topology.paths == ((0,), (1,), (0, 0), (0, 1), (1, 0))
    assert (joint.token_ids, joint.copied, rows) == ([5, 1, 2, 3, 9, 4], (4,), [0, 1, 2, 3, None, 4])
    assert joint.draws == [[1, 2, 1], [3], [5], [], (), []]
    assert [*joint.candidates(1)] == [3]
    assert joined(tree, [2, 4])[0].copied == ()


def test_the_model_rests_where_a_path_promises_as_much_as_its_tree():
    rounds = generated("ersd", MODEL_AND_COPIES, topology=sequence(2)).rounds
    kinds = {frozenset(node.copied for node in round.nodes) for round in rounds}
    assert {frozenset([True]), frozenset([True, False])} <= kinds


def test_copied_nodes_do_not_count_as_the_draft_s():
    run = generated("ersd", COPIES, detail=True)
    assert specdec.Generation.from_json(run.to_json()) == run
    assert (run.drafter, run.draft) == (COPIES, COPIES)
    assert copied(run)
    assert [*run.rounds[0].verified()] == []
    assert run.acceptance.num_accepted == len(copied(run))


@pytest.mark.parametrize("method", OTHER_THAN_ERSD)
def test_a_token_is_a_residual_s_only_after_a_test_of_a_draft(method):
    alone, beside = (generated(method, drafter, detail=True) for drafter in COPYING)
    kinds_alone = {token.kind for round in alone.rounds for token in round.tokens}
    assert kinds_alone == {"accepted", "bonus", "sampled"}
    kinds = {}
    for round in beside.rounds:
        tested = any(node.status == "rejected" and not node.copied for node in round.nodes)
        kinds.setdefault(round.tokens[-1].kind, set()).add(tested)
    assert (kinds["residual"], False in kinds["sampled"]) == ({True}, True)


@pytest.mark.parametrize("method", DRAFTING)
def test_copying_goes_on_where_the_text_is_too_long_for_the_draft(method):
    pair = repetitive_pair()
    pair.draft.context_length = len(REPEATING) + 20
    run = generated(method, MODEL_AND_COPIES, pair)
    beyond = [round for round in run.rounds if round.position > pair.draft.context_length]
    nodes = [node for round in beyond for node in round.nodes]
    assert all(node.copied for node in nodes)
    assert any(node.status == "accepted" for node in nodes)
    assert any(not node.copied for round in run.rounds for node in round.nodes)
    pair.draft.context_length = len(REPEATING) - 4  # shorter than the prompt
    assert copied(generated(method, MODEL_AND_COPIES, pair))


# ---------------------------------------------------------------- mistakes


def test_copies_need_no_draft_model_and_no_trees():
    alone = specdec.ModelPair(PAIR.target)
    for method in DRAFTING:
        assert copied(generated(method, COPIES, alone, topology=None))
    pair = markov_pair(4)
    pair.target.capability = "sequence"
    assert copied(generated("ersd", COPIES, pair))


@pytest.mark.parametrize(
    ("drafter", "capability", "names"),
    [
        ("copy", "tree", "drafter = 'copy'.*model, copies, model\\+copies, strings"),
        (MODEL_AND_COPIES, "sequence", "drafter = 'model\\+copies': .* sequences only; use 'copies'"),
        (COPIES, "ar", "can only decode token by token"),
        (MODEL_AND_COPIES, None, "needs a draft model"),
    ],
)
def test_mistakes_are_named(drafter, capability, names):
    pair = markov_pair(4) if capability else specdec.ModelPair(PAIR.target)
    pair.target.capability = capability or "tree"
    with pytest.raises(ValueError, match=names):
        generated("gsd", drafter, pair)
    assert drafter == "copy" or drafter in DRAFTERS


def test_a_path_never_grows_beyond_its_limit():
    run = generated("ersd", COPIES, temperature=0, tokens=100)
    assert max(len(round.nodes) for round in run.rounds) == copies.LONGEST
