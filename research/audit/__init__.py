"""Audits other engines: do texts have the model's distribution, and does a seed give the same text again?

The audit itself is in `specdec.exactness.audit`, with the engines that users have. In this folder each
further engine has a file, with a function that starts the engine on a pair (README.md).
"""
