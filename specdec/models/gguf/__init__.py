"""Models in GGUF files: read once, converted to a folder that transformers loads, and kept in a cache.

header      what a file says of itself, checked before anything is made from it
weights     tensors as floats under the names of transformers
conversion  the folder in the cache: made once, whole or not at all
source      `GGUFSource`, which `specdec.models.source.find_source` gives for a file
"""
