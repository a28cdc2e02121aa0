"""Other processors, imitated here: ERSD's text and the bits of the compiled forward pass stay the same."""

import hashlib
import json

import pytest
import torch

import specdec
from specdec.models.kernels.compiled import SWITCH, crew
from specdec.models.kernels.processor import has
from specdec.models.kernels.product import product
from specdec.models.session_kinds import COMPILED, unchecked
from specdec.private_cache import VARIABLE
from specdec.race.exponentials import log_exponentials
from specdec.race.splitmix import blocks
from specdec.topology import batch, sequence
from tests.helpers.processes import printed
from tests.helpers.sessions import scored
from tests.helpers.tiny_checkpoints import tiny_model

pytest.importorskip("numba")

PROCESSORS = {
    "without AVX2": {
        "NUMBA_CPU_NAME": "nehalem",
        "NUMBA_CPU_FEATURES": "+sse4.2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "ATEN_CPU_CAPABILITY": "default",
    },
    "with AVX2": {
        "NUMBA_CPU_NAME": "haswell",
        # without this, Numba would use this processor's instructions, also AVX-512
        "NUMBA_CPU_FEATURES": "+avx2,+fma,+f16c",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_CBWR": "COMPATIBLE",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    },
    "with AVX-512": {
        # LLVM prefers registers of half the width there, as on processors with AMX
        "NUMBA_CPU_NAME": "skylake-avx512",
        "NUMBA_CPU_FEATURES": "+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd",
    },
}


def texts():
    """Plain decoding, and ERSD on several trees and in a batch, all with one seed; and a text of GSD."""
    pair, prompt = specdec.load_pair("stories", device="cpu"), "Once upon a time"
    settings = {"max_new_tokens": 24, "seed": 5}
    ways = [("ar", None), *(("ersd", tree) for tree in (sequence(3), batch(3), "auto")), ("gsd", sequence(3))]
    *same, gsd = (specdec.generate(pair, prompt, method=m, topology=tree, **settings) for m, tree in ways)
    many = specdec.generate_many(pair, [prompt] * 3, seeds=[5, 6, 5], method="ersd", max_new_tokens=24)
    return pair.arithmetic, [each.token_ids for each in [*same, *many[::2]]], gsd.token_ids


def digest(tensor):
    return hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()


def logits(module, length):
    """Of a tree behind a prompt, which may be longer than a block of any sum."""
    vocab_size = module.config.vocab_size
    model = COMPILED.on(unchecked(module, "", torch.device("cpu"), vocab_size))
    return scored(model, [(17 + 7919 * i) % vocab_size for i in range(length)], range(5), [-1, 0, 0, 1, 3])


def bits():
    """Digests of products and of logits by the compiled forward pass, and of uniforms."""
    numbers = (torch.arange(300 * 700) * 7919 % 1009).view(300, 700).float() / 504 - 1
    digests = {kind: digest(product(numbers[:20], numbers, kind)) for kind in ("float32", "bfloat16 pairs")}
    for family in ("llama", "qwen3"):
        for dtype in (torch.float32, torch.bfloat16):
            sizes = {"hidden_size": 200, "intermediate_size": 328, "max_position_embeddings": 4096}
            module = tiny_model(family, dtype, **sizes)
            for seed, weight in enumerate(module.parameters()):  # torch's random numbers are no constants
                count = (torch.arange(weight.numel()) * 7919 + seed) % 1009
                weight.copy_((count.view(weight.shape).float() / 504 - 1) * (0.2 if weight.dim() == 2 else 1))
            for length in (3, 63, 64, 70, 130, 197, 300):
                digests[f"{family} {dtype} {length}"] = digest(logits(module, length))
    return digests | {"uniforms": digest(torch.from_numpy(next(iter(blocks([1, 2], 5000)))[2].copy()))}


@torch.inference_mode()
def computed():
    """JSON of what this process computes."""
    noise = log_exponentials(1, range(4), 5000)[:, :50].tolist()
    return json.dumps([*texts(), bits() if crew() else None, noise])


@pytest.fixture(scope="module")
def entry():
    return json.loads(computed())


def test_texts_without_the_compiled_forward_are_those_with_it(entry, monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    arithmetic, token_ids, _ = texts()
    assert arithmetic.startswith("target: lean forward")
    assert token_ids == [entry[1][0]] * 6


@pytest.mark.slow
@pytest.mark.parametrize("name", PROCESSORS)
def test_texts_and_bits_are_those_of_this_processor(entry, name, tmp_path):
    """The other process compiles the code for itself, and a second one reads it. So code that LLVM may
    reorder must exist only once: not both as a function and inlined in another. The logarithms of the noise
    differ only in their last places."""
    if not has("fma") or (name == "with AVX-512" and not (has("avx512vl") and has("avx512dq"))):
        pytest.skip("this processor lacks the instructions")
    program = "from tests.models.test_processors import computed; print(computed())"
    environment = PROCESSORS[name] | {VARIABLE: str(tmp_path)}
    printed_there = printed(program, environment)
    if name == "with AVX2":
        assert printed(program, environment) == printed_there
    arithmetic, token_ids, gsd, digests, noise = json.loads(printed_there)
    is_compiled = name in ("with AVX2", "with AVX-512")
    assert arithmetic.startswith(f"target: {'compiled' if is_compiled else 'lean'} forward")
    assert token_ids == [entry[1][0]] * 6
    assert len(gsd) == 24
    assert digests == (entry[3] if is_compiled else None)
    assert noise == [pytest.approx(row, rel=1e-14, abs=1e-15) for row in entry[4]]
    assert len({*entry[3].values()}) == len(entry[3])
