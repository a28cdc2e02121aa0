"""Decoding: rounds of drafting, evaluation and verification, until a text is complete.

run          `stream` and `generate`, the public functions
batch        `generate_many`, and runs that join and leave: many in one forward
engine       one round
trees        the trees of a run, for the run and its engine
detail       the nodes and races of a round's record
auto         the tree that is fastest on this machine, measured
costs        the measured cost of a round
joint_trees  the best trees of several texts, at these costs
acceptance   acceptance by child index, measured
shared_mass  how much a draft with another tokenizer can propose
clock        seconds of each part of a round
"""
