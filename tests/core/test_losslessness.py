"""The losslessness check: its distribution and its statistic are right, and it finds every known fault."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats

import specdec
from components.losslessness import panel as losslessness
from components.losslessness import run as lossless_run
from components.losslessness.record_checks import SHOWN, shows_after
from components.runs import seats
from specdec.exactness.audit.evidence import detectable
from specdec.exactness.faults import FAULTS, Fault
from specdec.exactness.losslessness import (
    LEAST_EXPECTED,
    MOST_OUTCOMES,
    Check,
    chi_square,
    joint_distribution,
)
from specdec.methods import DRAFTING, METHODS
from specdec.models import MarkovModel
from specdec.race import derived_seed
from specdec.topology import sequence
from tests.helpers.distributions import FALSE_ALARM, TREE, distance, markov_pair, pair_of, random_table

BEYOND_DOUBT = 1e-6
"""If a fault's p-value is below this one, further decodes are not needed, because it only falls."""


def check_of(method="gsd", topology=TREE, length=2, seed=1, fault=None, pair=None):
    pair = pair or markov_pair(3, seed=1)
    return Check(pair, [0], method=method, topology=topology, length=length, seed=seed, fault=fault)


def run(check, decodes):
    for _ in range(decodes):
        check.decode()
    return check


# ---------------------------------------------------------------- the distribution and the statistic


@pytest.mark.parametrize(("order", "length"), [(0, 1), (1, 2), (2, 3), (0, 3), (2, 1)])
def test_the_distribution_is_the_product_of_the_tables_rows(order, length):
    table = random_table(3, order, seed=order)
    prefix, product = [2, 1], {}
    for outcome in itertools.product(range(3), repeat=length):
        text, mass = [*prefix, *outcome], 1.0
        for n in range(len(prefix), len(text)):
            mass *= float(table[(*text[n - order : n], text[n])])
        product[outcome] = mass
    distribution = joint_distribution(MarkovModel(table), prefix, length)
    assert sum(distribution.values()) == pytest.approx(1, abs=1e-12)
    assert distance(distribution, product) < 1e-12


@pytest.mark.parametrize(("dof", "statistic"), [(2, 0.3), (15, 14.0), (63, 400.0)])
def test_tail_probabilities_are_those_of_the_chi_square_distribution(dof, statistic):
    distribution = {(i,): 1 / (dof + 1) for i in range(dof + 1)}
    counts = Counter(dict.fromkeys(distribution, 1000))
    shift = (statistic * 500) ** 0.5  # two cells that are off by this much give the statistic
    counts += Counter({(0,): shift, (1,): -shift})
    test = chi_square(counts, distribution)
    assert (test.statistic, test.degrees_of_freedom) == (pytest.approx(statistic), dof)
    assert test.p_value == pytest.approx(stats.chi2.sf(statistic, dof), rel=1e-9)


def test_small_cells_are_pooled_by_what_is_expected_of_them():
    distribution = {(0,): 0.9, (1,): 0.04, (2,): 0.03, (3,): 0.03}
    apart = chi_square(Counter({(0,): 900, (1,): 40, (2,): 30, (3,): 30}), distribution)
    assert apart.degrees_of_freedom == 3
    together = chi_square(Counter({(0,): 80, (1,): 9, (2,): 6, (3,): 5}), distribution)
    assert together.degrees_of_freedom == 1
    assert together.statistic == pytest.approx(stats.chisquare([80, 20], [90, 10]).statistic)
    # 2.5 expected counts are too few for a cell even together, so these outcomes join the smallest cell
    joined = chi_square(Counter({(0,): 20, (1,): 4, (2,): 1}), {(0,): 0.6, (1,): 0.3, (2,): 0.1})
    assert joined.statistic == pytest.approx(stats.chisquare([20, 5], [15, 10]).statistic)
    # whichever cell is the smallest; in a large cell 50 counts instead of 1 would not be seen
    hidden = chi_square(Counter({(0,): 20, (1,): 930, (2,): 50}), {(0,): 0.02, (1,): 0.979, (2,): 0.001})
    assert hidden.statistic == pytest.approx(stats.chisquare([930, 70], [979, 21]).statistic)


