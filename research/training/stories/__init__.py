"""Trains the embedded pair: a tokenizer, a small Llama-shaped target and a draft distilled from it."""
