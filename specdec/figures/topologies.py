"""The table of the topologies, with the names that settings, the page's address and figures use for them."""

from __future__ import annotations

from typing import NamedTuple


class TopologyEntry(NamedTuple):
    """The description of a topology that visitors choose by name.

    name: its name in menus. long_name: its name in sentences and figures. sentence: a description. takes_k:
    whether it needs a k. measured: whether its tree depends on a measurement. mark, dash: its symbol and line
    style in figures, in plotly's words. colour: its colour's name. All three are empty if no figure shows it.
    """

    name: str
    long_name: str
    sentence: str
    takes_k: bool = True
    measured: bool = False
    mark: str = ""
    dash: str = ""
    colour: str = ""


TOPOLOGIES = {
    "simple": TopologyEntry("simple", "one drafted token", "one token", takes_k=False),
    "sequence": TopologyEntry(
        "sequence", "sequence", "k tokens in a sequence", mark="circle", dash="dash", colour="sequence"
    ),
    "batch": TopologyEntry("batch", "batch", "k alternatives", mark="square", dash="dot", colour="batch"),
    "specinfer": TopologyEntry(
        "SpecInfer tree",
        "SpecInfer tree",
        "three branches",
        mark="diamond",
        dash="dashdot",
        colour="specinfer-tree",
    ),
    "optimal": TopologyEntry(
        "optimal",
        "optimal tree",
        "the best tree of k tokens",
        measured=True,
        mark="star",
        dash="solid",
        colour="optimal",
    ),
    "context": TopologyEntry("context", "context tree", "another tree in each round"),
    "auto": TopologyEntry(
        "auto", "following tree", "the fastest tree on this machine, chosen again and again", takes_k=False
    ),
}
"""All topologies, by their names in settings and web addresses."""

FIXED = tuple(name for name, entry in TOPOLOGIES.items() if entry.dash)
"""Topologies whose tree of k tokens is the same in each round. Figures show a curve for each of them."""
