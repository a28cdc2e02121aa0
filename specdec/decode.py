"""Speculative decoding: draft, evaluate, verify, one `Round` per target evaluation.

    for round in stream(pair, "Once upon a time", method="ersd", topology=sequence(4), seed=0):
        print(round.text, end="")

One round: the draft model grows a tree of continuations level by level (`Drafter`), the target scores the
root and all drafted nodes in one forward, verification walks down the tree, and both caches keep the
accepted path. Autoregressive decoding is the same round with an empty tree.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from specdec.auto import TRIAL_PROMPT, TRIAL_TOKENS, choose_topology, trial_topology
from specdec.detail import drafted_nodes, verified_steps
from specdec.draft import Drafted, Drafter
from specdec.pair import ModelPair
from specdec.probs import Sampling, log_probs
from specdec.race import Races, Stream, checked_seed, uniform
from specdec.text import TextStream
from specdec.topology import Topology, sequence
from specdec.trace import Generation, Method, Round, Seconds, Token
from specdec.verify import Verdict, verify_ersd, verify_gsd

METHODS: tuple[Method, ...] = ("ar", "gsd", "ersd")


def stream(
    pair: ModelPair,
    prompt: str | Sequence[int],
    *,
    method: Method = "ersd",
    topology: Topology | str | None = None,
    max_new_tokens: int = 64,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int | None = None,
    detail: bool = True,
) -> Run:
    """Decode round by round; yields one `Round` per target evaluation.

    prompt: text or token ids. method: `ar`, `gsd` or `ersd`. topology: a `Topology`, `"auto"` (measures
    and chooses the fastest for this pair and machine) or None for sequence(4); not read by `ar`.
    max_new_tokens: most tokens to generate; the context's end and an end-of-sequence token stop earlier.
    seed: keys all randomness; None draws one and records it. detail: also collect the probabilities of
    nodes and the races of every verified position, which costs time.

    ValueError, before anything is computed, names the argument that does not fit and what would.
    """
    settings = Settings(method, max_new_tokens, Sampling(temperature, top_k, top_p), seed, detail)
    return Run(pair, prompt, settings, topology)


def generate(
    pair: ModelPair,
    prompt: str | Sequence[int],
    *,
    method: Method = "ersd",
    topology: Topology | str | None = None,
    max_new_tokens: int = 64,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int | None = None,
    detail: bool = False,
) -> Generation:
    """Decode to the end; arguments and errors as in `stream`, detail off by default."""
    settings = Settings(method, max_new_tokens, Sampling(temperature, top_k, top_p), seed, detail)
    run = Run(pair, prompt, settings, topology)
    for _ in run:
        pass
    return run.generation


class Settings(NamedTuple):
    """What a run was asked for, the models and the topology aside."""

    method: Method
    max_new_tokens: int
    sampling: Sampling
    seed: int | None
    detail: bool


class Run(Iterator[Round]):
    """One decoding run: an iterator over its rounds, which also knows what it runs with.

    topology, seed: those in use. prompt_ids: the prompt's tokens. generation: the record of all rounds so
    far. `close()` frees the caches early; so does the end of the run.
    """

    def __init__(
        self,
        pair: ModelPair,
        prompt: str | Sequence[int],
        settings: Settings,
        topology: Topology | str | None,
    ):
        self.pair, self.settings = pair, _checked(settings)
        self.prompt = prompt if isinstance(prompt, str) else None
        self.prompt_ids = tuple(pair.encode(prompt))
        self.topology = _chosen_topology(pair, settings, topology, self.prompt_ids)
        _check_room(pair, settings, self.topology, len(self.prompt_ids))
        self.seed = secrets.randbits(53) if settings.seed is None else checked_seed(settings.seed)
        self.rounds: list[Round] = []
        self.prefill_seconds = 0.0
        self._iterator = self._decode()

    def __next__(self) -> Round:
        return next(self._iterator)

    def close(self) -> None:
        """End the run and free its caches; its record stays."""
        self._iterator.close()

    @property
    def generation(self) -> Generation:
        """The record of the run so far."""
        method, max_new_tokens, sampling, _, _ = self.settings
        text = self.prompt
        if text is None:
            text = "" if self.pair.tokenizer is None else self.pair.tokenizer.decode(list(self.prompt_ids))
        return Generation(
            method=method,
            paths=self.topology.paths,
            prompt=text,
            prompt_ids=self.prompt_ids,
            seed=self.seed,
            temperature=float(sampling.temperature),
            top_k=sampling.top_k,
            top_p=float(sampling.top_p),
            max_new_tokens=max_new_tokens,
            target=self.pair.target.name,
            draft="" if self.pair.draft is None else self.pair.draft.name,
            prefill_seconds=self.prefill_seconds,
            rounds=tuple(self.rounds),
        )

    def _decode(self) -> Iterator[Round]:
        engine = _Engine(self.pair, self.settings, self.topology, self.prompt_ids, self.seed)
        clock = _Clock(self.pair.target.device)
        engine.prefill()
        self.prefill_seconds = clock.lap()
        finish = None
        while finish is None:
            round = engine.round(len(self.rounds))
            self.rounds.append(round)
            finish = round.finish
            yield round


class _Engine:
    """The models' caches, the noise and the text of one run; `round()` advances all of them."""

    def __init__(
        self, pair: ModelPair, settings: Settings, topology: Topology, prompt_ids: Sequence[int], seed: int
    ):
        self.pair, self.settings, self.topology, self.seed = pair, settings, topology, seed
        self.text_ids = list(prompt_ids)
        self.stop_length = min(len(prompt_ids) + settings.max_new_tokens, pair.target.context_length)
        self.target = pair.target.session()
        self.drafter = None
        if topology.num_draft_tokens:
            self.drafter = Drafter(pair.draft, pair.vocab_size, settings.sampling)
        device = pair.target.device
        self.races = Races(seed, pair.vocab_size, device)
        self.residual_races = Races(seed, pair.vocab_size, device, Stream.RESIDUAL)
        self.texts = TextStream(pair.tokenizer, prompt_ids)
        # cutting a topology costs more than a round's other bookkeeping, and few depths occur
        self.limited = lru_cache(maxsize=None)(topology.limited)

    def prefill(self) -> None:
        """The prompt without its last token, which is the root of the first round."""
        for session in (self.target, self.drafter and self.drafter.session):
            if session is not None and len(self.text_ids) > 1:
                session.prefill(self.text_ids[:-1])

    @torch.inference_mode()
    def round(self, number: int) -> Round:
        """Draft, evaluate, verify; commit the accepted path and the last token."""
        clock = _Clock(self.pair.target.device)
        position = len(self.text_ids)
        topology = self.limited(self._room())
        log_e = self.races.log_exponentials(position, topology.depth + 1)
        drafted = Drafted(topology, [self.text_ids[-1]], [None])
        if topology.num_draft_tokens:
            drafted = self.drafter.draft(self.text_ids, topology, log_e)
        draft_seconds = clock.lap()
        log_p = self._evaluate(drafted)
        evaluate_seconds = clock.lap()
        verdict = self._until_eos(drafted, self._verify(drafted, log_p, log_e, position))
        self._commit(drafted, verdict)
        verify_seconds = clock.lap()
        finish = self._finish()
        tokens = self._tokens(drafted, verdict, finish is not None)
        detail = self.settings.detail
        round = Round(
            number=number,
            position=position,
            tokens=tokens,
            nodes=drafted_nodes(drafted, verdict, self.pair.token_texts, log_p if detail else None),
            steps=verified_steps(drafted, verdict, self.pair.token_texts, log_p, log_e, position)
            if detail
            else (),
            seconds=Seconds(),
            text="".join(token.text for token in tokens),
            finish=finish,
        )
        # the record's own making is part of the time that it states
        return replace(round, seconds=Seconds(draft_seconds, evaluate_seconds, verify_seconds, clock.lap()))

    def _room(self) -> int:
        """Deepest tree that fits: a round emits up to depth + 1 tokens, and the draft scores depth - 1."""
        length = len(self.text_ids)
        room = self.stop_length - length - 1
        if self.drafter is not None:
            room = min(room, self.pair.draft.context_length - length + 1)
        return max(room, 0)

    def _evaluate(self, drafted: Drafted) -> LazyLogProbs:
        tokens = torch.tensor(drafted.token_ids, device=self.pair.target.device)
        logits = self.target.forward(tokens, drafted.topology.parents)
        return LazyLogProbs(logits, self.settings.sampling, self.pair.vocab_size)

    def _verify(self, drafted: Drafted, log_p: LazyLogProbs, log_e: Tensor, position: int) -> Verdict:
        topology, token_ids, log_q = drafted
        if self.settings.method == "gsd":
            return verify_gsd(
                topology,
                token_ids,
                log_p,
                log_q,
                uniform=lambda depth, child_index: uniform(self.seed, position + depth, child_index),
                residual_log_e=lambda depth: self.residual_races.log_exponentials(position + depth)[0],
            )
        verdict = verify_ersd(topology, token_ids, log_p, log_e)
        return verdict if self.settings.method == "ersd" else verdict._replace(kind="sampled")

    def _until_eos(self, drafted: Drafted, verdict: Verdict) -> Verdict:
        """The verdict cut after an accepted end-of-sequence token."""
        for i, row in enumerate(verdict.rows):
            if drafted.token_ids[row] in self.pair.eos_ids:
                return verdict._replace(rows=verdict.rows[: i + 1], token_id=None)
        return verdict

    def _commit(self, drafted: Drafted, verdict: Verdict) -> None:
        self.target.keep((0, *verdict.rows))
        if self.drafter is not None:
            self.drafter.keep(verdict.rows)
        self.text_ids += [drafted.token_ids[row] for row in verdict.rows]
        if verdict.token_id is not None:
            self.text_ids.append(verdict.token_id)

    def _finish(self) -> str | None:
        if self.text_ids[-1] in self.pair.eos_ids:
            return "eos"
        if len(self.text_ids) < self.stop_length:
            return None
        return "context" if self.stop_length == self.pair.target.context_length else "length"

    def _tokens(self, drafted: Drafted, verdict: Verdict, last: bool) -> tuple[Token, ...]:
        emitted = [(drafted.token_ids[row], "accepted") for row in verdict.rows]
        if verdict.token_id is not None:
            emitted.append((verdict.token_id, verdict.kind))
        texts = [self.texts.push(token_id) for token_id, _ in emitted]
        if last:
            texts[-1] += self.texts.flush()
        return tuple(Token(id, text, kind) for (id, kind), text in zip(emitted, texts, strict=True))


