"""Shapes of draft trees."""

import numpy as np
import pytest
import torch

from specdec.topology import Topology, batch, named, sequence, simple, specinfer


def test_named_shapes_have_the_papers_paths():
    assert simple().paths == ((0,),)
    assert sequence(3).paths == ((0,), (0, 0), (0, 0, 0))
    assert batch(3).paths == ((0,), (1,), (2,))


def test_topologies_have_names():
    assert {named("simple", None), named("simple", 7), named("simple(1)", None)} == {simple()}
    assert named("sequence", 4) == sequence(4)
    assert named("batch(3)", None) == batch(3)
    assert named("specinfer( 8 )", None) == specinfer(8)


@pytest.mark.parametrize(
    ("name", "k", "message"),
    [
        (None, 4, "topology = None is not one of"),
        ("star", 4, "topology = 'star' is not one of simple, sequence"),
        ("sequence", None, "'sequence' is not one of"),
        ("sequence(x)", None, "not one of"),
        ("batch", 0, "k = 0"),
        ("batch(0)", None, "k = 0"),
        ("simple(4)", None, "simple is one token"),
    ],
)
def test_names_of_no_topology_are_errors(name, k, message):
    with pytest.raises(ValueError, match=message):
        named(name, k)


@pytest.mark.parametrize(
    ("k", "lengths"), [(3, [1]), (4, [1, 1]), (5, [1, 1, 1]), (6, [2, 1, 1]), (20, [6, 6, 6])]
)
def test_specinfer_is_three_sequences_that_share_two_tokens(k, lengths):
    tree = specinfer(k)
    branches = [[path for path in tree.paths if path[:3] == (0, 0, branch)] for branch in range(3)]
    assert [len(branch) for branch in branches if branch] == lengths
    assert tree.num_draft_tokens == k
    assert {(0,), (0, 0)} <= set(tree.paths)
    assert [specinfer(k) for k in (1, 2)] == [sequence(k) for k in (1, 2)]


def test_paths_come_in_level_order_whatever_order_they_are_given_in():
    tree = Topology([(1, 0), (0, 0, 0), (0,), (1,), (0, 0)])
    assert tree.paths == ((0,), (1,), (0, 0), (1, 0), (0, 0, 0))
    assert tree.parents == (-1, 0, 0, 1, 2, 3)
    assert tree.depths == (0, 1, 1, 2, 2, 3)
    assert tree.children == ((1, 2), (3,), (4,), (5,), (), ())
    assert tree.levels == (range(1), range(1, 3), range(3, 5), range(5, 6))
    assert (tree.num_draft_tokens, tree.depth, tree.is_sequence) == (5, 3, False)
    assert tree.ancestors(5) == [0, 1, 3, 5]


def test_attention_is_to_oneself_and_ones_ancestors():
    tree = specinfer(8)
    mask = tree.attention_mask()
    for row in range(9):
        assert set(torch.where(mask[row])[0].tolist()) == set(tree.ancestors(row))


def test_subsets_and_upper_levels_keep_paths():
    tree = specinfer(11)
    assert tree.limited(2).paths == ((0,), (0, 0))
    empty = tree.limited(0)
    assert empty == Topology([])
    assert (empty.num_draft_tokens, empty.depth, empty.paths, empty.is_sequence) == (0, 0, (), True)
    assert tree.limited(99) is tree
    assert Topology([(0,), (1,), (0, 0), (1, 0)]).subset([1, 2, 4]).paths == ((0,), (1,), (1, 0))


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([(0, 0)], "no parent"),
        ([(1,)], "no earlier sibling"),
        ([(0,), (0,)], "twice"),
        ([()], "root"),
        ([(-1,)], "child indices"),
        ([(0.5,)], "child indices"),
        (["0"], "not a tuple"),
        ([3], "not a tuple"),
        *((value, "^paths = ") for value in (np.array("x"), np.array(3), torch.tensor(3), None, object())),
    ],
)
def test_paths_that_are_no_tree_are_named(paths, message):
    with pytest.raises(ValueError, match=message):
        Topology(paths)


@pytest.mark.parametrize("shape", [sequence, batch, specinfer])
@pytest.mark.parametrize("k", [0, -1, 1.5, "4", True, 10**7])
def test_sizes_out_of_range_are_named(shape, k):
    with pytest.raises(ValueError, match="k = "):
        shape(k)


def test_rows_may_be_arrays_or_tensors():
    tree = Topology([(0,), (1,), (0, 0)])
    for kind in (np.array, torch.tensor, tuple):
        copy = Topology.from_parents(kind(tree.parents), kind(tree.child_indices))
        assert len({copy, tree, Topology(tree.paths)}) == 1
        assert all(type(value) is int for value in (*copy.parents, *copy.child_indices))


@pytest.mark.parametrize(
    ("parents", "child_indices", "message"),
    [
        ([], [], "row 0 is the root"),
        ([3, 0], [-1, 0], "row 0 is the root"),
        ([-1, 0], [-1], "parents has 2 rows and child_indices 1"),
        ([-1, 0.0], [-1, 0], r"parents\[1\] = 0.0"),
        ([-1, 0], [-1, "a"], r"child_indices\[1\] = 'a'"),
        (None, [-1], "parents = None"),
        ([-1, 1], [-1, 0], "row 1 has the parent 1"),
        ([-1, 7], [-1, 0], "row 1 has the parent 7"),
        ([-1, 0, -1], [-1, 0, 0], "row 2 has the parent -1"),
        ([-1, 0, 0], [-1, 0, 0], "level order"),
        ([-1, 0, 1, 0], [-1, 0, 0, 1], "level order"),
    ],
)
def test_rows_that_are_no_tree_are_named(parents, child_indices, message):
    with pytest.raises(ValueError, match=message):
        Topology.from_parents(parents, child_indices)
