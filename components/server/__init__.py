"""The server between visitors and the decoder.

options      settings of the server's operator
capacity     how many runs are decoded at once
turns        which runs have a seat
claims       whose turn at the model is next
scheduler    begins and decodes all runs with a seat, in one thread and one batch
run          one run and its updates for the page
timing       the speed of a run compared with plain decoding
feed         updates on their way to the browser
topologies   the trees that visitors can choose
lazy, loading, access, known_pairs, zero_gpu      which pair of models is loaded, when, and on which device
standalone   a panel by itself
"""
