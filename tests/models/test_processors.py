"""Other processors, imitated on this one: ERSD's text and the bits of the compiled forward pass stay the
same."""

import json

import pytest

import specdec
from specdec.models.kernels.compiled import SWITCH
from specdec.models.kernels.processor import has
from tests.helpers.processes import printed

WITHOUT_NUMBA = {SWITCH: "0"}
WITH_AVX2 = {
    "NUMBA_CPU_NAME": "haswell",
    # without this, Numba would use this processor's instructions, also AVX-512
    "NUMBA_CPU_FEATURES": "+avx2,+fma,+f16c",
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
    arithmetic, texts, gsd = json.loads(printed(_DECODED, environment))
    assert arithmetic.startswith(f"target: {forward}")
    pair = specdec.load_pair("stories", device="cpu")
    here = specdec.generate(pair, "Once upon a time", method="ar", max_new_tokens=24, seed=5)
    assert texts == [here.token_ids] * 6
    assert len(gsd) == 24


WITH_AVX512 = {
    # LLVM prefers registers of half the width there, as on processors with AMX
    "NUMBA_CPU_NAME": "skylake-avx512",
    "NUMBA_CPU_FEATURES": "+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd",
}
OTHER_LIBRARIES = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "COMPATIBLE",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
}
_BITS = """
import hashlib, json, os, torch
import specdec
from specdec.models.kernels.decoder import CompiledDecoder
from specdec.models.kernels.product import product
from specdec.models.session_kinds import COMPILED, unchecked
from specdec.race.exponentials import log_exponentials
from specdec.race.splitmix import blocks
from tests.helpers.tiny_checkpoints import tiny_model

def bits(tensor):
    return hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()

def logits(module):
    \"\"\"Of a tree behind a prompt of 130 tokens, which is longer than a block of any sum.\"\"\"
    vocab_size = module.config.vocab_size
    session = COMPILED.on(unchecked(module, "", torch.device("cpu"), vocab_size)).session()
    session.prefill([(17 + 7919 * i) % vocab_size for i in range(130)])
    return session.forward(torch.arange(5), [-1, 0, 0, 1, 3])

found = {}
numbers = (torch.arange(300 * 700) * 7919 % 1009).view(300, 700).float() / 504 - 1
for kind in ("float32", "bfloat16 pairs"):
    found[kind] = bits(product(numbers[:20], numbers[:, :700], kind))
with torch.inference_mode():
    for family in ("llama", "qwen3"):
        for dtype in (torch.float32, torch.bfloat16):
            sizes = {"hidden_size": 200, "intermediate_size": 328, "max_position_embeddings": 4096}
            module = tiny_model(family, dtype, **sizes)
            for seed, weight in enumerate(module.parameters()):  # torch's random numbers are no constants
                count = (torch.arange(weight.numel()) * 7919 + seed) % 1009
                weight.copy_((count.view(weight.shape).float() / 504 - 1) * (0.2 if weight.dim() == 2 else 1))
            found[f"{family} {dtype}"] = bits(logits(module))
found["uniforms"] = bits(torch.from_numpy(next(iter(blocks([1, 2], 5000)))[2].copy()))
noise = log_exponentials(1, range(4), 5000)
print(json.dumps([found, noise[:, :50].tolist()]))
"""


@pytest.mark.slow
def test_the_compiled_forward_has_the_same_bits_on_other_processors():
    """Logits after prompts, products and uniforms are equal. The logarithms of the noise differ only in their
    last places."""
    pytest.importorskip("numba")
    if not has("fma"):
        pytest.skip("a processor without fused multiply-add has no compiled forward")
    here, noise = json.loads(printed(_BITS))
    others = [{name: value for name, value in WITH_AVX2.items() if "NUMBA" in name} | OTHER_LIBRARIES]
    if has("avx512vl") and has("avx512dq"):
        others.append(WITH_AVX512)
    for environment in others:
        bits, there = json.loads(printed(_BITS, environment))
        assert bits == here
        assert there == [pytest.approx(row, rel=1e-14, abs=1e-15) for row in noise]
    assert len(set(here.values())) == len(here)
