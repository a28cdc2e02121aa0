"""Acceptances with arbitrary weights, for trees that depend on the draft's output."""

import torch

from specdec.context import ContextAcceptance
from specdec.context.acceptance import STAGES, Hazards
from specdec.context.features import WIDTH

AVERAGE = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002)
FEATURES = {"gsd": {"node": 4, "tested": 7, "drafted": 9}, "ersd": {"drafted": 8}}


def capricious(method, seed=0, scale=2.0):
    """An acceptance that makes every shape depend strongly on all of its features."""
    generator = torch.Generator().manual_seed(seed)
    stages = {
        name: Hazards(
            torch.randn(WIDTH, FEATURES[method][name], generator=generator) * scale,
            torch.randn(WIDTH, generator=generator),
        )
        for name in STAGES[method]
    }
    return ContextAcceptance(method, AVERAGE, stages)
