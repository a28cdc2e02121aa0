"""Models in GGUF files. A file is converted once, to a folder in a private cache.

header      a file's metadata and table of tensors, checked before anything is made from them
weights     the tensors by transformers' names, and the configuration
conversion  makes the converted folder, completely or not at all
source      `GGUFSource`, which `specdec.models.source.find_source` returns for a file
"""
