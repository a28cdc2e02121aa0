"""Whether texts really have the target's law.

losslessness    short texts by the decoder against the exact law of a small model
batched         texts decoded together against the same runs alone
faults          verifiers that are broken on purpose: the checks must notice them
audit           any engine's texts against the law of its model, with a verdict
watermark       whether a text came from a seed's races
"""
