"""Checks whether texts have the target's distribution.

losslessness    compares short texts of the decoder with the exact distribution of a small model
faults          verifiers that are broken on purpose; the checks must notice each of them
audit           compares texts of any engine with the distribution of its model, and gives a verdict
watermark       tests whether a text was decoded with a given seed
"""
