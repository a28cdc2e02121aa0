"""Trains the embedded pair: a tokenizer, a small target, and a draft that learns its probabilities."""