class LazyLogProbs(Sequence[Tensor]):
    """Log-probabilities by row, computed when a row is looked at: verification visits few of them."""

    def __init__(self, logits: Tensor, sampling: Sampling, vocab_size: int):
        self._logits, self._sampling, self._vocab_size = logits, sampling, vocab_size
        self._rows: dict[int, Tensor] = {}

    def __getitem__(self, row: int) -> Tensor:
        if row not in self._rows:
            self._rows[row] = log_probs(self._logits[row], self._sampling, self._vocab_size)
        return self._rows[row]

    def __len__(self) -> int:
        return len(self._logits)


class _Clock:
    """Seconds between laps; on a GPU, waits for the work that was launched in them."""

    def __init__(self, device: torch.device):
        self._device = device
        self._last = self._now()

    def lap(self) -> float:
        """Seconds since the last lap."""
        before, self._last = self._last, self._now()
        return self._last - before

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()


def _checked(settings: Settings) -> Settings:
    if settings.method not in METHODS:
        raise ValueError(f"method = {settings.method!r} is not one of {', '.join(METHODS)}")
    n = settings.max_new_tokens
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"max_new_tokens = {n!r} is not an integer from 1 up")
    return settings


def _chosen_topology(
    pair: ModelPair, settings: Settings, topology: Topology | str | None, prompt_ids: Sequence[int]
) -> Topology:
    if settings.method == "ar":
        return Topology([])
    _check_models(pair, settings.method)
    if isinstance(topology, str) and topology == "auto":
        return _measured_topology(pair, settings, prompt_ids)
    topology = sequence(4) if topology is None else topology
    if not isinstance(topology, Topology):
        raise ValueError(f"topology = {topology!r} is neither a Topology nor 'auto'")
    _check_topology(pair, topology)
    return topology


