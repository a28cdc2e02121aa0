"""The time of a run and of plain decoding: measured in turns, block by block, at least three times."""

from inspect import getgeneratorstate
from itertools import count

import pytest

from components.runs import timing
from specdec.trace import Round, Seconds, Token


def counted(name, rounds, tokens, log):
    """A run with this many rounds of this many tokens. It records its name at each round."""
    token = Token(0, "a", "sampled")
    for _ in range(rounds):
        log.append(name)
        yield Round(0, 0, (token,) * tokens, (), (), Seconds(1.0, 2.0, 0.5, 9.0), "a" * tokens)


def closed(run):
    return getgeneratorstate(run) == "GEN_CLOSED"


@pytest.fixture
def started_runs():
    return []


def repeats(log, started_runs, alone=lambda: True, length=32):
    def beginning(name, tokens):
        def begin():
            started_runs.append(counted(name, length // tokens, tokens, log))
            return started_runs[-1]
            yield

        return begin

    return timing.Repeats(beginning("run", 4), beginning("plain", 1), alone)


def test_both_are_decoded_in_turns_of_a_block(started_runs):
    log = []
    timed = repeats(log, started_runs)
    for _ in timed.steps():
        pass
    block = ["run"] * 2 + ["plain"] * 8
    assert log == block * 4 * len(timed.seconds)
    assert timing.LEAST <= len(timed.seconds) <= timing.MOST
    assert timed.seconds[0] == {"run": [3.5] * 8, "plain": [3.5] * 32}
    assert len(timed.plain_rounds) == 32
    assert all(map(closed, started_runs))


def test_one_repeat_where_others_decode_too(started_runs):
    timed = repeats([], started_runs, alone=lambda: False)
    for _ in timed.steps():
        pass
    assert len(timed.seconds) == 1
    assert len(timed.plain_rounds) == 32


def test_of_a_long_run_only_the_beginning_is_repeated(started_runs, monkeypatch):
    clock = count(step=timing.LONGEST)
    monkeypatch.setattr(timing.time, "monotonic", lambda: float(next(clock)))
    timed = repeats([], started_runs, length=64)
    for _ in timed.steps():
        pass
    first, *others = [len(seconds["plain"]) for seconds in timed.seconds]
    assert first == 64
    assert len(others) == timing.LEAST - 1
    assert all(timing.BLOCK <= tokens <= 64 for tokens in others)


def test_a_repeat_that_is_broken_off_closes_both(started_runs):
    steps = repeats([], started_runs).steps()
    next(steps)
    steps.close()
    assert all(map(closed, started_runs))
