"""Trains the embedded pair: a tokenizer, a small Llama-shaped target and a draft distilled from it.

The stages are: tokenizer, target, samples (text that the target generates at temperature 1), draft and
measurements. Each stage saves its result in the work folder, so a stopped run continues from there. The model
card, `assets/stories/README.md`, is written by hand from the measurements.
"""
