"""Laws of the page's topologies: trees in an address, and measurements that serve nearby settings."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import specdec
from components.page.settings import VisitorSettings
from components.runs import run, seats, topologies
from specdec.decoding import acceptance
from specdec.models import MarkovModel
from specdec.probs import Sampling
from specdec.settings import RunSettings
from tests.helpers.distributions import markov_pair, random_table, samplings


@st.composite
def trees(draw, most=20):
    """A random tree: each node is a child of an earlier one."""
    nodes = [()]
    for parent in draw(st.lists(st.integers(0, 10**6), max_size=most)):
        above = nodes[parent % len(nodes)]
        nodes.append((*above, sum(path[:-1] == above for path in nodes if path)))
    return specdec.Topology(nodes[1:])


@given(trees())
def test_a_tree_in_an_address_is_that_tree(tree):
    assert topologies.read(topologies.written(tree)) == tree


def test_a_tree_is_written_by_its_children():
    trees = {"2.1": [(0,), (1,), (0, 0)], "0": [], "1.1.1": [(0,), (0, 0), (0, 0, 0)]}
    assert [topologies.written(specdec.Topology(paths)) for paths in trees.values()] == [*trees]


@given(st.text(st.sampled_from("0123456789. -x"), max_size=12))
def test_any_text_is_a_tree_or_says_why_not(text):
    try:
        tree = topologies.read(text)
    except ValueError as error:
        message = str(error)
    else:
        message = f"tree = {topologies.written(tree)}"
        assert topologies.read(topologies.written(tree)) == tree
    assert message.startswith(("tree = ", "The tree is too long"))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "such as 3.1.1"),
        ("1.0.1", "nodes that do not exist"),
        ("0.1", "nodes that do not exist"),
        ("1..1", "such as 3.1.1"),
        ("65", "The tree is too long: 65 tokens; at most 64 are allowed"),
        ("9999.9999", "The tree is too long: 19,998 tokens"),
        ("٣", "such as 3.1.1"),
        ("1\n", "such as 3.1.1"),
    ],
)
def test_what_is_no_tree_is_named(text, part):
    with pytest.raises(ValueError, match=part):
        topologies.read(text)


@pytest.mark.parametrize("name", topologies.MEASURED)
def test_a_tree_that_is_given_is_not_measured(name):
    pair = markov_pair(6)
    tree = topologies.topology(pair, name, 4, tree="2.1", method="gsd", temperature=0.5, top_k=0, top_p=0.9)
    assert tree.paths == ((0,), (1,), (0, 0))
    assert not pair.measurements
    assert not topologies.has_to_measure(VisitorSettings("", "gsd", name, tree="2.1"))
    assert topologies.has_to_measure(VisitorSettings("", "gsd", name))


@pytest.mark.parametrize("method", ["ersd", "gsd", "traversal"])
def test_the_tree_that_the_page_opens_with_needs_no_measurement(pair, method):
    steps = topologies.steps(pair, "optimal", 8, method=method, temperature=1.0, top_k=0, top_p=1.0)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value.num_draft_tokens == 8
    assert topologies.measurement(pair, VisitorSettings("", method, "optimal", k=8)) is None
    assert not pair.measurements


@pytest.mark.parametrize("method", ["ersd", "gsd"])
def test_the_shipped_acceptance_is_that_of_the_embedded_pair(pair, method):
    """The acceptance of a trial with more than 150 first children is within four standard errors of the
    shipped one."""
    settings = RunSettings(method, 1, Sampling(), None, False)
    measured = acceptance.finished(acceptance.measuring(pair, settings))[0]
    shipped = topologies._shipped(pair, settings)[0]
    assert abs(measured - shipped) < 4 * (shipped * (1 - shipped) / 150) ** 0.5
    assert topologies._shipped(pair, settings._replace(sampling=Sampling(0.7))) is None
    assert topologies._shipped(markov_pair(6), settings) is None


@pytest.mark.parametrize("method", ["gsd", "ersd"])
@pytest.mark.parametrize("name", [name for name in topologies.NAMES if name != "context"])
def test_every_topology_decodes_at_every_sampling(name, method, monkeypatch):
    """Samplings with every two values together. Under ERSD and at temperature 0 the text is that of
    autoregressive decoding."""
    monkeypatch.setattr(acceptance, "_TOKENS", 48)
    pair = specdec.ModelPair(*(MarkovModel(random_table(12, 1, seed)) for seed in (1, 2)))
    for sampling in samplings((0.0, 0.7, 1.0, 1.6)):
        tree = topologies.topology(pair, name, 5, method=method, **sampling)
        run = {"max_new_tokens": 6, "seed": 3, **sampling}
        g = specdec.generate(pair, [1], method=method, topology=tree, **run)
        plain = specdec.generate(pair, [1], method="ar", **run)
        assert len(g.token_ids) == 6
        assert g.token_ids == plain.token_ids or (method == "gsd" and sampling["temperature"] > 0)


def test_neighbours_share_a_measurement(monkeypatch):
    monkeypatch.setattr(acceptance, "_TOKENS", 16)
    pair = markov_pair(6)
    for temperature, top_p in itertools.product((0.66, 0.7, 0.72, 0.74), (0.88, 0.9, 0.91)):
        sampling = {"temperature": temperature, "top_k": 0, "top_p": top_p}
        topologies.topology(pair, "optimal", 4, method="ersd", **sampling)
    assert len(pair.measurements) == 1


@pytest.mark.parametrize(
    ("sampling", "measured"),
    [
        (Sampling(), Sampling()),
        (Sampling(0), Sampling(0)),
        (Sampling(0.7, 0, 0.9), Sampling(0.7, 0, 0.9)),
        (Sampling(0.66, 50, 0.93), Sampling(0.7, 64, 0.95)),
        (Sampling(100, 10**6, 0.001), Sampling(2, 0, 0.05)),
        (Sampling(1, 1), Sampling(1, 1)),
    ],
)
def test_the_neighbour_is_a_sampling_nearby(sampling, measured):
    assert topologies.neighbour(sampling) == measured
    assert topologies.neighbour(measured) == measured


def test_runs_whose_samplings_are_near_begin_with_the_key_of_one_measurement():
    pair, settings = markov_pair(6), [{"temperature": 0.5}, {"temperature": 0.52}, {"temperature": 0.9}]
    with seats.MODEL.seat() as seat:
        first, near, far = (
            run.begin(seat, pair, VisitorSettings("", "gsd", "optimal", **own)).key for own in settings
        )
    assert first == near != far


def test_measuring_can_be_left_between_its_steps():
    pair = markov_pair(6)
    steps = topologies.steps(pair, "optimal", 4, method="gsd", temperature=1.0, top_k=0, top_p=1.0)
    assert sum(1 for _ in itertools.islice(steps, 10)) == 10


def test_a_pair_without_a_draft_is_told_before_anything_is_measured():
    pair = specdec.ModelPair(markov_pair(6).target)
    with pytest.raises(ValueError, match="needs a draft"):
        topologies.topology(pair, "optimal", 4, method="gsd")
