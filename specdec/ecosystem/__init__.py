"""Decoding inside transformers' `generate`.

custom_generate    the function that `generate` calls: transformers' own loop with the tokens of our decoder
arguments          checks the arguments of `generate`, and refuses those that are not supported
memory             refuses logits processors whose results depend on earlier calls
processors         applies logits processors of transformers at every node of a tree
requests           a run for each row of a batch
wrapped            wraps a model once, and stores the wrapper with the model for later calls
output             transformers' own output, plus the record and the acceptance of each row
"""
