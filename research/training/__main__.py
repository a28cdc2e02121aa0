"""The command line of `python -m research.training`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import research.training
from research.training import smollm2_draft
from research.training.loop import Budget
from research.training.stories import __doc__ as stories_doc
from research.training.stories import run as stories
from research.training.stories.measure import measure
from research.training.stories.recipe import SMOKE, Recipe
from research.training.stories.texts import STORIES
from specdec.commands import Parser, ended
from specdec.shipped import SMOLLM2_DRAFT

PROG = "python -m research.training"


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains the pair or draft that --pair names. All other options go to that training."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    trainings = {"stories": train_stories, "smollm2-draft": train_smollm2_draft}
    parser = argparse.ArgumentParser(
        prog=PROG, description=research.training.__doc__.split("\n")[0], add_help="--pair" not in given
    )
    parser.add_argument("--pair", choices=trainings, required=True, help="its options: --pair NAME --help")
    options, rest = parser.parse_known_args(given)
    trainings[options.pair](rest)


def train_smollm2_draft(arguments: Sequence[str]) -> None:
    """Trains the draft for SmolLM2."""
    parser = Parser(prog=f"{PROG} --pair smollm2-draft", description=smollm2_draft.__doc__)
    add = parser.add_argument
    add("--stories", type=Path, required=True, help="texts, separated by <|endoftext|>")
    add("--work", type=Path, required=True, help="folder of records and checkpoints")
    add("--out", type=Path, default=SMOLLM2_DRAFT, help="folder of the draft")
    add("--records", type=int, default=10, help="at least; all in the work folder are used")
    add("--minutes", type=float, default=60.0, help="of processor time, for the draft")
    smollm2_draft.train(smollm2_draft.Settings(**vars(parser.parse_args(arguments))))


def train_stories(arguments: Sequence[str] | None = None) -> None:
    """Trains and measures the story pair, or only measures it.

    --smoke replaces the recipe, the minutes and the chunks.
    """
    parser = Parser(prog=f"{PROG} --pair stories", description=stories_doc.split("\n")[0])
    add = parser.add_argument
    add("--corpus", type=Path, help=f"folder with {STORIES}")
    add("--work", type=Path, help="folder for checkpoints; a killed run goes on from it")
    add("--out", type=Path, default=Path("assets/stories"), help="folder of the pair")
    add("--minutes-target", type=float, default=75.0)
    add("--minutes-draft", type=float, default=25.0)
    add("--steps-target", type=int, help="instead of minutes: the same steps give the same weights")
    add("--steps-draft", type=int, help="likewise")
    add("--chunks", type=int, default=32, help="files of samples, 36,864 tokens each")
    add("--threads", type=int, default=2)
    add("--compile", action="store_true", help="compile the target's steps (needs a C++ compiler)")
    add("--seed", type=int, default=0)
    add("--measure", action="store_true", help="only measure the pair at --out")
    add("--smoke", action="store_true", help="a pair of seconds, to see that everything runs")
    given = parser.parse_args(arguments)
    recipe, steps, chunks = (SMOKE, 20, 4) if given.smoke else (Recipe(), None, given.chunks)
    if not given.measure:
        if given.corpus is None or given.work is None:
            parser.error("training needs --corpus and --work")
        target, draft = (
            Budget(steps if count is None else count, minutes)
            for count, minutes in (
                (given.steps_target, given.minutes_target),
                (given.steps_draft, given.minutes_draft),
            )
        )
        paths, recipe = (given.corpus, given.work, given.out), replace(recipe, seed=given.seed)
        stories.train(stories.Run(*paths, recipe, target, draft, chunks, given.threads, given.compile))
    measure(given.out, given.smoke)


if __name__ == "__main__":
    with ended():
        main()
