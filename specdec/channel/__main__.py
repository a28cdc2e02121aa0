"""`python -m specdec.channel` prints measured bits of the codes with entropy, divergence and bounds."""

from specdec.channel.report import main
from specdec.commands import ended

if __name__ == "__main__":
    with ended():
        main()
