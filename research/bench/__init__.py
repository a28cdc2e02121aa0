"""Costs of our own code, beside `specdec bench`, which compares whole runs.

kernels   the compiled products as shares of a memory copy: `python -m research.bench.kernels`
states    a model with states compared with its own plain decoding: `python -m research.bench.states`
"""
