"""While transformers loads a model in another thread, torch's default dtype is another one for the whole
process.

Nothing that decodes may depend on it: it would write beyond the end of memory for half as many bytes.
"""

import pytest
import torch

import specdec
from specdec.context import ContextTree
from specdec.drafters import NGram
from specdec.methods import METHODS
from specdec.topology import batch, sequence
from tests.helpers.context_trees import capricious
from tests.helpers.distributions import markov_pair

RUNS = [
    *({"method": method, "topology": batch(3) if method != "ar" else None} for method in METHODS),
    {"method": "ersd", "topology": sequence(4), "temperature": 0.7, "top_k": 20, "top_p": 0.9},
    {"method": "gsd", "topology": sequence(3), "drafter": NGram()},
    *({"method": method, "topology": ContextTree(capricious(method), 3)} for method in ("gsd", "ersd")),
]


@pytest.fixture
def changed():
    before = torch.get_default_dtype()
    yield torch.set_default_dtype
    torch.set_default_dtype(before)


def loaded(kind):
    if kind == "markov":
        return markov_pair(), [0]
    return specdec.load_pair("stories", dtype=kind), "Once upon a time"


def decoded(pair, prompt):
    """Every way to decode on tables, and a third of them on networks."""
    settings, runs = {"max_new_tokens": 24}, RUNS if prompt == [0] else RUNS[::3]
    alone = [specdec.generate(pair, prompt, seed=n, **settings, **of_run) for n, of_run in enumerate(runs)]
    together = specdec.generate_many(pair, [prompt] * 3, seeds=[1, 2, 3], method="ersd", **settings)
    return [(each.token_ids, [round.nodes for round in each.rounds]) for each in (*alone, *together)]


KINDS = [("markov", "0", torch.float16), ("markov", "0", torch.float64)]
KINDS += [("float32", "1", torch.float16), ("float32", "0", torch.float64)]
KINDS += [("bfloat16", "1", torch.float64), ("bfloat16", "0", torch.float16)]


@pytest.mark.parametrize(("kind", "compiled", "usual"), KINDS)
def test_a_model_that_is_loaded_beside_changes_no_text(changed, usual, kind, compiled, monkeypatch):
    monkeypatch.setenv("SPECDEC_KERNELS", compiled)
    want = decoded(*loaded(kind))
    pair, prompt = loaded(kind)
    changed(usual)
    assert decoded(pair, prompt) == want


@pytest.mark.parametrize(("compiled", "usual"), [("1", torch.float16), ("0", torch.float64)])
def test_a_pair_that_is_loaded_meanwhile_has_the_same_numbers(changed, usual, compiled, monkeypatch):
    """Values that are computed at load, and the angles of positions beyond the first texts."""
    monkeypatch.setenv("SPECDEC_KERNELS", compiled)

    def numbers():
        pair = specdec.load_pair("stories", device="cpu")
        text = specdec.generate(pair, list(range(3, 203)), max_new_tokens=12, seed=1, topology=sequence(3))
        angles = None
        if compiled == "1":
            pair.target.decoder._extend_rotation(1025)
            angles = pair.target.decoder._rotation.tolist()
        return text.token_ids, angles

    expected = numbers()
    changed(usual)
    assert numbers() == expected
