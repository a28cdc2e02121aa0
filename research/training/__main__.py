"""Trains the pair or draft that --pair names, and then measures it if it is the story pair."""

from collections.abc import Sequence
from pathlib import Path

from research.training import smollm2_draft
from research.training.stories import stages
from research.training.stories.measure import measure
from research.training.stories.recipe import SMOKE, Recipe
from specdec.commands import Parser, without_traceback
from specdec.shipped import EMBEDDED, SMOLLM2_DRAFT


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains the pair or draft that --pair names, and then measures it if it is the story pair."""
    parser = Parser("python -m research.training", description=__doc__)
    add = parser.add_argument
    add("--pair", choices=("stories", "smollm2-draft"), required=True)
    add("--stories", type=Path, help="a file of texts, separated by <|endoftext|>")
    add("--work", type=Path, help="folder of samples and checkpoints; a stopped run continues from it")
    add("--out", type=Path, help="folder of the result (default: the shipped one)")
    add("--measure", action="store_true", help="only measure the story pair at --out")
    add("--smoke", action="store_true", help="train a tiny story pair in seconds, to try every stage")
    options = parser.parse_args(arguments)
    if not options.measure and None in (options.stories, options.work):
        parser.error("training needs --stories and --work")
    if options.pair == "smollm2-draft":
        smollm2_draft.train(options.stories, options.work, options.out or SMOLLM2_DRAFT)
        return
    out = options.out or EMBEDDED
    if not options.measure:
        stages.train(options.stories, options.work, out, SMOKE if options.smoke else Recipe())
    measure(out, options.smoke)


if __name__ == "__main__":
    with without_traceback():
        main()
