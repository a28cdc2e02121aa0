"""The examples that the race laboratory starts from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """Distributions to start from. e: the race's exponentials; empty if they are to be drawn.

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
            "Both races are the same race, so every draft is accepted.",
            four,
            [0.4, 0.3, 0.2, 0.1],
            [0.4, 0.3, 0.2, 0.1],
            [],
        ),
        Preset(
            "disjoint",
            "Disjoint support",
            "The draft proposes only what the target never writes: nothing is ever accepted.",
            four,
            [0.6, 0.4, 0.0, 0.0],
            [0.0, 0.0, 0.3, 0.7],
            [],
        ),
        Preset(
            "adversarial",
            "Adversarial, q ∝ 1 / p",
            "The draft likes best what the target likes least.",
            five,
            [0.5, 0.25, 0.125, 0.08, 0.045],
            [0.046, 0.092, 0.185, 0.288, 0.389],
            [],
        ),
        Preset(
            "two",
            "Two tokens, .01 against .99",
            "Rarely accepted at first, but the second child is then nearly certain: with so few tokens the "
            "index has far less entropy than D_KL.",
            ["a", "b"],
            [0.01, 0.99],
            [0.99, 0.01],
            [],
        ),
        Preset(
            "lead",
            "GSD's largest lead",
            "GSD's first acceptance is at most 3 − 2√2 = 17.2 points above ERSD's. This pair reaches it, at "
            "TV = √2 − 1. ERSD's equals its lower bound (1 − TV) / (1 + TV).",
            ["target's own", "shared", "draft's own"],
            [root, 1 - root, 0.0],
            [0.0, 1 - root, root],
            [],
        ),
    ]
