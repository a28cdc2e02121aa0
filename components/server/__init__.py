"""What stands between visitors and the decoder.

settings     what a visitor asks for, checked
turns        whose round is next
run          the run and its updates
topologies   the trees that can be asked for
lazy, loading, access, known_pairs, zero_gpu      the pair of models: which, when, and where
endpoint     the same for programs
standalone   a panel by itself
"""