def test_five_decodes_are_tested_exactly_and_an_outcome_without_probability_says_all():
    distribution = {(0,): 0.5, (1,): 0.5, (2,): 0.0}
    assert chi_square(Counter(), distribution) == (0.0, 0, 1.0)
    assert chi_square(Counter({(0,): 5}), distribution).p_value == pytest.approx(2 * 0.5**5)
    assert chi_square(Counter({(0,): 5}), {(0,): 1.0}).p_value == 1
    assert chi_square(Counter({(0,): 50, (1,): 50, (2,): 1}), distribution).p_value == 0


@pytest.mark.parametrize("mass", [5e-324, 1e-9, 1e-4])
def test_too_many_of_what_is_rare_is_found_also_where_its_cell_lacks_as_many(mass):
    """An excess of a rare outcome and a deficit of the smallest cell cancel if both are one cell."""
    for others in ([0.6], [0.5, 0.3], [0.4, 0.3, 0.1]):
        rest = 1 - sum(others) - mass
        distribution = {(i,): p for i, p in enumerate([*others, rest, mass])}
        expected = [round(5000 * p) for p in others]
        for excess in (20, 200):
            counts = [*expected, 5000 - sum(expected) - excess, excess]
            test = chi_square(Counter({(i,): count for i, count in enumerate(counts)}), distribution)
            alone = stats.binom.sf(excess - 1, 5000, mass)
            assert test.p_value <= max(2.01 * alone, 1e-300) < 1e-9
        right = [*expected, 5000 - sum(expected), 0]
        assert chi_square(Counter({(i,): n for i, n in enumerate(right) if n}), distribution).p_value > 0.99


MASSES = [[0.5, 0.5], [0.99, 0.01], [0.97, 0.01, 0.01, 0.01], [0.7, 0.29, 0.009, 0.001]]
MASSES += [[0.6, 0.4, 0.0], [0.1] * 10]
COUNTS = [7, 30, 100, 1000, 2, 1, 30, 100, 7, 30, 1000, 100]


@pytest.mark.parametrize(("masses", "count"), [*zip(MASSES * 2, COUNTS)])
def test_p_values_of_a_right_sampler_are_not_too_small(masses, count):
    """2,000 samples of each size. The probability of a false alarm is below 1e-9 for each bound."""
    distribution = {(i,): mass for i, mass in enumerate(masses)}
    samples = np.random.default_rng(count).multinomial(count, np.array(masses) / sum(masses), 2000)
    p_values = [
        chi_square(Counter({(i,): int(n) for i, n in enumerate(each) if n}), distribution).p_value
        for each in samples
    ]
    for level, allowed in ((0.1, 0.125), (0.01, 0.018)):
        most = stats.binom.isf(1e-9, 2000, allowed)
        assert sum(p < level for p in p_values) <= most
    assert all(0 <= p <= 1 for p in p_values)


