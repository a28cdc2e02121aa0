"""The command line of `python -m specdec.training`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import specdec.training
from specdec.commands import ended
from specdec.shipped import SMOLLM2_DRAFT
from specdec.tiny.__main__ import main as train_stories
from specdec.training.smollm2_draft import Settings, train


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains the pair or draft that --pair names. All other options go to that training."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    description = specdec.training.__doc__.split("\n")[0]
    parser = argparse.ArgumentParser(
        prog="python -m specdec.training", description=description, add_help=False
    )
    parser.add_argument("--pair", choices=("stories", "smollm2-draft"), required=True)
    options, rest = parser.parse_known_args(given)
    if options.pair == "stories":
        train_stories(rest)
        return
    parser.add_argument("--help", action="help")
    parser.add_argument("--stories", type=Path, required=True, help="texts, separated by <|endoftext|>")
    parser.add_argument("--work", type=Path, required=True, help="folder of records and checkpoints")
    parser.add_argument("--out", type=Path, default=SMOLLM2_DRAFT, help="folder of the draft")
    parser.add_argument("--records", type=int, default=10, help="at least; all in the work folder are used")
    parser.add_argument("--minutes", type=float, default=60.0, help="of processor time, for the draft")
    train(
        Settings(**{name: value for name, value in vars(parser.parse_args(given)).items() if name != "pair"})
    )


if __name__ == "__main__":
    with ended():
        main()
