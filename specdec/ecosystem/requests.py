"""The runs for the rows of a batch. Each run may be some tokens ahead of those that `generate` has taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import copy

import torch
from torch import Tensor
from transformers import LogitsProcessorList

from specdec.context import ContextTree
from specdec.decoding.batch import Batch
from specdec.decoding.run import Run
from specdec.ecosystem.arguments import Prompt
from specdec.ecosystem.memory import Process, Watched
from specdec.ecosystem.processors import NATIVE, ProcessedModel, native_sampling, processes_of_rows
from specdec.pair import ModelPair
from specdec.probs import Sampling
from specdec.settings import RunSettings
from specdec.topology import Topology
from specdec.trace import Generation


class Rows:
    """One run for each row of a batch, and the tokens of each run that the caller has not taken yet.

    If a `Sampling` gives the same distribution as the processors, all rows share their forward passes. If
    not, each node's logits go through the processors of its row, and the rows are decoded one after another.
    """

    def __init__(
        self,
        pair: ModelPair,
        prompts: Sequence[Prompt],
        processors: LogitsProcessorList,
        settings: RunSettings,
        topology: Topology | ContextTree | str | None,
        seeds: Sequence[int],
        scored: bool,
    ):
        """settings: of all rows; their temperature is 0 unless tokens are sampled. seeds: one for each row.
        scored: whether the target's logits of all tokens are stored."""
        sampling = native_sampling(processors, settings.sampling.temperature > 0)
        self._scored: list[list[Tensor]] | None = [[] for _ in prompts] if scored else None
        self._count = 0
        self._ahead: list[deque[int]] = [deque() for _ in prompts]
        pairs = [pair] * len(prompts)
        if sampling is None or scored:
            processes = [None] * len(prompts) if sampling else processes_of_rows(processors, prompts)
            pairs = [
                self._pair_of_row(pair, row, process, len(prompt.text_ids))
                for row, (process, prompt) in enumerate(zip(processes, prompts, strict=True))
            ]
        tree = _topology(pair, prompts[0], processors, settings, topology)
        settings = settings._replace(sampling=sampling or settings.sampling)
        self._runs = [
            Run(own, prompt.text_ids, settings._replace(seed=seed), tree)
            for own, prompt, seed in zip(pairs, prompts, seeds, strict=True)
        ]
        self._batch = Batch(pair) if len(prompts) > 1 and pairs[0] is pair else None
        if self._batch is not None:
            for run in self._runs:
                self._batch.add(run)

    @property
    def generations(self) -> list[Generation]:
        """The records of decoding of all rows."""
        return [run.generation for run in self._runs]

    def next_tokens(self, active: Sequence[int]) -> list[int]:
        """The next token of each row marked in `active`. Other rows get 0, and their runs end."""
        for row, run in enumerate(self._runs):
            if not active[row]:
                self._end(run)
        while short := [row for row, ahead in enumerate(self._ahead) if active[row] and not ahead]:
            self._advance(short)
        self._count += 1
        return [ahead.popleft() if need else 0 for ahead, need in zip(self._ahead, active, strict=True)]

    def logits(self) -> Tensor:
        """The target's logits [rows, vocabulary] that decided the last tokens; 0 for rows that have ended."""
        assert self._scored is not None
        last = self._count - 1
        rows = [scored[last] if len(scored) > last else None for scored in self._scored]
        nothing = torch.zeros_like(next(logits for logits in rows if logits is not None))
        return torch.stack([nothing if logits is None else logits for logits in rows])

    def _advance(self, rows: Sequence[int]) -> None:
        """Decode one round of these rows. With shared forward passes, all other rows get a round too."""
        if self._batch is None:
            rounds = {id(self._runs[row]): next(self._runs[row]) for row in rows}
        else:
            rounds = {}
            for step in self._batch.step():
                if step.error is not None:
                    raise step.error
                if step.round is not None:
                    rounds[id(step.run)] = step.round
        for run, ahead in zip(self._runs, self._ahead, strict=True):
            if id(run) in rounds:
                ahead.extend(token.id for token in rounds[id(run)].tokens)

    def _end(self, run: Run) -> None:
        if self._batch is None:
            run.close()
        elif run in self._batch:
            self._batch.remove(run)

    def _pair_of_row(
        self, pair: ModelPair, row: int, process: Process | None, prompt_length: int
    ) -> ModelPair:
        """The pair for this row: its models' logits go through the row's processors."""
        processed = copy(pair)
        scored = None if self._scored is None else self._scored[row]
        watched = process if isinstance(process, Watched) else None
        processed.target = ProcessedModel(pair.target, process, pair.eos_ids, prompt_length, scored, watched)
        if pair.draft is not None and process is not None:
            processed.draft = ProcessedModel(pair.draft, process, pair.eos_ids, prompt_length)
        return processed


def _topology(
    pair: ModelPair,
    prompt: Prompt,
    processors: LogitsProcessorList,
    settings: RunSettings,
    topology: Topology | ContextTree | str | None,
) -> Topology | ContextTree:
    """The tree for all rows. For "auto", only processors that a `Sampling` can replace affect the choice."""
    native = LogitsProcessorList(each for each in processors if type(each) in NATIVE)
    nearest = native_sampling(native, settings.sampling.temperature > 0) or Sampling()
    return Run(pair, prompt.text_ids, settings._replace(sampling=nearest, seed=0), topology).topology
