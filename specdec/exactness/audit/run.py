"""Runs an audit: it compares an engine's texts with the distribution of the engine's model."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, astuple
from typing import TYPE_CHECKING, Any

import numpy as np

from specdec.checks import integers, real, whole
from specdec.exactness.audit import evidence
from specdec.exactness.audit.distribution import NO_TOKEN, OTHER, Outcome, TargetDistribution
from specdec.exactness.audit.report import Deviation, Report, Trial
from specdec.exactness.losslessness import LEAST_EXPECTED
from specdec.probs import Sampling

if TYPE_CHECKING:
    from specdec.pair import ModelPair

Sample = Callable[[Sequence[int], int, int, float, int, float], Sequence[int] | str]
"""An engine, as a function: sample(prompt_ids, seed, max_new_tokens, temperature, top_k, top_p) returns new
token ids, or their text."""
Answer = tuple[int, ...] | str
"""The result of a `Sample`: token ids or a text."""


class Counting:
    """A `Sample` with a counter `calls` of the target's forward passes, which `sample` increases."""

    def __init__(self, sample: Sample):
        self.sample, self.calls = sample, 0

    def __call__(self, *arguments: Any) -> Sequence[int] | str:
        """Ask the engine for one text."""
        return self.sample(*arguments)


def named(sampling: Sequence[float]) -> dict[str, Any]:
    """Temperature, top-k and top-p, as a call of a `Sample` gets them, by the names of the arguments."""
    return dict(zip(("temperature", "top_k", "top_p"), sampling, strict=True))


SECOND_RUN = 1 << 30
"""This number is added to the seeds of the second run. The seeds of both runs fit into 31 bits."""
REPEATED = 10
_SHOWN = 12
_TESTS = 6


