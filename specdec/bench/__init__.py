"""Speed beside transformers' own decoding: `python -m specdec.bench`.

contestants   transformers' generate (autoregressive, assisted, prompt lookup) and ours
openvino      openvino-genai, where it is installed
measure       all of them in turn on the same prompts, so that other work on the machine slows all alike
report        medians, paired ratios with intervals, the tables
synthetic     pairs of any shape and agreement, with random weights and the true cost
bandwidth     plain decoding as a share of what memory allows
profile       one round's processor time, part by part
overhead      our own cost per round, with models that cost nearly nothing
command       options, trials of dtype, threads and k, the table and the JSON
"""