def _measured_topology(pair: ModelPair, settings: Settings, prompt_ids: Sequence[int]) -> Topology:
    """The fastest topology for this pair, method and sampling, measured on first use."""
    key = (settings.method, settings.sampling)
    if key not in pair.measured_topologies:
        rounds = _trial_rounds(pair, settings, prompt_ids[:TRIAL_PROMPT])
        pair.measured_topologies[key] = choose_topology(pair, rounds)
    return pair.measured_topologies[key]


def _trial_rounds(pair: ModelPair, settings: Settings, prompt_ids: Sequence[int]) -> list[Round]:
    """Rounds of short runs whose length and seeds are not the user's, so that the choice is not either."""
    rounds, seed = [], 0
    while sum(len(round.tokens) for round in rounds) < TRIAL_TOKENS:
        wanted = Settings(settings.method, TRIAL_TOKENS, settings.sampling, seed, detail=False)
        rounds += Run(pair, prompt_ids, wanted, trial_topology(pair))
        seed += 1
    return rounds


def _check_models(pair: ModelPair, method: Method) -> None:
    if pair.draft is None:
        raise ValueError(f"method = {method!r} needs a draft model, and this pair has none; use method 'ar'")
    for model in (pair.target, pair.draft):
        if model.capability == "ar":
            raise ValueError(f"method = {method!r}: {model.name} can only decode token by token; use 'ar'")


def _check_topology(pair: ModelPair, topology: Topology) -> None:
    for model in (pair.target, pair.draft):
        if model.capability == "sequence" and not topology.is_sequence:
            raise ValueError(f"topology = {topology}: {model.name} can score sequences only; use sequence(k)")


def _check_room(pair: ModelPair, settings: Settings, topology: Topology, prompt_length: int) -> None:
    room = pair.target.context_length
    if prompt_length >= room:
        raise ValueError(
            f"the prompt has {prompt_length:,} tokens; the target's context of {room:,} leaves no room"
        )
    if topology.num_draft_tokens:
        depth = min(topology.depth, settings.max_new_tokens)
        if prompt_length + depth - 1 > pair.draft.context_length:
            raise ValueError(
                f"the prompt has {prompt_length:,} tokens and the tree depth {depth}; the draft's context of "
                f"{pair.draft.context_length:,} has no room for them: shorten the prompt or the tree"
            )
