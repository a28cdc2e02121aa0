"""Trees that depend on the draft's output: the text keeps its distribution, a tree has at most k tokens."""

import math

import pytest
import torch

import specdec
from research.experiments import context as experiment
from specdec import learn
from specdec.context import ContextAcceptance, ContextTree
from specdec.context.acceptance import STAGES, Hazards, marginal
from specdec.context.features import WIDTH, of_arrivals, of_children, of_node, of_uniforms
from specdec.context.growth import Branch, child_counts, plan
from specdec.drafters import context as context_draft
from specdec.exactness.losslessness import joint_distribution
from specdec.probs import Sampling
from tests.helpers.context_trees import AVERAGE, capricious
from tests.helpers.distributions import (
    FALSE_ALARM,
    adversarial_pair,
    chi_square_p_value,
    markov_pair,
    pair_of,
    random_table,
    texts,
)
from tests.helpers.texts import ersd_as_plain


@pytest.mark.slow
@pytest.mark.parametrize(("k", "seed"), [(4, 2), (6, 3)])
def test_gsd_on_grown_trees_has_the_targets_distribution(k, seed):
    """A χ² test of the first two tokens of 1,000 runs. A false alarm has probability 1e-6 for each tree."""
    pair, tree = adversarial_pair(6), ContextTree(capricious("gsd", seed), k)
    runs = texts(pair, "gsd", tree, 1000)
    assert chi_square_p_value(runs, joint_distribution(pair.target, [0], 2)) > FALSE_ALARM


def counts_that_look_ahead(reach, untested, tested, most, k, depth, average):
    """GSD must not do this: decide about child i with the uniform that will test child i."""
    return child_counts(reach, tested, tested, most, k, depth, average)


def second_child_by_its_uniform():
    """Two nodes. The second one is a second child if its own uniform is above 0.6 and may be used."""
    indifferent = Hazards(torch.zeros(WIDTH, 4), torch.zeros(WIDTH))
    weights, bias = torch.zeros(WIDTH, 7), torch.zeros(WIDTH)
    weights[1, 4], bias[1] = 40.0, -24.0
    drafted = Hazards(torch.zeros(WIDTH, 9), torch.zeros(WIDTH))
    stages = {"node": indifferent, "tested": Hazards(weights, bias), "drafted": drafted}
    return ContextTree(ContextAcceptance("gsd", AVERAGE, stages), 2)


@pytest.mark.slow
@pytest.mark.parametrize("peeks", [False, True])
def test_chi_square_catches_a_child_decided_with_its_own_uniform(peeks, monkeypatch):
    """The first token of 2,500 runs. A false alarm has probability 1e-6."""
    if peeks:
        monkeypatch.setattr(context_draft, "child_counts", counts_that_look_ahead)
    # the first child is often rejected, so siblings, uniforms and residual decide
    pair, tree = pair_of([0.1, 0.5, 0.4], [0.6, 0.3, 0.1]), second_child_by_its_uniform()
    runs = texts(pair, "gsd", tree, 2500, length=1)
    assert (chi_square_p_value(runs, joint_distribution(pair.target, [0], 1)) < FALSE_ALARM) == peeks


@pytest.mark.parametrize(("order", "k"), [(0, 1), (1, 7), (2, 16)])
def test_ersd_on_grown_trees_is_drafter_invariant(order, k):
    pair = pair_of(random_table(12, 2, 0), random_table(12, order, 50))
    ersd_as_plain(pair, [1, 2], [ContextTree(capricious("ersd", k), k)], range(2), max_new_tokens=200)


@pytest.mark.parametrize("method", ["gsd", "ersd"])
@pytest.mark.parametrize("k", [1, 16])
def test_a_round_never_drafts_more_than_k_and_shapes_differ(method, k):
    settings = {"method": method, "max_new_tokens": 120, "seed": 1, "detail": True}
    g = specdec.generate(markov_pair(8), [0], topology=ContextTree(capricious(method), k), **settings)
    # the number of drafts depends on the noise that decides, so no optimum is known
    assert {step.optimum for round in g.rounds for step in round.steps} == {None}
    assert all(len(round.nodes) <= k for round in g.rounds)
    assert max(len(round.nodes) for round in g.rounds) == k
    if k > 1:
        assert len({tuple(node.path for node in round.nodes) for round in g.rounds}) > 3
    assert g.paths == ()


