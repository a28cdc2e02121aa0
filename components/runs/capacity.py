"""How many runs are decoded at once: as many as the pair and its device have memory and time for.

It is measured once for a pair, after loading, as a job beside the runs. Until then, and where it cannot be
measured (on ZeroGPU), the number is so small that decoding in turns would serve as well.
"""

from __future__ import annotations

import logging
import threading
import time

from components.runs import lazy
from components.runs.queue import QUEUE, Owner, Queue
from components.runs.topologies import can_draft
from specdec.decoding.acceptance import Steps
from specdec.decoding.run import Run, stream
from specdec.pair import ModelPair, Pair
from specdec.topology import sequence
from specdec.trace import Method

FEWEST = 8
"""Runs at once that are always allowed: even a slow model decodes them no slower together than in turns."""
LONGEST = 1.0
"""The longest round of all runs in seconds, at which texts still visibly move."""
_MEMORY = 0.5
"""The part of the free memory that runs may take."""
_STEPS, _K = 4, 4
"""Rounds of the measurement, and drafted tokens of each. The shortest round counts, because other work on the
machine only adds time.
"""
_TOKENS = _STEPS * (1 + _K)
"""The largest result of a measurement."""

_MANY = 1 << 20
"""The number of runs if there is no limit."""

_known = FEWEST
_measuring = threading.Lock()


def known() -> int:
    """Runs at once that the server's pair has room for, or the default before it is measured."""
    return _known


def measure(pair: Pair, queue: Queue = QUEUE) -> None:
    """Measure the capacity of the pair that is present now, as a job of the queue.

    Another thread that measures is waited for. Its pair may have been exchanged meanwhile.
    """
    with _measuring:
        _measure(lazy.present(pair), queue)


def _measure(pair: Pair, queue: Queue) -> None:
    global _known
    _known = FEWEST
    if not isinstance(pair, ModelPair):
        return
    try:
        _known = queue.submit(Owner(), measuring(pair)).wait()
    except Exception:  # a server without a measurement still serves
        logging.exception("the number of runs that fit could not be measured; %d is used", FEWEST)


def measuring(pair: ModelPair) -> Steps[int]:
    """The number of runs for which there is memory and time. Time is estimated from rounds of one and of
    `FEWEST`."""
    lazy.use_threads(pair)
    in_time = yield from _in_time(pair)
    return max(1, min(_in_memory(pair), max(FEWEST, in_time)))


def _in_time(pair: ModelPair) -> Steps[int]:
    one = yield from _seconds(pair, 1)
    if one > LONGEST:
        return 1
    few = yield from _seconds(pair, FEWEST)
    of_each = (few - one) / (FEWEST - 1)
    return 1 + int((LONGEST - one) / of_each) if of_each > 0 else _MANY


def _seconds(pair: ModelPair, runs: int) -> Steps[float]:
    """Seconds of a round of so many runs."""
    from specdec.decoding.batch import Batch  # imports transformers, for which the page must not wait

    batch, seconds = Batch(pair), []
    added = [batch.add(_run(pair, seed)) for seed in range(runs)]
    for _ in range(_STEPS):
        start = time.perf_counter()
        batch.step()
        seconds.append(time.perf_counter() - start)
        yield
    for run in added:
        if run in batch:
            batch.remove(run)
    return min(seconds)


def _run(pair: ModelPair, seed: int) -> Run:
    method: Method = "ersd" if can_draft(pair) else "ar"
    return stream(pair, [0], method=method, topology=sequence(_K), max_new_tokens=_TOKENS, seed=seed)


def _in_memory(pair: ModelPair) -> int:
    from specdec.models import HFModel, free_memory, memory

    # a draft with another tokenizer holds its model as `draft`
    held = (pair.target, getattr(pair.draft, "draft", pair.draft))
    models = [model for model in held if isinstance(model, HFModel)]
    needed = sum(memory.need_of_run(model, model.vocab_size) for model in models)
    there = free_memory.free(free_memory.place(str(pair.target.device)))
    return int(_MEMORY * there) // needed if needed else _MANY
