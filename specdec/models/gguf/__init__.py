"""Models in GGUF files. A file is converted once to a folder that transformers loads, which stays in a cache.

header      keys and table of tensors of a file, checked before anything is made from them
weights     tensors as floats, under transformers' names
conversion  the folder in the cache: made once, whole or not at all
source      `GGUFSource`, which `specdec.models.source.find_source` returns for a file
"""
