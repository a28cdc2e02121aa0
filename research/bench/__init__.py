"""Costs of our own code, beside `specdec bench`, which compares whole runs.

__main__   `specdec bench` with the processor time of each part of a round: `python -m research.bench`
synthetic  pairs with random weights, of any shape and acceptance, that take the time of trained ones
states     such pairs with a target that has states
profile    the processor time of one round, part by part
kernels    the compiled products as shares of a memory copy: `python -m research.bench.kernels`
"""
