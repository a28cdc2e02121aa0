"""The set-ups that the panel starts from, each with its source."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from components.page.assets import ASSETS
from specdec.decoding.costs import JointCost, RoundCost
from specdec.payoff.setups import NOTHING, SetUp, roofline

MEASURED = ASSETS / "results" / "payoff.json"
EXPERIMENTS = ASSETS / "results" / "experiments.summary.json"
HERE = "here"
"""The id of the set-up that is measured on this server."""
_INDICES = 8
_FREE = JointCost({1: {1: 0.0}})

# llama-bench of llama.cpp, SmolLM2-135M in Q4_1, AMD EPYC with AVX-512, 2 threads: tokens per second
_PLAIN_4_BIT = 126.0
_ROWS_4_BIT = {2: 172.0, 5: 256.0, 9: 250.0, 17: 235.0}

# NVIDIA's data sheet of the H100 SXM: bytes and dense bfloat16 operations per second
_BANDWIDTH, _ARITHMETIC = 3.35e12, 989e12
_LARGE, _SMALL = 8.03e9, 1.24e9
"""Parameters of Llama 3.1 8B and Llama 3.2 1B."""
_REQUESTS = 64


@dataclass(frozen=True)
class Preset:
    """An example of a set-up that a visitor can start from. id: its name in the page's address. source: where
    its numbers are from."""

    id: str
    name: str
    source: str
    setup: SetUp


@cache
def presets() -> dict[str, Preset]:
    """The set-ups that need no measurement on this server, by id."""
    smollm2 = _smollm2()
    acceptance: dict[str, Any] = json.loads(EXPERIMENTS.read_bytes())["acceptance"]
    # ERSD's acceptance by index in this project's repetition of the paper's experiments
    replicated = np.array(acceptance["ersd"]["by_index"][:_INDICES])
    further = (_paper(replicated), _laptop(smollm2.setup), _gpu(replicated))
    return {preset.id: preset for preset in (smollm2, *further)}


def _smollm2() -> Preset:
    results = json.loads(MEASURED.read_bytes())
    case = {"pair": "smollm2", "method": "ersd", "texts": 1, "temperature": 1.0}
    row = next(row for row in results["check"] if case.items() <= row.items())
    machine = results["machine"]
    return Preset(
        "smollm2",
        "SmolLM2-135M on a CPU",
        f"Measured on {machine['date']} with {machine['threads']} of {machine['cores']} cores of an "
        f"{machine['processor']}: "
        "SmolLM2-135M-Instruct in bfloat16 with this project's draft model, ERSD at temperature 1 "
        "(python -m research.payoff).",
        SetUp.from_json(row["setup"]),
    )


def _paper(acceptance: np.ndarray) -> Preset:
    return Preset(
        "paper",
        "The paper's setting",
        "Only target calls count, so drafts and further rows are free (paper, Section 2). The paper gives "
        "its acceptance only as a figure without numbers. The R used is ERSD’s with the embedded pair, "
        "measured in the same way (see Experiments, under Paper).",
        SetUp(acceptance, RoundCost(JointCost({1: {1: 1.0}}), _FREE, NOTHING)),
    )


def _laptop(setup: SetUp) -> Preset:
    row = 1 / _PLAIN_4_BIT
    target = JointCost({1: {1: row} | {n: n / rate for n, rate in _ROWS_4_BIT.items()}})
    return Preset(
        "laptop",
        "A laptop, 4-bit target",
        "Here arithmetic limits the speed, so each further row takes more time. llama.cpp decodes "
        "SmolLM2-135M in Q4_1 at 126 tokens per second on two cores (AMD EPYC with AVX-512, llama-bench), "
        "and reads 172, 256, 250 and 235 rows per second in calls over 2, 5, 9 and 17 rows. The draft's cost "
        "and the acceptance are those of the set-up “SmolLM2-135M on a CPU”.",
        SetUp(setup.acceptance, RoundCost(target, setup.costs.draft, NOTHING)),
    )


def _gpu(acceptance: np.ndarray) -> Preset:
    target, draft = (roofline(size, 2, _BANDWIDTH, _ARITHMETIC) for size in (_LARGE, _SMALL))
    return Preset(
        "gpu",
        f"A GPU, {_REQUESTS} requests at once",
        "Computed, not measured: the roofline of one H100 SXM (data sheet: 3.35 TB/s, 989 TFLOP/s in "
        "bfloat16) for Llama 3.1 8B with Llama 3.2 1B as its draft. Caches, attention and the start of "
        "kernels are left out, so real gains are smaller. Acceptance as in the paper’s setting.",
        SetUp(acceptance, RoundCost(target, draft, NOTHING), _REQUESTS),
    )
