"""The speed of a run relative to plain decoding: both are decoded again several times, in alternating blocks.

    run    ####      ####      ####          the same prompt, seed and tree as the visitor's run
    plain      ####      ####      ####      the target alone
           '-- one block of each: other work on the machine affects both alike

The first repeat gives the text of plain decoding. A speed is shown only after `LEAST` repeats.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from statistics import median_high
from typing import Any

from specdec import Round
from specdec.decoding.run import Run

LEAST, MOST = 3, 7
"""The smallest and the largest number of repeats if the server decodes no other run."""
ENOUGH = 3.0
"""After this many seconds a measurement ends as soon as it has the smallest number of repeats."""
LONGEST = 2.0
"""The seconds that a repeat after the first may take, approximately. If the first repeat takes longer, later
repeats decode only the beginning of the text."""
BLOCK = 8
"""The run and plain decoding alternate: each decodes about this many tokens before the other continues."""

Beginning = Callable[[], Generator[Any, None, Run]]
Seconds = dict[str, list[float]]
"""The times of one repeat: for "run" and for "plain", the decoding seconds of each round."""


class Repeats:
    """Decodes a run again several times, in turns with plain decoding, and keeps the times of both.

    plain_rounds: the list of rounds of plain decoding in the first repeat. seconds: the times of each repeat.
    """

    def __init__(self, run: Beginning, plain: Beginning, alone: Callable[[], bool], longest: float = LONGEST):
        """run, plain: functions that begin the run and plain decoding. alone: whether the server decodes no
        other run; if it returns False after a repeat, this is the last one. longest: the seconds that a
        repeat after the first may take, approximately.
        """
        self.plain_rounds: list[Round] = []
        self.seconds: list[Seconds] = []
        self._beginnings = {"run": run, "plain": plain}
        self._alone, self._longest = alone, longest

    def steps(self) -> Generator[Any, None, None]:
        """Decode all repeats; each step is a round."""
        start, most = time.monotonic(), sys.maxsize
        while len(self.seconds) < MOST:
            begin = time.monotonic()
            yield from self._repeat(most)
            now = time.monotonic()
            if not self._alone() or (len(self.seconds) >= LEAST and now - start > ENOUGH):
                return
            if len(self.seconds) == 1 and now - begin > self._longest:
                most = max(BLOCK, int(len(self.plain_rounds) * self._longest / (now - begin)))

    def _repeat(self, most: int) -> Generator[Any, None, None]:
        """Decode the first `most` tokens once more, with the run's method and with plain decoding, and store
        the times."""
        with ExitStack() as open_runs:
            decodings: dict[str, Run] = {}
            for name, begin in self._beginnings.items():
                decodings[name] = open_runs.enter_context(closing((yield from begin())))
            self.seconds.append((yield from self._in_turns(decodings, most)))

    def _in_turns(self, decodings: dict[str, Run], most: int) -> Generator[Any, None, Seconds]:
        seconds: Seconds = {name: [] for name in decodings}
        tokens, going, goal = dict.fromkeys(decodings, 0), list(decodings), 0
        while going:
            goal = min(goal + BLOCK, most)
            for name in list(going):
                while tokens[name] < goal and (round := next(decodings[name], None)) is not None:
                    seconds[name].append(decoding_seconds(round))
                    tokens[name] += len(round.tokens)
                    if name == "plain" and not self.seconds:
                        self.plain_rounds.append(round)
                    yield name
                if tokens[name] < goal or goal == most:
                    going.remove(name)
        return seconds


def decoding_seconds(round: Round) -> float:
    """The seconds that a round took for drafting, evaluating and verifying, without the time for the page's
    records."""
    return round.seconds.draft + round.seconds.evaluate + round.seconds.verify


def medians(repeats: Sequence[Sequence[float]]) -> list[float]:
    """The typical seconds of each call: its median over the repeats, times a factor for all calls.

    Repeats may have timed only the first calls. The factor makes the total time of the calls that all repeats
    timed equal to the median of this total over the repeats. `speed.js` does the same.
    """
    least, most = (pick(map(len, repeats)) for pick in (min, max))
    each = [median_high([repeat[i] for repeat in repeats if i < len(repeat)]) for i in range(most)]
    scale = median_high([math.fsum(repeat[:least]) for repeat in repeats]) / math.fsum(each[:least])
    return [scale * seconds for seconds in each]
