"""Runs the command `python -m research.experiments`."""

from research.experiments.paper import EXPERIMENT

if __name__ == "__main__":
    EXPERIMENT.main()
