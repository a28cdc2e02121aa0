"""Runs of visitors: from a request to the decoder and back.

run          one run and its updates for the page
seats        which runs have a seat at the model, and the line of those that wait
jobs         one job: its steps, its state, and what its reader gets
queue        all jobs of the model, which one thread advances in a fair order
capacity     how many runs are decoded at once
topologies   the trees that visitors can choose
timing       the speed of a run compared with plain decoding
feed         updates on their way to the browser
lazy         the pair of models that all visitors share
known_pairs  the pairs that the page lists
zero_gpu     runs on a GPU that Hugging Face lends
"""
