"""Models in GGUF files. A file is converted once to a folder that transformers can load, in a cache.

header      a file's metadata and table of tensors, checked before anything is made from them
weights     tensors as floats, under transformers' names
conversion  makes the folder in the cache once, completely or not at all
source      `GGUFSource`, which `specdec.models.source.find_source` returns for a file
"""
