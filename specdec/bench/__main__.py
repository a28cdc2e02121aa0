"""Runs the command `python -m specdec.bench`."""

from specdec.commands import ended

if __name__ == "__main__":
    with ended():
        from specdec.bench.command import main

        main()
