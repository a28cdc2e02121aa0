"""What stands between visitors and the decoder.

options      what whoever runs the server sets
settings     what a visitor asks for, checked
capacity     how many runs are decoded at once
turns        who has a seat
claims       whose turn at the model is next
scheduler    begins and decodes all runs that have a seat, in one thread and one batch
run          one run, and the updates that the page gets of it
timing       how long a run takes beside plain decoding
feed         updates on their way to the browser
topologies   the trees that can be asked for
lazy, loading, access, known_pairs, zero_gpu      the pair of models: which, when, and where
endpoint     the same for programs
standalone   a panel by itself
"""
