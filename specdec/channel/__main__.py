"""`python -m specdec.channel`: measured bits of the codes beside entropy, divergence and bounds."""

from specdec.channel.report import main

if __name__ == "__main__":
    main()
