"""`python -m research.experiments`."""

from research.experiments.command import main
from specdec.commands import ended

if __name__ == "__main__":
    with ended():
        main()
