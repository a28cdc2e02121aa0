"""Logits processors of transformers, applied at every node of a tree.

A processor changes the logits after a text. At a node, this text is the text so far, followed by the tokens
from the root to the node. `ProcessedModel` replaces a model of a pair, and its sessions return processed
logits. Draft and target therefore race with the distributions from which transformers would sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessorList
from transformers.generation import logits_process as known

from specdec.ecosystem.arguments import Prompt
from specdec.ecosystem.memory import Process, Watched, isolated
from specdec.models import Model, Session
from specdec.probs import Sampling

_WITH_MEMORY = {
    known.UnbatchedClassifierFreeGuidanceLogitsProcessor: "guidance_scale",
    known.SynthIDTextWatermarkLogitsProcessor: "watermarking_config",
}
"""Processors whose results depend on earlier calls, each with the argument of `generate` that adds it."""
_BY_INDEX = (
    known.PrefixConstrainedLogitsProcessor,
    known.EncoderRepetitionPenaltyLogitsProcessor,
    known.EncoderNoRepeatNGramLogitsProcessor,
)
"""Processors of transformers whose result for a prompt depends on the prompt's row in the batch."""
NATIVE = (
    known.TemperatureLogitsWarper,
    known.TopKLogitsWarper,
    known.TopPLogitsWarper,
    known.LogitNormalization,
)
"""The processors that `Sampling` replaces, in the order in which it applies them. `LogitNormalization` does
not change the distribution."""


def native_sampling(processors: LogitsProcessorList, do_sample: bool) -> Sampling | None:
    """The `Sampling` that gives the same distribution as these processors; None if no `Sampling` does."""
    if not do_sample:
        return (
            Sampling(temperature=0) if all(type(p) is known.LogitNormalization for p in processors) else None
        )
    kinds = [type(each) for each in processors]
    if kinds != [kind for kind in NATIVE if kind in kinds] or any(map(_filters_otherwise, processors)):
        return None
    settings: dict[str, Any] = {}
    for each in processors:
        for name in ("temperature", "top_k", "top_p"):
            if hasattr(each, name):
                settings[name] = getattr(each, name)
    try:
        return Sampling(**settings)
    except ValueError:  # the value is valid for transformers, but not for `Sampling`, for example top_p = 0
        return None


def _filters_otherwise(warper: Any) -> bool:
    """Whether a warper keeps a minimum number of tokens, or gives removed tokens a score other than -inf."""
    keeps_some = isinstance(warper, known.TopPLogitsWarper) and warper.min_tokens_to_keep > 1
    return keeps_some or getattr(warper, "filter_value", -math.inf) != -math.inf


def check_processors(processors: LogitsProcessorList) -> None:
    """ValueError if a processor of transformers depends on earlier calls. The module `memory` checks the
    user's own processors."""
    for each in processors:
        if type(each) in _WITH_MEMORY:
            raise ValueError(
                f"{_WITH_MEMORY[type(each)]} is not supported: the results of {type(each).__name__} depend "
                "on earlier calls, and speculative decoding also calls it on texts that are rejected"
            )


def _is_known(processor: Any) -> bool:
    """Whether a processor is one of transformers' own, and calls no function that the user wrote."""
    calls = isinstance(processor, known.PrefixConstrainedLogitsProcessor)
    return type(processor).__module__ == known.__name__ and not calls


def processes_of_rows(processors: LogitsProcessorList, prompts: Sequence[Prompt]) -> list[Process]:
    """For each row of the batch, a function that applies all processors as if the row were alone. The
    processors also get the row's padding, as in transformers."""
    rows = len(prompts)
    plain = [_process_of_row(processors, row, rows, each.padding) for row, each in enumerate(prompts)]
    if all(map(_is_known, processors)):
        return plain
    names = ", ".join(type(each).__name__ for each in processors if not _is_known(each))
    return [Watched(_copies_of_row(processors, row, prompts), plain[row], names) for row in range(rows)]


def _copies_of_row(processors: LogitsProcessorList, row: int, prompts: Sequence[Prompt]) -> Process:
    copies = LogitsProcessorList(each if _is_known(each) else isolated(each) for each in processors)
    return _process_of_row(copies, row, len(prompts), prompts[row].padding)


def _process_of_row(processors: LogitsProcessorList, row: int, rows: int, padding: Sequence[int]) -> Process:
    own = [_of_row(each, row) for each in processors]

    def process(text: Sequence[int], logits: Tensor) -> Tensor:
        ids: Any = torch.tensor([[*padding, *text]], device=logits.device)  # [1, n]
        scores: Any = logits.to(torch.float32, copy=True)[None]  # [1, vocabulary]
        for each in own:
            # processors that are not transformers' own may also depend on the index of the row
            if type(each) in _BY_INDEX or type(each).__module__ != known.__name__:
                scores = each(ids.repeat(rows, 1), scores.repeat(rows, 1))[row : row + 1]
            else:
                scores = each(ids, scores)
        return scores[0]

    return process


