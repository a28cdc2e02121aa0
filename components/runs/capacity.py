"""Measures how many runs can be decoded at once with this server's memory, without becoming too slow.

After a pair is loaded, a job beside the runs measures this number once. Until then, and where it
can't be measured (on ZeroGPU), it is `FEWEST`.
"""

from __future__ import annotations

import logging
import threading
import time

from components.runs import lazy
from components.runs.jobs import Owner
from components.runs.queue import QUEUE, Queue
from components.runs.topologies import can_draft
from specdec.decoding.acceptance import Steps
from specdec.decoding.run import Run, stream
from specdec.pair import ModelPair, Pair
from specdec.topology import sequence
from specdec.trace import Method

FEWEST = 8
"""At least this many runs are decoded at once, if memory suffices. Even with a slow model this is not slower
than decoding them in turns."""
LONGEST = 1.0
"""The most seconds that a round of all runs may take. With longer rounds the texts would seem to stand
still."""
_MEMORY = 0.5
"""The share of the free memory that runs may take."""
_STEPS, _K = 4, 4
"""The number of rounds of the measurement, and of drafted tokens in each round. The shortest round counts,
because other work on the machine only makes rounds longer.
"""
_TOKENS = _STEPS * (1 + _K)
"""The most tokens that a run of the measurement may generate. They determine its memory."""

_MANY = 1 << 20
"""The number of runs that is returned if memory and time set no limit."""

_num_runs = FEWEST
_measuring = threading.Lock()


def known() -> int:
    """The number of runs that can be decoded at once with the server's pair; `FEWEST` until it is
    measured."""
    return _num_runs


def measure(pair: Pair, queue: Queue = QUEUE) -> None:
    """Measure, in a job of the queue, how many runs can be decoded at once with the current pair.

    If another thread is measuring, wait for it and then measure again, because the pair may have been
    exchanged meanwhile.
    """
    global _num_runs
    with _measuring:
        _num_runs = FEWEST
        if isinstance(loaded_pair := lazy.present(pair), ModelPair):
            try:
                _num_runs = queue.submit(Owner(), measuring(loaded_pair)).wait()
            except Exception:  # a server whose measurement failed still serves
                logging.exception("the number of runs that fit could not be measured; %d is used", FEWEST)


def measuring(pair: ModelPair) -> Steps[int]:
    """Measure in steps how many runs memory and time allow.

    The time of many runs is estimated from a round of one run and a round of `FEWEST` runs.
    """
    lazy.use_threads(pair)
    in_time = yield from _in_time(pair)
    return max(1, min(_in_memory(pair), max(FEWEST, in_time)))


def _in_time(pair: ModelPair) -> Steps[int]:
    single = yield from _seconds(pair, 1)
    if single > LONGEST:
        return 1
    several = yield from _seconds(pair, FEWEST)
    of_each = (several - single) / (FEWEST - 1)
    return 1 + int((LONGEST - single) / of_each) if of_each > 0 else _MANY


def _seconds(pair: ModelPair, runs: int) -> Steps[float]:
    """The seconds of the shortest of several rounds of this many runs."""
    from specdec.decoding.batch import Batch  # imports transformers, for which the page must not wait

    batch, seconds = Batch(pair), []
    new_runs = [batch.add(_run(pair, seed)) for seed in range(runs)]
    for _ in range(_STEPS):
        start = time.perf_counter()
        batch.step()
        seconds.append(time.perf_counter() - start)
        yield
    for run in new_runs:
        if run in batch:
            batch.remove(run)
    return min(seconds)


def _run(pair: ModelPair, seed: int) -> Run:
    method: Method = "ersd" if can_draft(pair) else "ar"
    return stream(pair, [0], method=method, topology=sequence(_K), max_new_tokens=_TOKENS, seed=seed)


def _in_memory(pair: ModelPair) -> int:
    from specdec.models import HFModel, free_memory, memory

    # the draft may have another tokenizer; then its model is the attribute `draft`
    sides = (pair.target, getattr(pair.draft, "draft", pair.draft))
    models = [model for model in sides if isinstance(model, HFModel)]
    bytes_of_run = sum(memory.need_of_run(model, model.vocab_size) for model in models)
    free = free_memory.free(free_memory.place(str(pair.target.device)))
    return int(_MEMORY * free) // bytes_of_run if bytes_of_run else _MANY
