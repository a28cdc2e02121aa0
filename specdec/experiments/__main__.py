"""`python -m specdec.experiments`."""

from specdec.experiments.command import main

if __name__ == "__main__":
    main()
