"""Run the command `specdec`: `python -m specdec`."""

from __future__ import annotations

from collections.abc import Sequence

from specdec.commands import without_collection, without_traceback
from specdec.waiting import Waiting


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command. Its imports take seconds, so Ctrl+C and errors are handled during the imports too."""
    with without_traceback():
        with Waiting("starting"), without_collection():
            from specdec.terminal import command
        command.main(arguments)


if __name__ == "__main__":
    main()
