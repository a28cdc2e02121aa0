"""Whether ERSD writes the text of plain decoding: on trees, beside other texts, at several temperatures.

    python -m research.invariance --target target.gguf --draft draft.gguf --texts 40

Every text is decoded plainly and by ERSD with the same seed. Half of ERSD's texts are decoded alone, half are
decoded several at once. As a control, GSD decodes some of them: its texts depend on the tree.
"""

from __future__ import annotations

from typing import Any

import specdec
from research.packed import PROMPTS
from specdec import topology
from specdec.commands import Parser, add_pair, ended
from specdec.loading import load_with_progress
from specdec.topology import Topology
from specdec.trace import Method

TREES = (topology.sequence(4), topology.Topology([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]))
TEMPERATURES = (0.3, 0.7, 1.0)
AT_ONCE = 4


def main() -> None:
    """Counts and prints."""
    parser = Parser(prog="python -m research.invariance", description=__doc__)
    add_pair(parser)
    parser.add_argument("--texts", type=int, default=40, help="number of texts (default: 40)")
    parser.add_argument("--tokens", type=int, default=100, help="most tokens of a text (default: 100)")
    options = parser.parse_args()
    pair = load_with_progress(options)
    tokens = differing = control = 0
    for groups, first in enumerate(range(0, options.texts, AT_ONCE)):
        seeds = range(first, min(first + AT_ONCE, options.texts))
        prompts = [PROMPTS[seed % len(PROMPTS)] for seed in seeds]
        ids = [pair.chat_prompt(each) if pair.chats else pair.encode(each) for each in prompts]
        tree, temperature = TREES[groups // 2 % len(TREES)], TEMPERATURES[groups % len(TEMPERATURES)]
        settings: dict[str, Any] = {"temperature": temperature, "max_new_tokens": options.tokens}

        def alone(
            method: Method,
            settings: dict[str, Any] = settings,
            ids: list[list[int]] = ids,
            seeds: range = seeds,
            tree: Topology = tree,
        ) -> list[list[int]]:
            return [
                specdec.generate(pair, each, method=method, seed=seed, topology=tree, **settings).token_ids
                for each, seed in zip(ids, seeds, strict=True)
            ]

        plain = alone("ar")
        if groups % 2:
            runs = specdec.generate_many(pair, ids, seeds=[*seeds], method="ersd", topology=tree, **settings)
            texts = [run.token_ids for run in runs]
        else:
            texts = alone("ersd")
        if groups % 8 == 0:
            control += sum(have != want for have, want in zip(alone("gsd"), plain, strict=True))
        tokens += sum(map(len, plain))
        differing += sum(have != want for have, want in zip(texts, plain, strict=True))
        print(
            f"{seeds.stop} texts, {tokens:,} tokens: {differing} differ from plain decoding "
            f"(control, GSD: {control} of {AT_ONCE * (groups // 8 + 1)})",
            flush=True,
        )


if __name__ == "__main__":
    with ended():
        main()
