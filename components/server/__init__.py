"""What stands between visitors and the decoder.

options      what whoever runs the server sets
settings     what a visitor asks for, checked
turns        who has a seat, and whose round is next
ahead        seated runs, advanced
run          how a run begins, and what is told of it
feed         updates on their way to the browser
topologies   the trees that can be asked for
lazy, loading, access, known_pairs, zero_gpu      the pair of models: which, when, and where
endpoint     the same for programs
standalone   a panel by itself
"""
