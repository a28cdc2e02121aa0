"""Names that users, notebooks and other projects use still exist."""

from functools import reduce

import pytest

import specdec
from tests.helpers.processes import printed

NAMES = """
    load_pair ModelPair stream generate measure_acceptance custom_generate optimal_topology ContextTree
    Topology Generation Round topology.sequence topology.specinfer topology.named optimal.pop_order
    theory.lemma_bound theory.gsd_acceptance_by_index stats.acceptance_vector trace.Token
    verify.verify_gsd verify.verify_ersd models.MarkovModel pair.ModelPair loading.EMBEDDED
    learn.learn_context channel.encode_indices channel.TunstallCode race.log_exponentials probs.Sampling
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_a_public_name_is_found(name):
    assert reduce(getattr, name.split("."), specdec) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing_of_the_kind'"):
        _ = specdec.nothing_of_the_kind


def test_theory_does_not_wait_for_transformers():
    printed("import sys, specdec; specdec.theory, specdec.verify; assert 'transformers' not in sys.modules")
