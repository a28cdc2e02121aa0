"""Computes whether speculative decoding pays: tokens per call, speed-up and limits, by acceptance and costs.

gain      what drafting gains in a set-up, where it breaks even, and what limits it
measuring measures the set-up of a pair on this machine
setups    set-ups: measured, from a roofline, as JSON, and with single values changed
command   `python -m specdec.payoff`
"""

from specdec.payoff.gain import Payoff
from specdec.payoff.setups import SetUp, changed, roofline

__all__ = ["Payoff", "SetUp", "changed", "roofline"]