@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_only_tokens_with_draft_probability_are_drafted(method):
    pair, tree = pair_of([0.25] * 4, [0.5, 0.5, 0.0, 0.0]), ContextTree(capricious(method), 6)
    g = specdec.generate(pair, [0], method=method, topology=tree, max_new_tokens=60, seed=0)
    assert all(node.token_id in (0, 1) for round in g.rounds for node in round.nodes)


# ---------------------------------------------------------------- plans


def test_a_second_child_is_not_drafted_where_the_first_is_sure():
    untested = [[0.6, 0.5, 0.3] + [0.1] * 5] * 2
    tested = [[0.999, 0.5, 0.3] + [0.1] * 5, [0.001, 0.5, 0.3] + [0.1] * 5]
    first, second = child_counts([0.5, 0.5], untested, tested, [WIDTH] * 2, 4, 2, AVERAGE)
    assert first == 1
    assert second > 1


def test_the_planned_nodes_of_a_known_tree_are_its_most_acceptable():
    root = Branch(0)
    a, b = root.drafted([1, 2], [0.6, 0.3])
    a.drafted([3, 4], [0.9, 0.05])
    b.drafted([5], [0.9])
    branches, unscored = plan([root], 4, 2, AVERAGE)
    assert [node.token_id for node in branches] == [1, 3, 2, 5]
    assert not unscored


# ---------------------------------------------------------------- features and learning


def test_features_stay_finite_at_the_edges_of_probability():
    one_hot = torch.full((2, 5), -math.inf)
    one_hot[:, 0] = 0
    uniforms = torch.tensor([1e-300, 1 - 2**-53] * 4, dtype=torch.float64)
    children = torch.arange(5).expand(2, 5)
    times = torch.tensor([[0.1, math.inf, math.inf, math.inf, math.inf]] * 2)
    for features in (of_node(one_hot), of_children(one_hot, children), of_arrivals(times)):
        assert features.shape[:2] == (2, WIDTH)
        assert features.isfinite().all()
    assert of_uniforms(uniforms, 2).clamp_min(-1e9).isfinite().all()


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_rates_are_computed_where_the_hazards_are(device):
    """The draft may be on another device. Tensors on "meta" have no values and can't be combined with
    others."""
    log_q, times = torch.zeros(3, 20, device=device), torch.ones(3, WIDTH + 1, device=device)
    children = torch.zeros(3, WIDTH, dtype=torch.int64, device=device)
    uniforms = torch.ones(WIDTH)
    for method in STAGES:
        moved = capricious(method)
        for name, stage in moved.stages.items():
            moved.stages[name] = Hazards(stage.weights.to("meta"), stage.bias.to("meta"))
        if method == "ersd":
            rates = [moved.of_drafted_ersd(log_q, times, children)]
        else:
            rates = [moved.of_node(log_q), moved.of_tested(log_q, uniforms)]
            rates.append(moved.of_drafted_gsd(log_q, uniforms, children))
        assert {(tuple(each.shape), each.device.type) for each in rates} == {((3, WIDTH), "meta")}


def log_losses(acceptance, samples):
    rates = torch.tensor(acceptance.average)
    none = torch.cat([samples.accepted.double(), 1 - samples.accepted.double().sum(-1, keepdim=True)], -1)
    distribution = torch.cat([rates, 1 - rates.sum(-1, keepdim=True)]).clamp_min(1e-12)
    losses = {"average": float(-(none * distribution.log()).sum(-1).mean())}
    earlier = samples.accepted.cumsum(-1) - samples.accepted.long()
    at_risk = samples.offered & (earlier == 0)
    for name, features in samples.stages.items():
        hazards = acceptance.stages[name](features).clamp(1e-9, 1 - 1e-9)
        terms = torch.where(samples.accepted, hazards, 1 - hazards).log()
        losses[name] = float(-(terms * at_risk).sum(-1).mean())
    return losses


