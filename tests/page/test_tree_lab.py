"""The tree laboratory's trees grow in the queue's order, and are optimal at every k."""

import json
import math

import pytest

from components.tree_lab import panel as tree_lab
from specdec import optimal, theory, topology

PRESETS = {preset["name"]: preset for preset in tree_lab.presets().values()}
FALLING = [0.6, 0.2, 0.08, 0.05]
INCREASING = [0.5, 0.02, 0.4]


def vector(preset):
    """R as the browser sends it: the sliders' rates, then the tail."""
    return [*preset["rates"], *(preset["rates"][-1] * preset["tail"] ** i for i in range(1, 25))]


MEASURED = vector(tree_lab.presets()["ersd"])


def paths_of(rows):
    paths = [()]
    for parent, child_index in rows[1:]:
        paths.append((*paths[parent], child_index))
    return paths[1:]


@pytest.mark.parametrize(
    "rates", [FALLING, [0.5, 0.25, 0.125], [0.9], [0.5, 0.5], vector(tree_lab.presets()["ersd"])]
)
def test_every_prefix_of_the_pop_order_is_the_optimal_tree(rates):
    order = tree_lab.grown({"acceptance": rates})["order"]
    for k in (1, 2, 3, 7, 16, 61, 200, tree_lab.MOST):
        prefix = topology.Topology(paths_of(order[: k + 1]))  # raises if the rows are not a tree
        assert prefix == optimal.optimal_topology(rates, k)


def test_vectors_that_increase_have_no_pop_order_and_say_so():
    with pytest.raises(ValueError, match="increases"):
        optimal.pop_order(INCREASING, 4)
    result = tree_lab.grown({"acceptance": INCREASING})
    assert result["order"] is None
    assert result["algorithm"] == "dynamic program"


@pytest.mark.parametrize("rates", [FALLING, INCREASING])
def test_tokens_of_every_topology_are_the_theory_s(rates):
    tokens = tree_lab.grown({"acceptance": rates})["tokens"]
    for k in (1, 2, 5, 12, 40):
        trees = {
            "optimal": optimal.optimal_topology(rates, k),
            "sequence": topology.sequence(k),
            "batch": topology.batch(k),
            "specinfer": topology.specinfer(k),
        }
        for name, tree in trees.items():
            assert tokens[name][k] == pytest.approx(theory.expected_tokens(rates, tree)), (name, k)
    assert all(len(values) == tree_lab.MOST + 1 for values in tokens.values())


def test_every_preset_is_plain_data():
    for preset in PRESETS.values():
        result = tree_lab.grown({"acceptance": vector(preset)})
        assert "error" not in result
        json.dumps(result, allow_nan=False)


def test_the_best_tree_of_one_k_is_the_dynamic_program_s_where_the_queue_falls_short():
    rows = tree_lab.best_tree({"acceptance": INCREASING, "k": 4})["rows"]
    assert sorted(paths_of(rows)) == sorted(optimal.dynamic_program_topology(INCREASING, 4).paths)


def test_measured_presets_are_the_embedded_pair_s():
    acceptance = json.loads(tree_lab._MEASURED.read_text())["acceptance"]["by_index"]
    for method in ("ersd", "gsd"):
        preset = PRESETS[f"Embedded pair, {method.upper()}"]
        assert preset["rates"] == acceptance[method]
        assert math.fsum(vector(preset)) <= 1
