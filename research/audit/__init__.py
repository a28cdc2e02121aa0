"""Audits other engines: do texts have the model's distribution, and does a seed give the same text again?

The audit itself, and the engines that a user has, are in `specdec.exactness.audit`. Here each engine has a
file with a function that starts it on a pair (README.md).
"""
