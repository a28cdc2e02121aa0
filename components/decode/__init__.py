"""The view "Decode": a run with its controls, its text, the tree and the race of each round, and recorded
runs."""
