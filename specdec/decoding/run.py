"""Speculative decoding: draft, evaluate, verify, one `Round` per target call.

    for round in stream(pair, "Once upon a time", method="ersd", topology=sequence(4), seed=0):
        print(round.text)

`engine` does the work of a round. This module checks the arguments, and keeps the run's record.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from specdec.checks import whole
from specdec.context import ContextTree, Tree
from specdec.decoding.acceptance import drafting_models, finished, measuring
from specdec.decoding.auto import AutoTrees, first_choice
from specdec.decoding.engine import Engine
from specdec.decoding.fastest import Choice
from specdec.decoding.trees import RoundTree, Trees
from specdec.drafters.catalogue import MODEL, entry_of, has_tree
from specdec.drafters.proposed import Drafting, drafter_name
from specdec.settings import SETTINGS, RunSettings
from specdec.text import prompt_text
from specdec.topology import Topology, sequence
from specdec.trace import Generation, Method, Planted, Round

if TYPE_CHECKING:
    from specdec.pair import ModelPair


Shape = Tree | Generation | str | None
"""The type of the argument `topology` before it is checked."""


def stream(
    pair: ModelPair,
    prompt: str | Sequence[int],
    *,
    method: Method = "ersd",
    topology: Shape = None,
    max_new_tokens: int = 64,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int | None = None,
    detail: bool = True,
    drafter: Drafting | None = "model",
    draft_temperature: float | None = None,
    at_once: int = 1,
) -> Run:
    """Decodes a text round by round and yields one `Round` per target call.

    prompt: text or token ids. method: one of `specdec.methods.METHODS`.
    topology: a `Topology`; "auto", which chooses the fastest tree for this text, pair and machine from the
    run's rounds; a `ContextTree`; the `Generation` of an earlier run, to use its trees again round by round;
    or None for sequence(4). The method "ar" and the drafter "copies" ignore it. In each round the tree is cut
    to the depth for which both contexts have room. When the draft's context is full, the target continues
    alone.
    max_new_tokens: the most tokens to generate. A full context or an end-of-sequence token stops earlier.
    temperature, top_k, top_p: as in `specdec.probs.Sampling`.
    seed: determines all randomness. None draws a seed and records it. Except under ERSD, the text also
    depends on the trees, and the trees of "auto" depend on timings. To repeat a text, pass its settings, and
    its record as `topology`.
    detail: whether to record the probabilities of nodes and the races of verified positions, which takes
    time.
    drafter: "model", the draft model; "copies", paths copied from the text, without a draft model or a
    topology; or "model+copies", both in one tree, where a copied path may extend or replace the model's
    (`specdec.drafters.copies`). "strings" is for ERSD and a draft model with another tokenizer, which writes
    ahead in its own tokens (`specdec.drafters.strings`). An object replaces the draft model:
    `specdec.drafters.NGram()`, `Suffix()`, a function, or an object as `specdec.drafters.proposed` describes.
    draft_temperature: the draft's own temperature; None for the target's. Drafter and draft temperature
    change the speed and never the distribution; under ERSD, not even the text.
    at_once: the number of runs that are decoded together (`batch`), this one included. Only "auto" uses it.

    A ValueError names an argument that does not fit, and what would fit, before anything is computed.
    """
    arguments = locals()
    settings = RunSettings.of(**{name: arguments[name] for name in (*SETTINGS, "detail")})
    return Run(pair, prompt, settings, topology, at_once)


def generate(
    pair: ModelPair,
    prompt: str | Sequence[int],
    *,
    method: Method = "ersd",
    topology: Shape = None,
    max_new_tokens: int = 64,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int | None = None,
    detail: bool = False,
    drafter: Drafting | None = "model",
    draft_temperature: float | None = None,
) -> Generation:
    """Decodes a text to its end and returns the record.

    Arguments and errors are those of `stream`, except that detail is off by default.
    """
    run = stream(**locals())
    for _ in run:
        pass
    return run.generation


def measure_acceptance(
    pair: ModelPair,
    prompt: str | Sequence[int] | None = None,
    *,
    method: Method = "ersd",
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> np.ndarray:
    """Acceptance by child index [up to 8] of a pair, as `optimal_topology` takes it.

    It is estimated once per pair, method, sampling and prompt, from about 250 tokens that are decoded after
    the prompt. At most the last 64 tokens of the prompt are read. Without a prompt, fixed prompts give every
    caller the same result. The rates may increase at some index, by chance or truly. Under traversal
    verification, SpecInfer and SpecTr, a child's acceptance depends on the rest of its tree. For these
    methods the result is GSD's acceptance: its trees yield more tokens than trees grown from the method's own
    acceptance. ValueError as in `stream`, and for "ar", which drafts nothing.
    """
    settings = RunSettings.of(
        method=method, max_new_tokens=1, temperature=temperature, top_k=top_k, top_p=top_p
    )
    if method == "ar":
        raise ValueError("method = 'ar' drafts nothing, so nothing is accepted; use another method")
    _checked_pair(pair)
    prompt_ids = None if prompt is None else pair.encode(prompt)
    if prompt_ids is not None:
        _check_room(pair, len(prompt_ids))
    return finished(measuring(pair, settings, prompt_ids)).copy()


class Run(Iterator[Round]):
    """One decoding run: an iterator over its rounds, with its settings and its record.

    seed: the seed in use. prompt_ids: the prompt's tokens. generation: the record of all rounds so far.
    begun: whether a caller already advances the run. follows: whether "auto" chooses the run's trees. Its
    caches are freed when the text ends, or when `close()` ends the run early.
    """

    def __init__(
        self,
        pair: ModelPair,
        prompt: str | Sequence[int],
        settings: RunSettings,
        topology: Shape,
        at_once: int = 1,
    ):
        self.pair, self.settings = _checked_pair(pair), settings.checked()
        self.prompt = prompt if isinstance(prompt, str) else None
        self.prompt_ids = tuple(pair.encode(prompt))
        _check_room(pair, len(self.prompt_ids))
        at_once = whole("at_once", at_once, 1)
        self.seed = secrets.randbits(53) if self.settings.seed is None else self.settings.seed
        self._first: Choice | None = None
        self._auto: AutoTrees | None = None
        trees = _given_trees(pair, self.settings, self.prompt_ids, topology)
        self.follows = trees is None
        if trees is None:
            self._first = first_choice(pair, self.settings, self.seed, at_once)
            trees = Trees(self._first.topology, {})
        self._trees = trees
        self.arithmetic = pair.arithmetic
        self.rounds: list[Round] = []
        self.prefill_seconds = 0.0
        self.begun = False
        self._iterator = self._decode()

    def __next__(self) -> Round:
        return next(self._iterator)

    def begin(self, trees: AutoTrees) -> Engine:
        """Creates the caches and the noise of the run, in an engine. ValueError if the run has already begun.

        From then on only the caller advances the engine, and gives it the trees that `trees` chooses.
        """
        if self.begun:
            raise ValueError(
                "the run has begun already, and only one caller can advance it; start another run"
            )
        self.begun, self._auto = True, trees
        return Engine(self.pair, self.settings, self._trees, self.prompt_ids, self.seed)

    @property
    def choice(self) -> Choice | None:
        """The tree that "auto" would choose now, with its candidates; None if the caller gave the tree."""
        return self._auto.choice(self) if self._auto and self.rounds and self.follows else self._first

    @property
    def topology(self) -> Tree:
        """The tree of the first round."""
        return self._trees.first

    @property
    def latest_tree(self) -> Tree:
        """The tree of the latest round; before any round, the first tree."""
        return self._trees.latest

    @property
    def trees(self) -> tuple[Planted, ...]:
        """All trees so far if they changed or the draft model stopped within one; otherwise ()."""
        return self._trees.changes

    def close(self) -> None:
        """Ends the run and frees its caches; its record stays."""
        self._iterator.close()

    @property
    def generation(self) -> Generation:
        """The record of the run so far."""
        text = self.prompt
        if text is None:
            text = prompt_text(self.pair.tokenizer, self.prompt_ids)
        draft = "" if self.pair.draft is None else self.pair.draft.name
        if self.settings.drafter != MODEL:
            name = drafter_name(self.settings.drafter)
            draft = f"{draft}, {name}" if draft and entry_of(self.settings.drafter).uses_model else name
        choice = self.choice
        return Generation(
            **self.settings._replace(seed=self.seed).recorded(),
            paths=self.latest_tree.paths if isinstance(self.latest_tree, Topology) and not self.trees else (),
            trees=self.trees,
            prompt=text,
            prompt_ids=self.prompt_ids,
            target=self.pair.target.name,
            draft=draft,
            prefill_seconds=self.prefill_seconds,
            rounds=tuple(self.rounds),
            arithmetic=self.arithmetic,
            choice=None if choice is None else choice.candidates,
        )

    def _decode(self) -> Generator[Round, None, None]:
        trees = AutoTrees(self.pair)
        engine = self.begin(trees)
        for round in engine.rounds():
            self.prefill_seconds = engine.prefill_seconds
            self.rounds.append(round)
            trees.learn({self: round})
            trees.learn_times([round], round.seconds.draft, round.seconds.evaluate)
            for topology in trees.trees([self], 1).values():
                engine.follow(topology, trees.price(self))
            yield round


def _given_trees(
    pair: ModelPair, settings: RunSettings, prompt_ids: Sequence[int], topology: Shape
) -> Trees | None:
    """The checked trees of a run; None if "auto" chooses them."""
    later = None
    if isinstance(topology, Generation):
        topology, later = _recorded(topology, settings, prompt_ids)
        for tree, _ in (later or {}).values():
            _chosen_topology(pair, settings, tree)
    first = _chosen_topology(pair, settings, topology)
    return None if first is None else Trees(first, later)


def _recorded(
    record: Generation, settings: RunSettings, prompt_ids: Sequence[int]
) -> tuple[Topology, dict[int, RoundTree] | None]:
    """The first tree of a record. If it has several, also all trees by the number of their first round.

    ValueError if the record does not hold its trees, or if its run had another method or prompt.
    """
    own = {"method": settings.method, "prompt_ids": tuple(prompt_ids)}
    for name, value in own.items():
        if getattr(record, name) != value:
            raise ValueError(
                f"topology is the record of a run with {name} = {getattr(record, name)!r:.60}, but this run "
                f"has {value!r:.60}"
            )
    trees = {each.round: RoundTree(Topology(each.paths), each.depth) for each in record.trees}
    if not has_tree(settings.method, settings.drafter):
        return Topology([]), None
    if (
        not trees
        and not record.paths
        and any(not node.copied for round in record.rounds for node in round.nodes)
    ):
        raise ValueError("topology is a record without trees, because each of its rounds grew its own tree")
    return (trees[0].topology, trees) if trees else (Topology(record.paths), None)


def _checked_pair(pair: ModelPair) -> ModelPair:
    if not (hasattr(pair, "encode") and hasattr(pair, "target")):
        raise ValueError(f"pair = {pair!r:.60} is not a ModelPair; make one with load_pair or ModelPair")
    return pair


def _chosen_topology(pair: ModelPair, settings: RunSettings, topology: Shape) -> Tree | None:
    """Checks the argument `topology` and returns the tree of the first round; None if "auto" chooses it."""
    if settings.method == "ar":
        return Topology([])
    models = drafting_models(pair, settings)
    if not has_tree(settings.method, settings.drafter):
        return Topology([])
    entry_of(settings.drafter).check(settings.method, pair.target, pair.draft, topology)
    if isinstance(topology, str) and topology == "auto":
        return None
    topology = sequence(4) if topology is None else topology
    if not isinstance(topology, Topology | ContextTree):
        raise ValueError(
            f"topology = {topology!r} is neither a Topology, a ContextTree, a Generation nor 'auto'"
        )
    if isinstance(topology, ContextTree) and topology.acceptance.method != settings.method:
        raise ValueError(
            f"method = {settings.method!r}, but the tree's acceptance was learnt for "
            f"{topology.acceptance.method!r}: learn one for this method"
        )
    for model in models:
        if model.capability == "sequence" and not topology.is_sequence:
            raise ValueError(f"topology = {topology}: {model.name} can score sequences only; use sequence(k)")
    return topology


def _check_room(pair: ModelPair, prompt_length: int) -> None:
    room = pair.target.context_length
    if prompt_length >= room:
        raise ValueError(
            f"the prompt has {prompt_length:,} tokens; the target's context of {room:,} leaves no room"
        )
