"""The exact distribution of the next tokens, from the target's own logits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from specdec.probs import Sampling, log_probs
from specdec.text import TextStream

if TYPE_CHECKING:
    from specdec.pair import ModelPair

Outcome = tuple[int, ...] | str
OTHER: Outcome = "other"
"""The key for the sum of all outcomes that are too rare to be listed."""
_MOST_KNOWN = 1 << 24
"""The cache of computed distributions holds at most this many numbers. It saves time, because short texts
occur again and again."""
NO_TOKEN = -1
"""This id replaces an id that is no token. It also stands for the end of a text if the model has no end
token."""


class TargetDistribution:
    """The distribution of the texts of a pair's target after one prompt, with given sampling settings.

    end: the id that stands for all tokens that end a text. An engine may not tell which of them it sampled.
    """

    def __init__(self, pair: ModelPair, prompt_ids: Sequence[int], sampling: Sampling):
        self.pair, self.prompt_ids, self.sampling = pair, tuple(prompt_ids), sampling
        self._ends = sorted(token_id for token_id in pair.eos_ids if token_id < pair.vocab_size)
        self.end = min(self._ends, default=NO_TOKEN)
        self._session = pair.target.session()
        self._table: dict[tuple[int, ...], np.ndarray] = {}
        if len(self.prompt_ids) > 1:
            self._session.prefill(self.prompt_ids[:-1])

    def after(self, token_ids: Sequence[int]) -> np.ndarray:
        """Next-token probabilities [1 + n, vocabulary] after the prompt and after each of these n tokens."""
        key = tuple(token_ids)
        if key not in self._table:
            rows = self._computed(key)
            if len(self._table) * rows.size > _MOST_KNOWN:
                self._table.clear()
            self._table[key] = rows
        return self._table[key].copy()

    @torch.inference_mode()
    def _computed(self, token_ids: tuple[int, ...]) -> np.ndarray:
        tokens = torch.tensor([self.prompt_ids[-1], *token_ids], device=self.pair.target.device)
        logits = self._session.forward(tokens, range(-1, len(token_ids)))
        self._session.commit(())
        distribution = log_probs(logits.double(), self.sampling, self.pair.vocab_size).exp().cpu().numpy()
        if len(self._ends) > 1:
            distribution[:, self.end] = distribution[:, self._ends].sum(1)
            distribution[:, self._ends[1:]] = 0
        return distribution

    def joint(self, length: int, least: float) -> dict[Outcome, float]:
        """Probabilities of the next `length` tokens, or of fewer if the text ends; the end token is left out.

        The probabilities of outcomes below `least` are summed under `OTHER`.
        """
        distribution: dict[Outcome, float] = defaultdict(float, {OTHER: 0.0})
        prefixes: dict[tuple[int, ...], float] = {(): 1.0}
        for _ in range(length):
            longer: dict[tuple[int, ...], float] = {}
            for outcome, mass in prefixes.items():
                row = mass * self.after(outcome)[-1]  # [vocabulary]
                distribution[OTHER] += float(row[row < least].sum())
                for token_id in np.flatnonzero(row >= least).tolist():
                    if token_id in self.pair.eos_ids:
                        distribution[outcome] += row[token_id]
                    else:
                        longer[*outcome, token_id] = float(row[token_id])
            prefixes = longer
        return dict(distribution) | prefixes

    def text_of(self, outcome: Sequence[int]) -> str:
        """The text that these tokens add to the prompt."""
        stream = TextStream(self.pair.tokenizer, self.prompt_ids)
        return "".join(map(stream.push, outcome)) + stream.flush()

    def by_text(self, distribution: dict[Outcome, float]) -> dict[Outcome, float]:
        """The joint distribution with texts as outcomes. Token sequences that write the same text are one
        outcome."""
        texts: dict[Outcome, float] = defaultdict(float)
        for outcome, mass in distribution.items():
            texts[outcome if isinstance(outcome, str) else self.text_of(outcome)] += mass
        return dict(texts)

    def ended(self, token_ids: Sequence[int], length: int) -> tuple[int, ...]:
        """The outcome of a decode: its first tokens, at most `length`, before the end of the text."""
        first = token_ids[:length]
        ends = (i for i, token_id in enumerate(first) if token_id in self.pair.eos_ids)
        return tuple(first[: next(ends, len(first))])

    def judged(self, token_ids: Sequence[int], length: int) -> tuple[int, ...]:
        """The tokens of a decode that are tested, at most `length`.

        If the text ends earlier, `end` follows it. `NO_TOKEN` replaces the first id that is no token, and
        nothing follows it.
        """
        text = self.ended(token_ids, length)
        for i, token_id in enumerate(text):
            if not 0 <= token_id < self.pair.vocab_size:
                return *text[:i], NO_TOKEN
        return text if len(text) == length else (*text, self.end)
