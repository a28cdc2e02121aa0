"""`python -m specdec.payoff`."""

from specdec.commands import without_traceback
from specdec.payoff.command import main

if __name__ == "__main__":
    with without_traceback():
        main()
