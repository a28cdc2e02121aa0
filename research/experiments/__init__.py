"""The paper's experiments on any pair: tokens per target call against k, acceptance by index, bounds.

    python -m research.experiments                       # the embedded pair, some hours on a CPU
    python -m research.experiments --smoke               # every stage, in a minute
    python -m research.experiments --summary             # the numbers and the paper's findings, checked

GSD and ERSD continue the prompts of a list (`assets/prompts.txt`) with sequence, batch, SpecInfer's and the
optimal tree. First the largest sequence and batch are run. Their acceptance by child index is the 0-th order
R, from which the optimal trees, the predictions and the bounds are computed. Then every point (method, tree,
k) decodes the same prompts with the same seeds, so that differences between points are paired.

Results are one JSON-lines file, `--results`. A stopped experiment continues when it is started again with the
same options. `--summary` writes a summary beside the file, also for an unfinished experiment.

The paper's own pair is Llama 3.2 1B drafting for Llama 3.1 70B Instruct, with texts of up to 200 tokens,
100,000 tokens per strategy and k up to 384. It took 140 hours on eight RTX A6000. The paper states neither
temperature nor prompts; our temperature is 1. The target is spread over all GPUs. `--positions 0` leaves out
the acceptance at single contexts, which takes about a minute per context at 128,256 tokens:

    python -m research.experiments --target meta-llama/Llama-3.1-70B-Instruct \\
        --draft meta-llama/Llama-3.2-1B --dtype bfloat16 --device auto \\
        --tokens 100000 --max-new-tokens 200 --temperature 1 --positions 0 --results llama.jsonl
"""
