"""Logits processors of transformers at every node of a tree.

What a processor depends on is the text before a token. A node of a tree has one: the text so far and the
tokens from the root to it. So `ProcessedModel` stands for a model in a pair, and its sessions hand on logits
as the processors leave them: draft and target are raced by the laws that transformers would sample from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessorList
from transformers.generation import logits_process as known

from specdec.ecosystem.arguments import Prompt
from specdec.models import Model, Session
from specdec.probs import Sampling

_WITH_MEMORY = {
    known.UnbatchedClassifierFreeGuidanceLogitsProcessor: "guidance_scale",
    known.SynthIDTextWatermarkLogitsProcessor: "watermarking_config",
}
"""Processors that remember what they saw, and so would have to see a text token by token; their arguments."""
_BY_INDEX = (
    known.PrefixConstrainedLogitsProcessor,
    known.EncoderRepetitionPenaltyLogitsProcessor,
    known.EncoderNoRepeatNGramLogitsProcessor,
)
"""Processors of transformers that treat a row by its place in the batch."""
NATIVE = (
    known.TemperatureLogitsWarper,
    known.TopKLogitsWarper,
    known.TopPLogitsWarper,
    known.LogitNormalization,
)
"""What `Sampling` does itself, in its order; the last one changes no law."""

Process = Callable[[Sequence[int], Tensor], Tensor]
"""What to make of the logits [vocabulary] after a text: float32 [vocabulary]."""


def native_sampling(processors: LogitsProcessorList, do_sample: bool) -> Sampling | None:
    """The sampling that has the law of these processors; None where they do more than it knows."""
    if not do_sample:
        return (
            Sampling(temperature=0) if all(type(p) is known.LogitNormalization for p in processors) else None
        )
    kinds = [type(each) for each in processors]
    if kinds != [kind for kind in NATIVE if kind in kinds]:
        return None
    found: dict[str, Any] = {}
    for each in processors:
        for name in ("temperature", "top_k", "top_p"):
            if hasattr(each, name):
                found[name] = getattr(each, name)
    try:
        return Sampling(**found)
    except ValueError:  # out of its range, as top_p = 0 is, but not out of transformers'
        return None


def check_processors(processors: LogitsProcessorList, input_ids: Tensor, width: int) -> None:
    """ValueError where one of them is known to remember what it saw, or shows that it does.

    input_ids: the prompts [rows, n]. width: tokens that the target scores.
    """
    for each in processors:
        if type(each) in _WITH_MEMORY:
            raise ValueError(
                f"{_WITH_MEMORY[type(each)]} is not supported: {type(each).__name__} remembers what it saw, "
                "and speculative decoding asks it about texts that are not continued"
            )
        if type(each).__module__ != known.__name__:
            _check_repeats(each, input_ids, width)


def _check_repeats(processor: Any, input_ids: Tensor, width: int) -> None:
    """Ask it about the prompts, about a continuation, and about the prompts again."""

    def asked(ids: Tensor) -> Tensor:
        return processor(ids, torch.zeros(len(ids), width, device=ids.device))

    before = asked(input_ids)
    asked(torch.cat([input_ids, before.argmax(-1, keepdim=True)], 1))
    if not torch.equal(before.nan_to_num(), asked(input_ids).nan_to_num()):
        raise ValueError(
            f"logits_processor {type(processor).__name__} gives other scores for the same text when it is "
            "asked again: only processors that depend on the text alone are supported"
        )


def processes_of_rows(processors: LogitsProcessorList, prompts: Sequence[Prompt]) -> list[Process]:
    """The processors for each row, as if it were alone; they see its padding, as in transformers."""
    return [
        _process_of_row(processors, row, len(prompts), prompt.padding) for row, prompt in enumerate(prompts)
    ]


def _process_of_row(processors: LogitsProcessorList, row: int, rows: int, padding: Sequence[int]) -> Process:
    own = LogitsProcessorList(_of_row(each, row) for each in processors)
    # others than transformers' own may look at their row's place, too
    places = [type(each) in _BY_INDEX or type(each).__module__ != known.__name__ for each in own]
    copies = rows if any(places) else 1

    def process(text: Sequence[int], logits: Tensor) -> Tensor:
        ids: Any = torch.tensor([[*padding, *text]], device=logits.device).repeat(copies, 1)  # [copies, n]
        scores = logits.to(torch.float32, copy=True).repeat(copies, 1)  # [copies, vocabulary]
        return own(ids, scores)[row if copies > 1 else 0]

    return process


def _of_row(processor: Any, row: int) -> Any:
    ignored = getattr(processor, "prompt_ignore_length", None)
    if type(processor) is known.RepetitionPenaltyLogitsProcessor and isinstance(ignored, Tensor):
        return known.RepetitionPenaltyLogitsProcessor(processor.penalty, ignored[row : row + 1])
    return processor


class ProcessedModel:
    """A model whose logits are processed before anything is drafted from or verified with them.

    process: None leaves them as they are. eos_ids: what comes after one of these is never used, and the
    processors are not asked about it. scored: where it is a list, the raw logits that decided each token of
    the text are added to it, [vocabulary] each.
    """

    def __init__(
        self,
        model: Model,
        process: Process | None,
        eos_ids: frozenset[int],
        scored: list[Tensor] | None = None,
    ):
        self.model, self.process, self.eos_ids, self.scored = model, process, eos_ids, scored
        self.name, self.vocab_size, self.device = model.name, model.vocab_size, model.device
        self.context_length, self.capability = model.context_length, model.capability

    @property
    def arithmetic(self) -> str:
        """How logits are computed, before they are processed."""
        return getattr(self.model, "arithmetic", "")

    def session(self) -> Session:
        """A new empty cache."""
        return _ProcessedSession(self)


class _ProcessedSession:
    """A session that knows the text before each of its nodes."""

    def __init__(self, model: ProcessedModel):
        self._model, self._session = model, model.model.session()
        self._text: list[int] = []
        self._paths: list[tuple[int, ...]] = []  # tokens from the end of the text to each pending node
        self._raw: list[Tensor] = []

    @property
    def length(self) -> int:
        """Committed tokens."""
        return self._session.length

    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the text."""
        self._session.prefill(token_ids)
        self._text += token_ids

    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Processed logits [n, vocabulary] after each of these new pending nodes."""
        logits = self._session.forward(token_ids, parents)
        first = len(self._paths)
        for token_id, parent in zip(token_ids.tolist(), parents, strict=True):
            above = () if parent < 0 else self._paths[parent]
            self._paths.append((*above, token_id))
        if self._model.scored is not None:
            self._raw += logits.unbind()
        process = self._model.process
        if process is None:
            return logits
        new = zip(self._paths[first:], logits, strict=True)
        return torch.stack([self._processed(process, path, row) for path, row in new])

    def keep(self, nodes: Sequence[int]) -> None:
        """Commit these pending nodes, and drop all others."""
        self._session.keep(nodes)
        if self._model.scored is not None:
            self._model.scored += [self._raw[node].clone() for node in nodes]
        if nodes:
            self._text += self._paths[nodes[-1]]
        self._paths, self._raw = [], []

    def _processed(self, process: Process, path: tuple[int, ...], logits: Tensor) -> Tensor:
        if self._model.eos_ids.intersection(path):
            return logits.to(torch.float32)
        return process([*self._text, *path], logits)
