"""Experiments that measure the target's texts one by one, on the pairs of this project."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from research import estimates
from research.estimates import Row, grouped
from research.experiments.settings import read_prompts
from research.experiments.sweep import Experiment, Sweep
from specdec import ModelPair, Topology, generate, load_pair, smollm2
from specdec.devices import machine
from specdec.learn import scored
from specdec.probs import Sampling
from specdec.race import derived_seed, log_exponentials
from specdec.shipped import PROMPTS, SMOLLM2, STORIES
from specdec.theory.trials import ersd_accepted_indices
from specdec.topology import Path

LENGTHS = {STORIES: 140, SMOLLM2: 60}  # for each pair, the largest number of new tokens of a text
_OPTIONS: dict[str, Row] = {"--pair": {"choices": [STORIES, SMOLLM2], "help": "measure only this pair"}}


class Text(NamedTuple):
    """One text of the target at temperature 1, decoded without drafts."""

    number: int
    ids: list[int]  # of the prompt and the text
    start: int  # the index in ids where the text begins
    seed: int  # of the text's races


@dataclass(frozen=True, kw_only=True)
class TextExperiment(Experiment):
    """An experiment that measures texts one by one. Each text has its own prompt."""

    measured: Callable[[ModelPair, Text], Row]
    summary: Callable[[Mapping[str, Sequence[Row]]], Row]  # computes the results from the rows of each pair
    texts: Mapping[str, int] = field(default_factory=lambda: {STORIES: 40, SMOLLM2: 8})  # per pair
    options: Mapping[str, Row] = field(default_factory=lambda: _OPTIONS)

    def sweep(self, options: Any) -> Sweep:
        """The sweep over the texts of all installed pairs. Each text is decoded, then measured."""
        lengths = {STORIES: 12} if options.smoke else LENGTHS
        cells = [
            {"pair": name, "text": number}
            for name in lengths
            if options.pair in (None, name) and (name == STORIES or smollm2.installed())
            for number in range(2 if options.smoke else self.texts[name])
        ]

        def measure(cells: Sequence[Row]) -> Iterator[Row]:
            for (name,), some in grouped(cells, "pair").items():
                pair = load_pair(name, dtype="float32")
                for cell in some:
                    yield cell | self.measured(pair, written(pair, cell["text"], lengths[name]))

        facts: Row = {"settings": {"max_new_tokens": lengths}, "pair": {}}
        return Sweep(facts | {"machine": machine(torch.device("cpu"))}, lambda _rows: cells, measure)

    def summarize(self, header: Row, rows: Sequence[Row]) -> Row:
        """The settings, the machine, and the results of the experiment's `summary`."""
        by_pair = grouped(rows, "pair")
        own = self.summary({name: by_pair[name,] for name in LENGTHS if (name,) in by_pair})
        return {"settings": header["settings"], "machine": header["machine"]} | own


def written(pair: ModelPair, number: int, length: int) -> Text:
    """Decodes the text that continues one of the project's story openings.

    A chat model is asked for a story that begins with the opening.
    """
    opening = read_prompts(PROMPTS)[number]
    prompt = pair.chat_prompt(f"Tell me a story that begins: {opening}") if pair.chats else opening
    g = generate(pair, prompt, method="ar", max_new_tokens=length, seed=derived_seed(0x74657874, number))
    return Text(number, [*g.prompt_ids, *g.token_ids], len(g.prompt_ids), g.seed)


def spread_positions(length: int, count: int) -> list[int]:
    """`count` positions of a text at equal distances, without the first and the last position."""
    return np.linspace(0, length - 1, count + 2).astype(int)[1:-1].tolist()


def distributions(pair: ModelPair, text: Text, sampling: Sampling | None = None) -> list[Tensor]:
    """P and Q at each token of a text: two tensors [tokens, vocabulary], float64.

    sampling: None stands for temperature 1 without top-k and top-p.
    """
    arguments, models = (text.ids, text.start, pair, sampling or Sampling()), (pair.target, pair.drafting)
    return [scored(model, *arguments).double().exp() for model in models]


def own_ranks(pair: ModelPair, text: Text, p: Tensor, q: Tensor) -> list[int]:
    """For each token, its place in the order of arrival under Q, in the race with which it was decoded.

    The place is the index of the child that ERSD accepts. If a token has probability 0 under Q, its place is
    the size of the vocabulary. The places determine ERSD's rounds on every tree.
    """
    races = log_exponentials(text.seed, range(text.start, len(text.ids)), pair.vocab_size)
    return [int(ersd_accepted_indices(*each)) for each in zip(p, q, races[:, None])]


def rounds_on(topology: Topology, ranks: Sequence[int]) -> Iterator[tuple[Path, int | None]]:
    """Yields the end of each ERSD round on a tree: the last accepted node's path and the next token's rank.

    ranks: of all tokens, from `own_ranks`. The last rank is None if the text ends with an accepted token.
    """
    row, paths = 0, ((), *topology.paths)
    for rank in ranks:
        children = topology.children[row]
        if rank >= len(children):
            yield paths[row], rank
        row = children[rank] if rank < len(children) else 0
    if row:
        yield paths[row], None


def quotient(runs: Iterable[Row], above: str, below: str = "tokens") -> dict[str, Any]:
    """The sum of `above` divided by the sum of `below` over texts, with a 95% interval."""
    return estimates.quotient(runs, above, below, "text").to_json()
