"""Without Numba, and on processors without AVX-512 or AVX2, as this one plays them: ERSD's text stays."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import specdec
from specdec.models.kernels.compiled import SWITCH

ROOT = Path(__file__).resolve().parent.parent.parent
WITHOUT_NUMBA = {SWITCH: "0"}
WITH_AVX2 = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx2,+fma,+f16c",  # without, Numba takes this processor's, AVX-512 too
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
}
WITHOUT_AVX2 = {
    "NUMBA_CPU_NAME": "nehalem",
    "NUMBA_CPU_FEATURES": "+sse4.2",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "ATEN_CPU_CAPABILITY": "default",
}

_DECODED = """
import json, specdec
from specdec.topology import batch, sequence
pair = specdec.load_pair("stories", device="cpu")
prompt, length = "Once upon a time", 24

def text(method, topology=None):
    options = {"method": method, "topology": topology, "max_new_tokens": length, "seed": 5}
    return specdec.generate(pair, prompt, **options).token_ids

texts = [text("ar"), *(text("ersd", tree) for tree in (sequence(3), batch(3), "auto"))]
many = specdec.generate_many(pair, [prompt] * 3, seeds=[5, 6, 5], method="ersd", max_new_tokens=length)
texts += [generation.token_ids for generation in many[::2]]
print(json.dumps([pair.arithmetic, texts, text("gsd", sequence(3))]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "forward"),
    [(WITHOUT_NUMBA, "lean forward"), (WITH_AVX2, "compiled forward"), (WITHOUT_AVX2, "lean forward")],
    ids=["without Numba", "with AVX2", "without AVX2"],
)
def test_ersd_s_text_is_that_of_this_processor(environment, forward):
    result = subprocess.run(
        [sys.executable, "-c", _DECODED],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    arithmetic, texts, gsd = json.loads(result.stdout)
    assert arithmetic.startswith(f"target: {forward}")
    pair = specdec.load_pair("stories", device="cpu")
    here = specdec.generate(pair, "Once upon a time", method="ar", max_new_tokens=24, seed=5)
    assert texts == [here.token_ids] * 6
    assert len(gsd) == 24
