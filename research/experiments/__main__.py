"""`python -m research.experiments`."""

from research.experiments.command import EXPERIMENT

if __name__ == "__main__":
    EXPERIMENT.main()
