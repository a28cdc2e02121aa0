"""`python -m specdec.experiments`."""

from specdec.commands import ended
from specdec.experiments.command import main

if __name__ == "__main__":
    with ended():
        main()
