"""Decoding: rounds of drafting, evaluation and verification until a text is complete.

run          `stream` and `generate`, the public way in
batch        `generate_many`, and runs that join and leave: many in one forward
engine       one round
detail       what a round's record says about every node and race
auto         the tree that is fastest on this machine, measured
clock        seconds of each part of a round
"""
