"""The examples that the race laboratory starts from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """Distributions to start from. e: the race's exponential random numbers; empty if they are to be drawn.

    id: its name in the page's address, which never changes.
    """

    id: str
    name: str
    note: str
    tokens: list[str]
    p: list[float]
    q: list[float]
    e: list[float]


def presets() -> list[Preset]:
    """The laboratory's examples, the paper's example first."""
    four, five = ["a", "b", "c", "d"], ["a", "b", "c", "d", "e"]
    root = 2**0.5 - 1
    return [
        Preset(
            "cat",
            "The cat sat on the …",
            "The paper's Figure 2 gives arrival times only; p, q and e here are chosen so that all bars "
            "have the lengths drawn there.",
            ["floor", "mat", "chair", "table", "sofa"],
            [0.15, 0.35, 0.2, 0.2, 0.1],
            [0.182, 0.408, 0.124, 0.164, 0.122],
            [0.255, 0.245, 0.26, 0.18, 0.22],
        ),
        Preset(
            "equal",
            "Identical, P = Q",
            "Both distributions are the same, so every draft is accepted.",
            four,
            [0.4, 0.3, 0.2, 0.1],
            [0.4, 0.3, 0.2, 0.1],
            [],
        ),
        Preset(
            "disjoint",
            "Disjoint support",
            "The draft proposes only tokens that the target never writes, so no token is ever accepted.",
            four,
            [0.6, 0.4, 0.0, 0.0],
            [0.0, 0.0, 0.3, 0.7],
            [],
        ),
        Preset(
            "adversarial",
            "Adversarial, q ∝ 1 / p",
            "The draft's likeliest token is the target's unlikeliest.",
            five,
            [0.5, 0.25, 0.125, 0.08, 0.045],
            [0.046, 0.092, 0.185, 0.288, 0.389],
            [],
        ),
        Preset(
            "two",
            "Two tokens, .01 against .99",
            "The first child is rarely accepted, but then the second one nearly always is. With so few "
            "tokens the entropy of the index is far below D_KL.",
            ["a", "b"],
            [0.01, 0.99],
            [0.99, 0.01],
            [],
        ),
        Preset(
            "lead",
            "GSD's largest lead",
            "GSD's first acceptance is at most 3 − 2√2 = 17.2 points above ERSD's. This pair of "
            "distributions reaches that lead, at TV = √2 − 1. Here ERSD's acceptance equals its lower bound "
            "(1 − TV) / (1 + TV).",
            ["only the target's", "shared", "only the draft's"],
            [root, 1 - root, 0.0],
            [0.0, 1 - root, root],
            [],
        ),
    ]
