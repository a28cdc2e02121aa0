"""Decoding: rounds of drafting, evaluation and verification until a text is complete.

run          `stream` and `generate`, the public functions
batch        `generate_many`, and runs that join and leave: many in one forward
engine       one round
detail       the nodes and races of a round's record
auto         the tree that is fastest on this machine, measured
clock        seconds of each part of a round
"""
