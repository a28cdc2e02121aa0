"""The base of the experiments that measure one text after another, of both pairs that the project has."""

from __future__ import annotations

import pathlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from research.experiments.settings import read_prompts
from research.experiments.store import Record, Store
from specdec import smollm2
from specdec.commands import Parser, to_write, write_json
from specdec.decoding.run import generate
from specdec.devices import machine
from specdec.learn import scored
from specdec.loading import load_pair
from specdec.pair import ModelPair
from specdec.probs import Sampling
from specdec.race import derived_seed, log_exponentials
from specdec.shipped import PROMPTS, SMOLLM2, STORIES
from specdec.stats import ratio
from specdec.topology import Path, Topology

Measure = Callable[["Text"], Record]
"""Measures one text: a line of the results file."""


class Text(NamedTuple):
    """One text of the target at temperature 1, decoded without drafts.

    ids: token ids of the prompt and the text. start: the index where the text begins. seed: of its races.
    """

    number: int
    ids: list[int]
    start: int
    seed: int


class TextExperiment(ABC):
    """An experiment that measures one text after another.

    Its command is `python -m research.experiments.NAME`. about: one sentence for `--help`.
    texts, lengths: the number of texts of each pair, and the most tokens of one. Each text has another
    prompt, and intervals are over prompts.
    """

    name: str
    about: str
    texts: Mapping[str, int] = {STORIES: 40, SMOLLM2: 8}
    lengths: Mapping[str, int] = {STORIES: 140, SMOLLM2: 60}

    @abstractmethod
    def measuring(self, pair: ModelPair) -> Measure:
        """A function that measures texts of this pair."""

    @abstractmethod
    def summarize(self, runs: Mapping[str, Sequence[Record]]) -> Record:
        """The results as plain data, from the lines of each pair."""

    @abstractmethod
    def as_text(self, summary: Record) -> str:
        """The summary as a table for a terminal."""

    def command(self, arguments: Sequence[str] | None = None) -> None:
        """Measures the pairs that are installed, then prints the summary and writes it."""
        parser = Parser(prog=f"python -m research.experiments.{self.name}", description=self.about)
        add, results = parser.add_argument, pathlib.Path(f"{self.name}.jsonl")
        add("--results", type=pathlib.Path, default=results, help="JSON lines, to which texts are appended")
        add("--summary", type=to_write, help="the file for the summary")
        add("--pair", choices=[STORIES, SMOLLM2], help="measure only this pair")
        add("--smoke", action="store_true", help="run every stage in seconds; the numbers mean nothing")
        options = parser.parse_args(arguments)
        torch.set_num_threads(1)
        store, lengths = Store(options.results), {STORIES: 12} if options.smoke else dict(self.lengths)
        settings = {"max_new_tokens": lengths}
        store.begin({"settings": settings, "pair": {}, "machine": machine(torch.device("cpu"))})
        installed = [name for name in lengths if name == STORIES or smollm2.installed()]
        for name in installed:
            if options.pair in (None, name):
                self.measure(name, 2 if options.smoke else self.texts[name], lengths[name], store)
        header, runs = store.read()
        by_pair = {name: [run for run in runs if run["pair"] == name] for name in lengths}
        summary = self.summarize({name: some for name, some in by_pair.items() if some})
        summary = {"settings": settings, "machine": header and header["machine"]} | summary
        print(self.as_text(summary))
        if options.summary:
            write_json(options.summary, summary)

    def measure(self, name: str, texts: int, length: int, store: Store) -> None:
        """Measures the texts of one pair that the results file lacks."""
        done = {(run["pair"], run["text"]) for run in store.read()[1]}
        missing = [number for number in range(texts) if (name, number) not in done]
        if not missing:
            return
        pair = load_pair(name, dtype="float32")
        measured = self.measuring(pair)
        for number in tqdm(missing, unit=f"text of {name}", mininterval=1):
            store.append({"pair": name, "text": number} | measured(written(pair, number, length)))


def written(pair: ModelPair, number: int, length: int) -> Text:
    """The text after one of the shipped story openings; a chat model is asked to go on with it."""
    opening = read_prompts(PROMPTS)[number]
    prompt = pair.chat_prompt(f"Tell me a story that begins: {opening}") if pair.chats else opening
    g = generate(pair, prompt, method="ar", max_new_tokens=length, seed=derived_seed(0x74657874, number))
    return Text(number, [*g.prompt_ids, *g.token_ids], len(g.prompt_ids), g.seed)


def spread_positions(length: int, count: int) -> list[int]:
    """This many positions of a text, at equal distances, neither its first nor its last."""
    return np.linspace(0, length - 1, count + 2).astype(int)[1:-1].tolist()


def distributions(pair: ModelPair, text: Text) -> tuple[Tensor, Tensor]:
    """log P and log Q [tokens, vocabulary] of a text's tokens, float64."""
    log_p, log_q = (
        scored(model, text.ids, text.start, pair, Sampling()).double()
        for model in (pair.target, pair.drafting)
    )
    return log_p, log_q


def ranks(log_p: Tensor, log_q: Tensor, log_e: Tensor) -> Tensor:
    """The index under Q of each race's winner under P, int64 [tokens, races]: the child that ERSD accepts.

    log_e: log-exponentials [tokens, races, vocabulary].
    """
    winners = (log_e - log_p[:, None]).argmin(-1, keepdim=True)
    times = log_e - log_q[:, None]
    return (times < times.gather(-1, winners)).sum(-1)


def own_ranks(pair: ModelPair, text: Text, log_p: Tensor, log_q: Tensor) -> list[int]:
    """`ranks` in the races that wrote the text. They determine ERSD's rounds on every tree (`rounds_on`)."""
    races = log_exponentials(text.seed, range(text.start, len(text.ids)), pair.vocab_size)
    return ranks(log_p, log_q, races[:, None])[:, 0].tolist()


def rounds_on(topology: Topology, ranks: Sequence[int]) -> Iterator[tuple[Path, int | None]]:
    """The end of each of ERSD's rounds on a tree: the last accepted node, and the next token's index.

    The index is None where the text ends with an accepted token.
    """
    position = 0
    while position < len(ranks):
        row = 0
        while position < len(ranks) and ranks[position] < len(topology.children[row]):
            row, position = topology.children[row][ranks[position]], position + 1
        yield ((), *topology.paths)[row], ranks[position] if position < len(ranks) else None
        position += 1


def quotient(runs: Iterable[Record], above: str, below: str = "tokens") -> dict[str, Any] | None:
    """Σ above / Σ below over texts, with a 95% interval; None if the denominators sum to 0."""
    estimate = ratio({run["text"]: (run[above], run[below]) for run in runs})
    return None if estimate is None else estimate.to_json()