@pytest.mark.parametrize("mass", [1e-18, 1e-6, 0.001, 0.02, 0.3, 0.5])
@pytest.mark.parametrize(("level", "count"), [(1e-3, 30), (2e-7, 150), (1e-3, 2000)])
def test_two_cells_are_tested_exactly_by_the_binomial_distribution(count, level, mass):
    """As at a low temperature: one outcome has nearly all counts. `detectable` is the share that is really
    found."""
    distribution = {(0,): 1 - mass, (1,): 0.75 * mass, (2,): 0.25 * mass}
    if 0.75 * mass * count >= LEAST_EXPECTED:
        distribution = {(0,): 1 - mass, (1,): mass}

    def p_value(others):
        return chi_square(Counter({(0,): count - others, (1,): others}), distribution).p_value

    for others in (0, 1, 4, count // 2, count):
        smaller = min(stats.binom.sf(others - 1, count, mass), stats.binom.cdf(others, count, mass))
        assert p_value(others) == pytest.approx(min(1, 2 * smaller), rel=1e-7)
    mean = round(mass * count)
    least = next(others for others in range(mean, count) if p_value(others) < level)
    assert stats.binom.sf(least - 1, count, mass) < level / 2
    # slightly below 0.99 if whole counts make the exact test stricter than χ²
    assert stats.binom.sf(least - 1, count, min(1, mass + detectable(count, 1, level))) > 0.98


# ---------------------------------------------------------------- decodes


@pytest.mark.parametrize("method", METHODS)
def test_decodes_are_those_of_generate(method):
    pair = markov_pair(4, seed=2)
    check = check_of(method, length=3, seed=9, pair=pair)
    for number in range(20):
        settings = {"method": method, "topology": TREE, "max_new_tokens": 3 + TREE.depth}
        g = specdec.generate(pair, [0], seed=derived_seed(9, number), **settings)
        assert check.decode() == tuple(g.token_ids[:3])
    assert check.decodes == sum(check.counts.values()) == 20


def test_a_perfect_draft_is_always_accepted_and_autoregressive_decoding_takes_a_call_per_token():
    same = pair_of(random_table(3, 1, 0), random_table(3, 1, 0))
    check = run(check_of("ersd", sequence(2), length=3, pair=same), 50)
    assert (check.rounds, check.tokens, check.accepting) == (50, 150, 50)
    plain = run(check_of("ar", sequence(2), length=3, pair=same), 50)
    assert (plain.rounds, plain.tokens, plain.accepting) == (150, 150, 0)


def test_one_race_for_a_round_shows_in_two_tokens_and_not_in_one():
    fault = FAULTS["one-race"]
    assert run(check_of("ersd", TREE, 1, fault=fault), 1000).chi_square().p_value > FALSE_ALARM
    assert run(check_of("ersd", TREE, 2, fault=fault), 500).chi_square().p_value < BEYOND_DOUBT


HARMLESS = [
    *((fault, sequence(2)) for fault in FAULTS.values() if fault.siblings),
    *((Fault("none", method, METHODS[method].verify), TREE) for method in DRAFTING),
]


@pytest.mark.parametrize(("fault", "topology"), HARMLESS, ids=lambda value: getattr(value, "name", None))
def test_a_fault_of_siblings_on_a_sequence_and_one_that_is_none_change_nothing(fault, topology):
    broken, right = (check_of(fault.method, topology, fault=fault_or_none) for fault_or_none in (fault, None))
    assert [broken.decode() for _ in range(150)] == [right.decode() for _ in range(150)]


ENDING, ALONE = markov_pair(), specdec.ModelPair(MarkovModel(torch.ones(2) / 2))
ENDING.eos_ids = frozenset({2})


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"method": "greedy"}, "method = 'greedy'"),
        ({"method": "ersd", "fault": FAULTS["kept-draft"]}, "fault = 'kept-draft' breaks 'gsd'"),
        ({"length": 0}, "length = 0"),
        ({"length": 9}, f"length = 9.*{MOST_OUTCOMES:,}"),
        ({"seed": -1}, "seed = -1"),
        ({"pair": ENDING}, "end a text"),
        ({"pair": ALONE}, "needs a draft"),
    ],
)
def test_mistakes_are_named(settings, names):
    with pytest.raises(ValueError, match=names):
        check_of(**settings)


# ---------------------------------------------------------------- on the page


def updates_of(**changes):
    settings = lossless_run.CheckSettings(**changes)
    return [json.loads(text) for text in lossless_run.updates(settings, interval=0)]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_caught_at_the_page_s_default_settings(name):
    """Two tokens of 8,000 decodes, alarm level 1e-4. Fewer decodes are enough if they leave no doubt."""
    settings = lossless_run.CheckSettings(method=FAULTS[name].method, broken=True, fault=name).checked()
    check = lossless_run.new_check(settings)
    while check.decodes < settings.decodes and check.chi_square().p_value > BEYOND_DOUBT:
        run(check, 500)
    assert check.chi_square().p_value < lossless_run.ALARM


