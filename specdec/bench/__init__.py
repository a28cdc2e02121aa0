"""Compares our speed with transformers' own decoding: `python -m specdec.bench`.

contestants   transformers' generate (autoregressive, assisted, prompt lookup) and our decoder
servers       a running llama-server
field         chooses each contestant's settings by short trials
measure       runs all contestants in turn on the same prompts, so that other work slows all alike
report        medians, ratios of paired runs with intervals, and the tables
bandwidth     the speed of plain decoding as a share of the speed that the memory allows
command       the options, the run, the table and the JSON

`python -m research.bench`, which is not part of the package, does the same on pairs with random weights, and
shows the processor time of each part of a round.
"""
