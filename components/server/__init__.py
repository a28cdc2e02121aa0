"""What stands between visitors and the decoder.

options      what whoever runs the server sets
settings     what a visitor asks for, checked
capacity     how many runs are decoded at once
turns        who has a seat
claims       whose turn at the model is next
ahead        a seated run, begun and told of
together     all that have begun, decoded in one batch
run          how a run begins, and what is told of it
feed         updates on their way to the browser
topologies   the trees that can be asked for
lazy, loading, access, known_pairs, zero_gpu      the pair of models: which, when, and where
endpoint     the same for programs
standalone   a panel by itself
"""
