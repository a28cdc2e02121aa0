"""Decoding: rounds of drafting, evaluation and verification, until a text is complete.

run          `stream` and `generate`, the public functions
batch        `generate_many` and `Batch`: many runs share each forward pass
engine       one round
trees        the trees of one run: past trees, the present tree, and trees that a record prescribes
detail       the nodes and races of a round's record
auto         topology "auto": chooses trees during a run, from measured acceptance and measured times
experience   the acceptance and the times measured in a pair's earlier runs
fastest      the fastest tree for known acceptance and costs
costs        the measured cost of a round
joint_trees  the best trees for several texts that are decoded together, at measured costs
acceptance   measures acceptance by child index
shared_mass  the target's probability of the tokens that a draft with another tokenizer also has
clock        seconds of each part of a round
"""
