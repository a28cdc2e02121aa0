"""`python -m specdec`, and the command `specdec`."""

from specdec.terminal.command import main

if __name__ == "__main__":
    main()
