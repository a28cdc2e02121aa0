"""Rounds on a GPU: all of a round is launched without asking the device for anything, then read at once.

    launch      drafting, the target's forward and the verification of every node, as tensors
    transfer    one small tensor: each node's token, whether it is there, who won its race, p and q
    read        the walk down the tree, the text and the caches, on the host

The same decisions on the same noise as `engine`, which on a CPU is faster: it computes only what
the walk visits.
"""

from specdec.decoding.on_device.engine import DeviceEngine, engine_for

__all__ = ["DeviceEngine", "engine_for"]
