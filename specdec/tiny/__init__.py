"""Trains the embedded pair: a tokenizer, a small Llama-shaped target and a draft distilled from it.

    python -m specdec.tiny --corpus CORPUS --work WORK --out assets/tiny

Its stages: tokenizer, target, samples (text that the target writes at temperature 1), draft, measurements
and model card. Each leaves its result in the work folder, so that a killed run goes on where it stopped.
"""
