"""Computes whether speculative decoding is faster: tokens per call, speed-up and limits, from measured costs.

gain      the gain from drafting in a set-up, the values at which it breaks even, and its limits
measuring measures the set-up of a pair on this machine
setups    set-ups: measured, from a roofline, from JSON, and with single values changed
command   `python -m specdec.payoff`
"""

from specdec.payoff.gain import Payoff
from specdec.payoff.setups import SetUp, changed, roofline

__all__ = ["Payoff", "SetUp", "changed", "roofline"]
