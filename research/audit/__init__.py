"""Audits other engines: do texts have the model's distribution, and does a seed give the same text again?

    python -m research.audit --engine llama.cpp-draft --json reports.json --report posting.md
    python -m research.audit.repeats --texts 50

The audit itself, and the engines that a user has, are in `specdec.exactness.audit`. Each adapter is a file
with a function that starts its engine on a pair. `engines.engines` collects the `Engine`s of all adapters.

    engines   all engines by name
    llama_cpp, mlx, onnxruntime, openvino, sequential   the adapters
    tiny      random models, on which any engine decodes thousands of texts quickly
    __main__   the options; reports, and texts for maintainers (posting)
    repeats    finds which engines give the same text for the same seed
"""
