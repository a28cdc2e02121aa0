"""The view "Experiments": the paper's figures and findings, from stored results."""
