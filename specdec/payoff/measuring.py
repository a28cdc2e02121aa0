"""Measures a pair on this machine: its acceptance on fixed prompts, and the times of rounds on a few trees.

The trees take turns, so that a busy moment of the machine affects all of them alike. The measurement has many
small steps, so that a server can decode for other visitors between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from specdec.decoding.acceptance import WIDE, Steps, fixed_prompts, only_sequences
from specdec.decoding.acceptance import measuring as measuring_acceptance
from specdec.decoding.batch import Batch
from specdec.decoding.costs import RoundTimes
from specdec.decoding.run import Run
from specdec.drafters.catalogue import MODEL
from specdec.pair import ModelPair
from specdec.payoff.setups import SetUp
from specdec.race import derived_seed
from specdec.settings import RunSettings
from specdec.topology import Topology, sequence, specinfer

_TREES = (Topology([]), sequence(1), sequence(4), specinfer(9), WIDE)
_SEQUENCES = (Topology([]), sequence(1), sequence(4), sequence(8))
"""The trees whose rounds are timed: `_TREES` if both models can score trees, otherwise `_SEQUENCES`."""
_ROUNDS, _TURNS = 8, 4
"""The number of consecutive rounds in each turn of a tree, and the number of its turns. The rounds of a turn
are consecutive, because the first rounds after a change of the tree are slow."""
_LENGTH = 64
"""The most new tokens of a text of the measurement."""
_SEED = 0x7469_6D65


def measuring(pair: ModelPair, settings: RunSettings, texts: int = 1, thorough: int = 1) -> Steps[SetUp]:
    """Measures the set-up of this pair. texts: number of texts that are decoded together. thorough: a factor
    for the length of the measurement.

    ValueError if the pair can't draft.
    """
    acceptance = yield from measuring_acceptance(pair, settings, thorough=thorough)
    times = RoundTimes(window=None)
    for together in sorted({1, texts}):
        trees = _SEQUENCES if only_sequences(pair) else _TREES
        sides = [_side(pair, settings, tree, together, times) for tree in trees]
        for _ in range(_TURNS * thorough):
            for side in sides:
                for _ in range(_ROUNDS):
                    next(side)
                    yield
    return SetUp(acceptance, times.costs(pair.target.most_repeated), texts)


def _side(
    pair: ModelPair, settings: RunSettings, tree: Topology, texts: int, times: RoundTimes
) -> Iterator[None]:
    """Decodes texts together on this tree without end. Each item that it yields is one step."""
    batch, prompts = Batch(pair, times), fixed_prompts(pair)
    for number in count():
        prompt, seed = prompts[number % len(prompts)], derived_seed(_SEED, number)
        own = settings._replace(max_new_tokens=_LENGTH, seed=seed, detail=False, drafter=MODEL)
        batch.add(Run(pair, prompt, own, tree))
        while len(batch) == texts:
            batch.step()
            yield
