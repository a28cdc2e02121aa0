"""`python -m specdec.channel`: measured bits of the codes beside entropy, divergence and bounds."""

from specdec.channel.report import main
from specdec.commands import ended

if __name__ == "__main__":
    with ended():
        main()