@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_what_is_learnt_tells_more_the_more_is_known(method):
    generator = torch.Generator().manual_seed(3)
    log_q = (torch.randn(4000, 24, generator=generator) * 2).log_softmax(-1)
    log_p = (log_q + torch.randn(4000, 24, generator=generator)).log_softmax(-1)
    train, test = (learn.sampled(log_p[i::2], log_q[i::2], method, generator) for i in (0, 1))
    losses = log_losses(learn.fitted(train, method), test)
    least = {"gsd": {"node": 0.001, "tested": 0.07, "drafted": 0.07}, "ersd": {"drafted": 0.07}}[method]
    assert all(losses[stage] < losses["average"] - gain for stage, gain in least.items()), losses


@pytest.mark.parametrize("method", ["gsd", "ersd"])
def test_learnt_rates_are_those_of_theory(method):
    """P and Q are the same everywhere. The marginals are R by index, within 5 standard errors (1e-6 each)."""
    p, q = random_table(10, 0, 1), random_table(10, 0, 2)
    n = 6000
    log_p, log_q = p.log().expand(n, 10), q.log().expand(n, 10)
    acceptance = learn.fitted(learn.sampled(log_p, log_q, method, torch.Generator().manual_seed(1)), method)
    exact = getattr(specdec.theory, f"{method}_acceptance_by_index")(p, q, WIDTH)
    for learnt, rate in zip(acceptance.average, exact.tolist(), strict=True):
        assert abs(learnt - rate) < 5 * math.sqrt(rate * (1 - rate) / n) + 1e-9
    hazards = torch.rand(5, WIDTH, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(marginal(hazards).sum(-1), 1 - (1 - hazards).prod(-1))


def test_learning_and_saving_round_trip(tmp_path):
    acceptance = learn.learn_context(markov_pair(6), [[0], [1]], method="gsd", tokens=60)
    acceptance.save(tmp_path / "a.json")
    loaded = ContextAcceptance.load(tmp_path / "a.json")
    assert loaded.average == acceptance.average
    log_q = torch.log_softmax(torch.randn(3, 6, generator=torch.Generator().manual_seed(0)), -1)
    assert torch.allclose(loaded.of_node(log_q), acceptance.of_node(log_q))
    (tmp_path / "x.json").write_text("[1]")
    for name in ("x.json", "missing.json"):
        with pytest.raises(ValueError, match=name):
            ContextAcceptance.load(tmp_path / name)


def test_texts_are_scored_as_the_models_score_them():
    pair = specdec.load_pair("stories")
    ids = pair.encode("Once upon a time there was a dog. The dog had a red ball and a big smile.") * 5
    log_p = learn.scored(pair.target, ids, 3, pair, Sampling())
    with torch.inference_mode():
        logits = pair.target.module(torch.tensor([ids], device=pair.target.device)).logits
    expected = logits[0, 2:-1, : pair.vocab_size].log_softmax(-1)
    assert torch.allclose(log_p.cpu(), expected.cpu(), atol=1e-4)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: ContextTree(capricious("gsd"), 0), "k = 0"),
        (lambda: ContextTree([0.5], 4), "acceptance"),
        (lambda: learn.learn_context(markov_pair(), [[0]], method="ar"), "method = 'ar'"),
        (lambda: learn.learn_context(markov_pair(), "text"), "prompts"),
        (lambda: learn.learn_context(markov_pair(), None), "prompts = None"),
        (lambda: ContextAcceptance("gsd", AVERAGE, {}), "stages"),
        (lambda: ContextAcceptance("gsd", AVERAGE[:3], capricious("gsd").stages), "average"),
        (lambda: [*texts(markov_pair(), "gsd", ContextTree(capricious("ersd"), 4), 1)], "learnt for 'ersd'"),
    ],
)
def test_mistakes_are_named(make, names):
    with pytest.raises(ValueError, match=names):
        make()


@pytest.mark.slow
def test_the_gain_experiment_runs_and_counts(tmp_path):
    arguments = ["--smoke", "--results", str(tmp_path / "r.jsonl"), "--acceptance", str(tmp_path)]
    experiment.EXPERIMENT.command([*arguments, "--summary", str(tmp_path / "s.json")])
    assert (tmp_path / "r.jsonl").read_text().count("\n") == 1 + 16
