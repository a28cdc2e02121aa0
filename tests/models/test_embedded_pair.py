"""The pair that ships with the project, as users get it."""

import pytest

import specdec
from specdec.topology import batch, sequence, specinfer
from tests.helpers.texts import ersd_as_plain


def test_it_loads_offline_in_float32_and_takes_trees(pair):
    assert (str(pair.target.dtype), str(pair.draft.dtype)) == ("torch.float32", "torch.float32")
    assert (pair.target.capability, pair.draft.capability) == ("tree", "tree")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_ersd_is_drafter_invariant(dtype):
    """Also in bfloat16, in which rounding once made two of three texts differ: now nothing depends on the
    tree."""
    pair = specdec.load_pair("stories", device="cpu", dtype=dtype)
    trees = (sequence(4), batch(4), specinfer(8), "auto")
    for temperature in (0.0, 0.8, 1.0):
        ersd_as_plain(pair, "Once upon a time", trees, range(2), max_new_tokens=80, temperature=temperature)
