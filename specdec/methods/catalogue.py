"""The table of all methods.

Each method has a name, a guarantee, and a function that decides which drafted tokens are accepted. Menus,
figures, traces, benches and tests read this table.
"""

from __future__ import annotations

from typing import NamedTuple

from specdec.methods import ersd, gsd, specinfer, spectr, traversal
from specdec.methods.verdict import Verifier
from specdec.race import PositionNoise, RoundNoise


class Entry(NamedTuple):
    """The description of a method.

    name, long_name: a short name for menus and figures, and the full name.
    sentence: what the method does.
    verify: the function that decides a round.
    mark, dash: its symbol and its line style in figures, in plotly's words.
    drafter_invariant: whether a seed gives the same text with every drafter.
    noise: the class of its random numbers: `RoundNoise` for rules that decide on several positions at once,
    `PositionNoise` for all others.
    drafts: whether the method drafts tokens.
    independent: whether a node's children are independent draws from q, where equal draws become one child.
    If not, they are the first arrivals of the race under q.
    by_index: whether a child's acceptance depends on its index and not on the rest of the tree (Equation 3 of
    the paper). If so, trees can be grown from the acceptance by index.
    """

    name: str
    long_name: str
    sentence: str
    verify: Verifier
    mark: str
    dash: str
    drafter_invariant: bool = False
    noise: type[PositionNoise] = PositionNoise
    drafts: bool = True
    independent: bool = False
    by_index: bool = True


METHODS = {
    "ar": Entry(
        name="autoregressive",
        long_name="autoregressive decoding",
        sentence="The target writes alone, one token per call.",
        verify=ersd.sample,
        mark="diamond",
        dash="dot",
        drafter_invariant=True,
        drafts=False,
    ),
    "gsd": Entry(
        name="GSD",
        long_name="greedy speculative decoding",
        sentence="A drafted token is accepted with probability p / q. If all alternatives are rejected, a "
        "token is sampled from the residual.",
        verify=gsd.verify,
        mark="circle",
        dash="solid",
    ),
    "ersd": Entry(
        name="ERSD",
        long_name="exponential-race speculative decoding",
        sentence="Both models run a race with the same random numbers. A drafted token is accepted if it "
        "wins the target's race.",
        verify=ersd.verify,
        drafter_invariant=True,
        mark="square",
        dash="dash",
    ),
    "traversal": Entry(
        name="Traversal",
        long_name="traversal verification",
        sentence="Whole paths of drafted tokens are tested, from the leaves of the tree upwards. If the tree "
        "is one path, this is block verification.",
        verify=traversal.verify,
        mark="triangle-up",
        dash="longdash",
        noise=RoundNoise,
        by_index=False,
    ),
    "specinfer": Entry(
        name="SpecInfer",
        long_name="SpecInfer's multi-step speculative sampling",
        sentence="Independent drafts are tested one by one. After each rejection the residual replaces the "
        "target's distribution.",
        verify=specinfer.verify,
        mark="x",
        dash="dashdot",
        independent=True,
        by_index=False,
    ),
    "spectr": Entry(
        name="SpecTr",
        long_name="SpecTr's k-sequential selection",
        sentence="Independent drafts are tested one by one, all with the same threshold.",
        verify=spectr.verify,
        mark="cross",
        dash="longdashdot",
        independent=True,
        by_index=False,
    ),
}
"""All methods, by their names in settings, traces and web addresses."""

DRAFTING = tuple(name for name, entry in METHODS.items() if entry.drafts)
"""The names of all methods except plain decoding, which drafts nothing."""
