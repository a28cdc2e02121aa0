"""Checks whether texts have the target's distribution.

losslessness    short texts of the decoder against the exact distribution of a small model
faults          verifiers that are broken on purpose, which the checks must notice
audit           texts of any engine against the distribution of its model, with a verdict
watermark       whether a text was decoded with a given seed
"""
