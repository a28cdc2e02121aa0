"""Run the command `specdec`: `python -m specdec`."""

from __future__ import annotations

from collections.abc import Sequence

from specdec.commands import ended, kept
from specdec.waiting import Waiting


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command. Its imports take seconds, so Ctrl+C and errors are handled during the imports too."""
    with ended():
        with Waiting("starting"), kept():
            from specdec.terminal import command
        command.main(arguments)


if __name__ == "__main__":
    main()
