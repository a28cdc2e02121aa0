"""The server between visitors and the decoder.

options      settings of the server's operator
capacity     how many runs are decoded at once
queue        all jobs of the model, advanced in one thread, and which comes next
seats        which visitors have a seat, and the line of the others
run          one run and its updates for the page
timing       the speed of a run compared with plain decoding
feed         updates on their way to the browser
topologies   the trees that visitors can choose
lazy, loading, access, known_pairs, zero_gpu      which pair of models is loaded, when, and on which device
standalone   a panel by itself
"""