def audit(
    sample: Sample,
    pair: ModelPair,
    prompt: str | Sequence[int],
    *,
    engine: str = "engine",
    decodes: int = 2000,
    length: int = 2,
    max_new_tokens: int = 6,
    temperature: float = 1.0,
    top_k: int = 4,
    top_p: float = 1.0,
    seed: int = 0,
    false_alarm: float = 1e-6,
    track: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Report:
    """Decode with seeds `seed`, `seed` + 1, ... and compare the texts with the distribution of `pair.target`.

    length: the number of first tokens whose joint distribution is tested outcome by outcome. max_new_tokens:
    tokens of a decode; all are tested one by one and in pairs. An engine that returns text is asked for only
    `length` tokens. If a sample is shorter, the text ends there, with or without the token that ends it.
    false_alarm: the probability that any test doubts a correct engine, as far as χ² is exact (see
    `losslessness.chi_square`). If the first run finds something, a second run with other seeds follows.
    track: wraps the seeds of a run, to show progress. A ValueError names a bad argument or a bad sample. An
    exception of the engine gets a note with the seed.
    """
    sampling = Sampling(temperature, top_k, top_p)
    level = real(false_alarm)
    if level is None or not 0 < level < 1:
        raise ValueError(f"false_alarm = {false_alarm!r} is not a number between 0 and 1")
    start, prompt_ids = time.perf_counter(), pair.encode(prompt)
    decodes, length = whole("decodes", decodes, 100), whole("length", length, 1)
    most = max(whole("max_new_tokens", max_new_tokens, 1), length)
    first_seed = whole("seed", seed, 0, SECOND_RUN - decodes)
    _check_room(pair, len(prompt_ids), most)
    plan = _Plan(sample, TargetDistribution(pair, prompt_ids, sampling), decodes, length, most, level)
    trials = [plan.trial(first_seed, track)]
    if trials[0].below(plan.level):
        trials.append(plan.trial(first_seed + SECOND_RUN, track))
    return Report(
        engine=engine,
        versions={},
        prompt=prompt if isinstance(prompt, str) else str(list(prompt)),
        arguments=asdict(sampling),
        length=length,
        false_alarm=level,
        level=plan.level,
        trials=tuple(trials),
        reproduced=(plan.reproduced(first_seed), REPEATED),
        seconds=time.perf_counter() - start,
        model=pair.target.name,
        date=time.strftime("%Y-%m-%d"),
        tokens_per_call=_tokens_per_call(sample, pair, prompt_ids, sampling),
    )


def _tokens_per_call(
    sample: Sample, pair: ModelPair, prompt_ids: Sequence[int], sampling: Sampling
) -> float | None:
    """Measure the new tokens per target call, over `REPEATED` texts of up to 32 tokens.

    None if the engine does not count its calls.
    """
    first = getattr(sample, "calls", None)
    if first is None:
        return None
    length = min(32, pair.target.context_length - len(prompt_ids))
    texts = [sample(prompt_ids, seed, length, *astuple(sampling)) for seed in range(REPEATED)]
    calls = getattr(sample, "calls", 0) - first
    return sum(map(len, texts)) / calls if calls else None


def _check_room(pair: ModelPair, prompt_length: int, most: int) -> None:
    room = pair.target.context_length - prompt_length
    if most > room:
        raise ValueError(
            f"{most:,} new tokens are requested after a prompt of {prompt_length:,}; the target's context of "
            f"{pair.target.context_length:,} leaves room for {max(room, 0):,}"
        )


class _Plan:
    """The values that both runs of an audit share.

    in_texts: whether the engine returns texts and not token ids. joint: the distribution of the first tokens,
    or of their texts.
    """

    def __init__(
        self,
        sample: Sample,
        distribution: TargetDistribution,
        decodes: int,
        length: int,
        max_new_tokens: int,
        level: float,
    ):
        self.sample, self.distribution, self.decodes, self.length = sample, distribution, decodes, length
        self.most, self.level = length, level / _TESTS
        self.joint = distribution.joint(length, least=LEAST_EXPECTED / decodes)
        answers = map(self._answer, range(REPEATED))
        self.in_texts = isinstance(next(filter(None, answers), ()), str)  # an empty answer does not show this
        if self.in_texts:
            self.joint = distribution.by_text(self.joint)
        else:
            self.most = max_new_tokens

    def trial(self, first_seed: int, track: Callable[[Iterable[int]], Iterable[int]]) -> Trial:
        """One run with these seeds."""
        answers = [*map(self._decode, track(range(first_seed, first_seed + self.decodes)))]
        chance = np.random.default_rng(first_seed + self.decodes).random((self.decodes, self.most))
        outcomes, longer = Counter(map(self._outcome, answers)), 0
        results: list[evidence.Evidence | evidence.Duplicates] = [
            evidence.of_counts("first tokens", outcomes, self.joint, self.level)
        ]
        impossible = sum(number for outcome, number in outcomes.items() if outcome not in self.joint)
        texts = [each for each in answers if isinstance(each, str)]
        if texts:
            numbers = self._places_of_texts(texts, chance[:, 0])
            mass = [self.joint.get(self._outcome(text), 0.0) for text in texts]
        else:
            tokens = [each for each in answers if not isinstance(each, str)]
            placed = [*map(self._places, tokens, chance)]
            numbers = np.stack([numbers for numbers, _ in placed])  # [decodes, tokens]
            mass = [probability for _, probability in placed]
            answers = [self.distribution.judged(each, self.most) for each in tokens]
            impossible = int((numbers == 1).any(1).sum())
            longer = sum(len(each) > self.most for each in tokens)
            results.append(evidence.uniformity("every token", numbers, self.level))
            for first, name in enumerate(("a token and the next", "a token and the next, shifted")):
                pairs = evidence.neighbours(numbers, first)
                results.append(evidence.independence(name, pairs, self.level))
        results.append(
            evidence.independence("a seed and the next", evidence.consecutive(numbers), self.level)
        )
        results.append(evidence.duplicates("seeds with the same text", answers, mass, self.level))
        return Trial(first_seed, self.decodes, tuple(results), impossible, self._deviations(outcomes), longer)

    def reproduced(self, first_seed: int) -> int:
        """Decode twice with each of the first seeds, and count for how many both texts are equal."""
        seeds = range(first_seed, first_seed + REPEATED)
        return sum(self._decode(seed) == self._decode(seed) for seed in seeds)

    def _decode(self, seed: int) -> Answer:
        answer = self._answer(seed)
        if not answer:
            return "" if self.in_texts else ()
        if isinstance(answer, str) != self.in_texts:
            usual = "a text" if self.in_texts else "token ids"
            raise ValueError(f"sample() gave {answer!r:.60} with seed {seed}, but {usual} with other seeds")
        return answer

    def _answer(self, seed: int) -> Answer:
        prompt_ids, sampling = self.distribution.prompt_ids, astuple(self.distribution.sampling)
        try:
            answer = self.sample(prompt_ids, seed, self.most, *sampling)
            return answer if isinstance(answer, str) else tuple(integers("the result of sample()", answer))
        except Exception as error:
            error.add_note(f"with seed {seed}")
            raise

    def _outcome(self, answer: Answer) -> Outcome:
        outcome = answer if isinstance(answer, str) else self.distribution.ended(answer, self.length)
        return outcome if outcome in self.joint or not self.joint[OTHER] else OTHER

    def _places(self, answer: tuple[int, ...], chance: np.ndarray) -> tuple[np.ndarray, float]:
        """The places [tokens] of one decode's tokens, and the probability of its outcome.

        `evidence.places` says what a place is. After the end of a short text, places are filled from
        `chance`. Without this, the text's end would decide which pairs are tested, and that would bias the
        pairs.
        """
        token_ids = self.distribution.judged(answer, self.most)
        distribution = self.distribution.after(token_ids[:-1])  # [its tokens, vocabulary]
        numbers = evidence.places(distribution, np.array(token_ids), chance[: len(token_ids)])
        chances = [
            row[token] if token != NO_TOKEN else 0.0
            for row, token in zip(distribution, token_ids, strict=True)
        ]
        return np.concatenate([numbers, chance[len(token_ids) :]]), math.prod(chances)

    def _places_of_texts(self, texts: Sequence[str], chance: np.ndarray) -> np.ndarray:
        """The places [decodes, 1] of an engine's texts in the joint distribution of texts."""
        order = {outcome: i for i, outcome in enumerate(self.joint)}
        outcomes = np.array([order.get(self._outcome(text), -1) for text in texts])
        distribution = np.broadcast_to([*self.joint.values(), 0.0], (len(texts), len(order) + 1))
        return evidence.places(distribution, outcomes % distribution.shape[1], chance)[:, None]

    def _deviations(self, outcomes: Counter[Outcome]) -> tuple[Deviation, ...]:
        """The outcomes whose counts are furthest from their expectation, measured in standard deviations."""

        def away(outcome: Outcome) -> float:
            mass = self.joint.get(outcome, 0.0)
            expected = mass * self.decodes
            return abs(outcomes[outcome] - expected) / math.sqrt(max(expected * (1 - mass), 1e-9))

        furthest = sorted({*self.joint, *outcomes}, key=away, reverse=True)[:_SHOWN]
        return tuple(
            Deviation(self._text_of(outcome), self.joint.get(outcome, 0.0), outcomes[outcome], self.decodes)
            for outcome in furthest
        )

    def _text_of(self, outcome: Outcome) -> str:
        if isinstance(outcome, str):
            return outcome
        has_text = self.distribution.pair.tokenizer is not None and NO_TOKEN not in self.distribution.judged(
            outcome, len(outcome)
        )
        text = self.distribution.text_of(outcome) if has_text else ""
        return f"{text} {list(outcome)}".strip()