@pytest.mark.parametrize("method", METHODS)
def test_updates_tell_the_distribution_the_counts_and_the_path_of_a_right_decoder(method):
    """A false alarm has probability 1e-4 for each method."""
    first, *_, last = updates = updates_of(decodes=300, tokens=1, method=method, topology="batch", seed=4)
    assert [update["phase"] for update in updates] == ["running"] * (len(updates) - 1) + ["done"]
    assert first["distribution"] == pytest.approx([0.35, 0.3, 0.25, 0.1])
    check = run(lossless_run.new_check(lossless_run.CheckSettings(**first["setup"])), 300)
    assert last["counts"] == [check.counts[(token,)] for token in range(4)]
    assert tuple(last["chi_square"]) == check.chi_square()
    assert (last["decodes"], last["calls"], last["emitted"]) == (300, check.rounds, check.tokens)
    path = [point for update in updates for point in update.get("path", [])]
    assert [decodes for decodes, _ in path] == list(range(3, 301, 3))
    assert path[-1][1] == last["chi_square"][2] > lossless_run.ALARM


def test_a_check_that_is_closed_decodes_no_more():
    updates = lossless_run.updates(lossless_run.CheckSettings(), interval=0)
    next(updates), next(updates)
    assert seats.CHECKS.num_seated == 1
    updates.close()
    assert next(updates, None) is None
    assert seats.CHECKS.num_seated == 0


def test_a_busy_server_ends_a_check_by_the_clock(monkeypatch):
    monkeypatch.setattr(lossless_run, "MOST_SECONDS", 0.05)
    last = updates_of(decodes=20_000)[-1]
    assert last["phase"] == "done"
    assert 0 < last["decodes"] < 20_000


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"method": "greedy"}, "method = 'greedy'"),
        ({"draft": ["near"]}, "draft = ['near'] is not a text"),
        ({"topology": "auto"}, "topology = 'auto'"),
        ({"k": 9}, "k = 9 is not a whole number from 1 to 8"),
        ({"decodes": None}, "decodes is empty"),
        ({"decodes": 1e9}, "decodes = 1000000000.0 is not a whole number from 100 to 20,000"),
        ({"seed": -1}, "seed = -1"),
        ({"broken": True, "fault": "one-race"}, "fault = 'one-race' does not break 'gsd'"),
    ],
)
def test_a_visitor_s_mistakes_are_named(changes, names):
    (update,) = updates_of(**changes)
    assert update["phase"] == "error"
    assert names in update["message"]


def test_faults_to_choose_are_those_of_the_method():
    assert lossless_run.CheckSettings(method="ar", broken=True, fault="kept-draft").checked().fault is None
    described = losslessness._choices()["faults"]
    assert described.keys() == FAULTS.keys()
    assert all(described[name]["method"] == fault.method for name, fault in FAULTS.items())
    assert "on a sequence nothing changes" in described["kept-draft"]["sequence"]
    assert not described["one-race"]["sequence"]


def test_every_fault_is_explained_and_its_decodes_are_recorded():
    decodes_of = json.loads(SHOWN.read_text())
    assert losslessness.FAULTS_IN_WORDS.keys() == FAULTS.keys() == decodes_of.keys()
    assert all(10 <= decodes < lossless_run.CheckSettings().decodes for decodes in decodes_of.values())
    # for a large fault, a smaller sample gives the same number within a quarter
    assert shows_after("own-sample", 1500) == pytest.approx(decodes_of["own-sample"], rel=0.25)


def test_the_board_has_a_row_for_each_audit_and_names_real_faults():
    audits = json.loads((SHOWN.parent / "audit.json").read_text())
    page = losslessness.panel().html
    assert page.count('<details class="engine') == len(audits) > 10
    assert all(f"<span>{name}</span>" in page for name in audits)
    wrong = [name for name, audit in audits.items() if audit["verdict"] == "wrong"]
    assert page.count("✗ wrong") == len(wrong) > 0
    cases = page[page.index('<ul class="cases">') :]
    assert cases.count("<li><b>") == cases.count("https://github.com/") > 3
