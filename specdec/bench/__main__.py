"""Runs the command `python -m specdec.bench`."""

from specdec.commands import without_traceback

if __name__ == "__main__":
    with without_traceback():
        from specdec.bench.command import main

        main()
