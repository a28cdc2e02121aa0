"""The paper's experiments on any pair: tokens per target call against k, acceptance by index, bounds.

GSD and ERSD continue the prompts of a list (`assets/prompts.txt`) with four trees: sequence, batch,
SpecInfer's tree and the optimal tree. The largest sequence and batch run first. Their acceptance by child
index is the 0-th order R, from which the optimal trees, the predictions and the bounds are computed. Every
point (method, tree, k) then decodes the same prompts with the same seeds, so that differences between points
are paired. README.md has the commands.
"""
