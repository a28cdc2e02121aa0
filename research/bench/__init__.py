"""Measures the costs of our own code; `specdec bench` compares whole runs.

__main__   `specdec bench` with the processor time of each part of a round: `python -m research.bench`
synthetic  pairs with random weights, of any shape and acceptance, that take the time of trained ones
states     pairs with random weights whose target has a recurrent or convolution state
profile    the processor time of one round, part by part
gpu        the costs of a round on a GPU
kernels    the speed of compiled products, relative to a memory copy: `python -m research.bench.kernels`
"""
