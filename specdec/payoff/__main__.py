"""`python -m specdec.payoff`."""

from specdec.commands import ended
from specdec.payoff.command import main

if __name__ == "__main__":
    with ended():
        main()
