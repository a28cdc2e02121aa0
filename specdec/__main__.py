"""`python -m specdec`, and the command `specdec`."""

from __future__ import annotations

from collections.abc import Sequence

from specdec.commands import ended
from specdec.waiting import Waiting


def main(arguments: Sequence[str] | None = None) -> None:
    """The command, from its imports on, which take seconds."""
    with ended():
        with Waiting("starting"):
            from specdec.terminal import command
        command.main(arguments)


if __name__ == "__main__":
    main()
