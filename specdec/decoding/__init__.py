"""Decoding: rounds of drafting, evaluation and verification, until a text is complete.

run          `stream` and `generate`, the public functions
batch        `generate_many` and `Batch`: many runs share each forward pass
engine       one round
trees        the trees of one run: past, present and prescribed ones
detail       the nodes and races of a round's record
auto         chooses trees again and again, from the acceptance and the times of rounds
experience   the acceptance and the times that a pair's runs have shown
fastest      the fastest tree for known acceptance and costs
costs        the measured cost of a round
joint_trees  the best trees of several texts, at these costs
acceptance   acceptance by child index, measured
shared_mass  the target's probability of the tokens that a draft with another tokenizer has too
clock        seconds of each part of a round
"""
