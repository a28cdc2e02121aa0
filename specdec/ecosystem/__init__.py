"""Where users already are: decoding inside transformers' `generate`.

custom_generate    what `generate` calls: its own loop, with tokens that speculative decoding found
arguments          what `generate` hands over, and what of it is refused, by name
processors         logits processors of transformers, at every node of a tree
kept               wrapped models, kept from one call to the next
output             what is returned: transformers' own output, with the records and their acceptance
"""
