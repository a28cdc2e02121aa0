"""Audits other engines: whether their texts have the model's distribution, and whether a seed repeats a text.

    python -m research.audit --engine llama.cpp-draft --json reports.json --report posting.md
    python -m research.audit.repeats --texts 50

The audit itself, and the engines that a user has, are in `specdec.exactness.audit`. Each adapter is a file
with a function that starts its engine on a pair, and its `Engine`s by name, which `engines.engines` collects.

    engines   all engines by name
    llama_cpp, mlx, onnxruntime, openvino, sequential   the adapters
    tiny      random models, on which thousands of texts of any engine are quick
    __main__   the options; reports, and texts for maintainers (posting)
    repeats   which engines repeat the text of a seed
"""