def _of_row(processor: Any, row: int) -> Any:
    ignored = getattr(processor, "prompt_ignore_length", None)
    if type(processor) is known.RepetitionPenaltyLogitsProcessor and isinstance(ignored, Tensor):
        return known.RepetitionPenaltyLogitsProcessor(processor.penalty, ignored[row : row + 1])
    return processor


class ProcessedModel:
    """A model whose logits are processed before they are used for drafting or verification.

    process: processes the logits; None leaves them unchanged. eos_ids: tokens that end a text, unless they
    are among the first prompt_length tokens. Texts that continue after such a token are never used, so
    processors are not called on them. scored: None, or a list to which the raw logits [vocabulary] of each
    decided token are added. watched: for the target only; compares the processed logits of committed texts
    with those of plain decoding before the round's tokens are returned.
    """

    def __init__(
        self,
        model: Model,
        process: Process | None,
        eos_ids: frozenset[int],
        prompt_length: int,
        scored: list[Tensor] | None = None,
        watched: Watched | None = None,
    ):
        self.model, self.process, self.scored, self.watched = model, process, scored, watched
        self.eos_ids, self.prompt_length = eos_ids, prompt_length
        self.name, self.vocab_size, self.device = model.name, model.vocab_size, model.device
        self.context_length, self.capability = model.context_length, model.capability
        self.most_repeated = model.most_repeated

    @property
    def arithmetic(self) -> str:
        """How the model computes logits. Processing is not part of it."""
        return getattr(self.model, "arithmetic", "")

    def session(self) -> Session:
        """A new session with an empty cache; its forward passes return processed logits."""
        return _ProcessedSession(self)


class _ProcessedSession:
    """A session of a `ProcessedModel`. It stores the text and each node's path, which processors need."""

    def __init__(self, model: ProcessedModel):
        self._model, self._session = model, model.model.session()
        self._text: list[int] = []
        self._paths: list[tuple[int, ...]] = []  # tokens from the end of the text to each pending node
        self._raw: list[Tensor] = []
        self._answers: list[Tensor] = []

    @property
    def length(self) -> int:
        """The number of committed tokens."""
        return self._session.length

    @property
    def must_catch_up(self) -> bool:
        """Whether the next round should draft nothing; see `Session.must_catch_up`."""
        return self._session.must_catch_up

    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed text."""
        self._session.prefill(token_ids)
        self._text += token_ids

    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes; return the processed logits [n, vocabulary], one row for each node."""
        logits = self._session.forward(token_ids, parents)
        first = len(self._paths)
        for token_id, parent in zip(token_ids.tolist(), parents, strict=True):
            above = () if parent < 0 else self._paths[parent]
            self._paths.append((*above, token_id))
        if self._model.scored is not None or self._model.watched is not None:
            self._raw += logits.unbind()
        process = self._model.process
        if process is None:
            return logits
        new = zip(self._paths[first:], logits, strict=True)
        answers = [self._processed(process, path, row) for path, row in new]
        self._answers += answers
        return torch.stack(answers)

    def commit(self, nodes: Sequence[int]) -> None:
        """Commits these pending nodes and drops all others."""
        self._session.commit(nodes)
        if self._model.scored is not None:
            self._model.scored += [self._raw[node].clone() for node in nodes]
        if self._model.watched is not None:
            self._check(self._model.watched, nodes)
        if nodes:
            self._text += self._paths[nodes[-1]]
        self._paths, self._raw, self._answers = [], [], []

    def _check(self, watched: Watched, nodes: Sequence[int]) -> None:
        """ValueError if processed logits at a committed node differ from those of plain decoding."""
        active = [node for node in nodes if not self._has_ended(self._paths[node])]
        for node in active:
            watched.check([*self._text, *self._paths[node]], self._raw[node], self._answers[node])
        if active:
            root = active[0]
            watched.check_again([*self._text, *self._paths[root]], self._raw[root], self._answers[root])

    def _processed(self, process: Process, path: tuple[int, ...], logits: Tensor) -> Tensor:
        if self._has_ended(path):
            return logits.to(torch.float32)
        return process([*self._text, *path], logits)

    def _has_ended(self, path: tuple[int, ...]) -> bool:
        of_prompt = max(0, self._model.prompt_length - len(self._text))  # number of prompt tokens on the path
        return bool(self._model.eos_ids.intersection(path[of_prompt:]))
