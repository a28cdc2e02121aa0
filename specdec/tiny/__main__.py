"""The command line of `python -m specdec.tiny`."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import specdec.tiny
from specdec.commands import Parser, ended
from specdec.tiny.measure import measure, measure_shapes
from specdec.tiny.recipe import SMOKE, Budget, Recipe
from specdec.tiny.run import Run, train
from specdec.tiny.texts import GENERAL, STORIES


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains and measures the pair, or only measures it."""
    parser = command()
    options = parser.parse_args(arguments)
    if options.shapes:
        measure_shapes(options.out)
        return
    if not options.measure:
        if options.corpus is None or options.work is None:
            parser.error("training needs --corpus and --work")
        train(run_of(options))
    measure(options.out, options.smoke)


def command() -> argparse.ArgumentParser:
    """The options of the command."""
    description = specdec.tiny.__doc__.split("\n")[0]
    parser = Parser(prog="python -m specdec.tiny", description=description)
    add = parser.add_argument
    add("--corpus", type=Path, help=f"folder with {GENERAL} and {STORIES}")
    add("--work", type=Path, help="folder for checkpoints; a killed run goes on from it")
    add("--out", type=Path, default=Path("assets/tiny"), help="folder of the pair")
    add("--minutes-target", type=float, default=75.0)
    add("--minutes-draft", type=float, default=25.0)
    add("--steps-target", type=int, help="instead of minutes: the same steps give the same weights")
    add("--steps-draft", type=int, help="likewise")
    add("--chunks", type=int, default=16, help="files of samples per process, 36,864 tokens each")
    add("--processes", type=int, default=2)
    add("--compile", action="store_true", help="compile the target's steps (needs a C++ compiler)")
    add("--seed", type=int, default=0)
    add("--measure", action="store_true", help="only measure the pair at --out and write its card")
    add("--shapes", action="store_true", help="only measure what other shapes cost, for the card")
    add("--smoke", action="store_true", help="a pair of seconds, to see that everything runs")
    return parser


def run_of(options: argparse.Namespace) -> Run:
    """The run that the options describe. --smoke replaces the recipe, the minutes and the chunks."""
    smoke = options.smoke
    steps = [20 if smoke and n is None else n for n in (options.steps_target, options.steps_draft)]
    return Run(
        options.corpus,
        options.work,
        options.out,
        replace(SMOKE if smoke else Recipe(), seed=options.seed),
        target=Budget(steps[0], options.minutes_target),
        draft=Budget(steps[1], options.minutes_draft),
        chunks=4 if smoke else options.chunks,
        processes=options.processes,
        compiled=options.compile,
    )


if __name__ == "__main__":
    with ended():
        main()
