"""Checks of arguments. Tests of the functions that use them show for some bad values that they do."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch

from specdec.checks import among, integers, real, reals, truth, whole

NOT_NUMBERS = [None, "1", "abc", True, [], {}, [1.0, 2.0], object(), torch.ones(2), 1j, torch.tensor(1j)]
NOT_INTEGERS = [*NOT_NUMBERS, 1.5, 2.0, np.float64(1), torch.tensor(1.0)]
NOT_REAL = [*NOT_NUMBERS, torch.tensor(True), math.nan, math.inf, 10**400]
NO_ARRAYS = [{}, object(), (x for x in [1.0]), "abc", "1", ["1"], [[0.5], [0.2, 0.1]], 10**400]
NO_ARRAYS += [[1j], np.array([0.5 + 1j, 0.5]), torch.tensor([0.5 + 1j, 0.5])]
COUNT = partial(whole, "k", least=0)
KINDS = [(COUNT, int), (COUNT, np.int64), (COUNT, torch.tensor), (partial(truth, "k"), np.bool_)]
KINDS += [(real, kind) for kind in (float, Fraction, np.float32, np.array, torch.tensor)]
WRONG = {
    r"k = .* is not an integer from 0 to 9": (partial(whole, least=0, most=9), [*NOT_INTEGERS, -1, 10**30]),
    r"k = .* is not a list of integers": (integers, [5, None, np.array(3), torch.tensor(3)]),
    r"k\[0\] = .* is not an integer": (integers, [[[0]], [True], [1.0], ["a"], {0.5: 1}]),
    r"k = .* is neither True nor False": (truth, [None, "no", 2, 0.5, torch.ones(2), torch.empty(0), []]),
    r"k = .* is not one of a, b": (partial(among, names="ab"), [None, [], {}, "c", 1, np.array(["a"] * 2)]),
}


@pytest.mark.parametrize(("check", "kind"), KINDS)
def test_a_value_of_any_kind_becomes_python_s_own(check, kind):
    value = check(kind(1))
    assert value == 1
    assert type(value) in (int, float, bool)


@pytest.mark.parametrize("kind", [list, tuple, iter, np.array, torch.tensor])
def test_a_list_of_integers_may_be_any_container(kind):
    assert integers("k", kind([1, 0])) == [1, 0]


@pytest.mark.parametrize("message", WRONG)
def test_a_value_that_does_not_fit_is_named(message):
    check, values = WRONG[message]
    for value in values:
        with pytest.raises(ValueError, match=message):
            check("k", value)


def test_what_is_no_number_or_no_array_of_numbers_is_none():
    """Numpy itself would drop an imaginary part with only a warning."""
    assert [real(value) for value in NOT_REAL] == [None] * len(NOT_REAL)
    assert [reals(value) for value in NO_ARRAYS] == [None] * len(NO_ARRAYS)


@pytest.mark.parametrize("kind", [list, tuple, np.array, partial(torch.tensor, requires_grad=True)])
def test_an_array_is_a_copy_in_float64(kind):
    values = kind([0.5, 0.25])
    for _ in range(2):
        array = reals(values)
        assert (array.dtype, array.tolist()) == (np.float64, [0.5, 0.25])
        array[0] = 0
