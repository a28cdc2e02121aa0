"""The pair that ships with the project, as users get it."""

import subprocess
import sys

import pytest

import specdec
from specdec.topology import sequence, specinfer


def test_it_loads_offline_in_float32_and_takes_trees(pair):
    assert (str(pair.target.dtype), str(pair.draft.dtype)) == ("torch.float32", "torch.float32")
    assert (pair.target.capability, pair.draft.capability) == ("tree", "tree")


@pytest.mark.parametrize("topology", [sequence(4), specinfer(8), "auto"], ids=str)
@pytest.mark.parametrize("temperature", [0.0, 0.8, 1.0])
def test_ersd_is_drafter_invariant(pair, topology, temperature):
    settings = {"max_new_tokens": 120, "seed": 11, "temperature": temperature}
    plain = specdec.generate(pair, "Once upon a time", method="ar", **settings)
    g = specdec.generate(pair, "Once upon a time", method="ersd", topology=topology, **settings)
    assert (g.token_ids, g.text) == (plain.token_ids, plain.text)


def test_any_text_round_trips_through_its_tokenizer(pair):
    for text in ("Once upon a time", "naïve 🙂 日本語", "\n\ttabs ", "<img src=x>", "{{x}} ${y} `z`"):
        ids = pair.encode(text)
        assert pair.tokenizer.decode(ids, skip_special_tokens=True) == text


def test_importing_the_core_loads_no_page_library():
    code = "import sys, specdec; sys.exit(any(name in sys.modules for name in ('gradio', 'plotly')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
