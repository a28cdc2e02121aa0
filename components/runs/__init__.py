"""Runs of visitors: from a request to the decoder and back.

run          one run and its updates for the page
seats        which visitors have a seat, and the line of the others
queue        all jobs of the model, advanced in one thread, and which comes next
capacity     how many runs are decoded at once
topologies   the trees that visitors can choose
timing       the speed of a run compared with plain decoding
feed         updates on their way to the browser
lazy, known_pairs, zero_gpu      the pair of models, the pairs of the page's list, and a GPU that is lent
"""
