"""The catalogue of methods: each once, told apart without colour, and its promises those of the paper."""

from __future__ import annotations

import typing

import pytest

from specdec import trace
from specdec.methods import DRAFTING, METHODS


def test_traces_know_exactly_the_methods_of_the_catalogue():
    assert typing.get_args(trace.Method) == tuple(METHODS)


def test_every_method_has_a_mark_and_a_dash_of_its_own():
    assert len({entry.mark for entry in METHODS.values()}) == len(METHODS)
    assert len({entry.dash for entry in METHODS.values()}) == len(METHODS)
    assert len({entry.name for entry in METHODS.values()}) == len(METHODS)


def test_only_autoregressive_decoding_drafts_nothing():
    assert {*METHODS} - {*DRAFTING} == {"ar"}


@pytest.mark.parametrize("method", METHODS)
def test_the_paper_promises_the_targets_law_and_of_ersd_the_same_text_whatever_drafts(method):
    assert METHODS[method].lossless
    assert METHODS[method].drafter_invariant == (method in ("ar", "ersd"))
