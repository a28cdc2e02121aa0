"""Visitors' runs in one batch: each text is that of the run alone, and nobody notices the others."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

import specdec
from components.server import together as page_together
from components.server.ahead import Ahead
from components.server.claims import Claim, Model, Visitor
from components.server.together import OF_ADDRESS, Together
from components.server.turns import Bounds, Turns
from specdec.decoding.batch import PIECE, Batch
from specdec.topology import Topology, sequence, specinfer
from tests.conftest import let_closed_runs_end
from tests.helpers.laws import markov_pair

PATIENCE = 60
"""Seconds until a test gives up."""


@pytest.fixture(scope="module")
def pair():
    made = specdec.load_pair("stories")
    made.eos_ids = frozenset()
    return made


@pytest.fixture
def together():
    return Together(Model())


class Noted:
    """Takes down what it is told. most: rounds after which it wants no more."""

    def __init__(self, most=None, address="", meanwhile=lambda told: None):
        self.rounds, self.error, self.ended = [], None, threading.Event()
        self.most, self.visitor, self.worked, self.meanwhile = most, Visitor(address), 0.0, meanwhile

    @property
    def stopped(self):
        return self.most is not None and len(self.rounds) >= self.most

    def tell(self, round):
        self.rounds.append(round)
        self.meanwhile(self)

    def end(self, error=None):
        self.error = error
        self.ended.set()

    @property
    def token_ids(self):
        return [token.id for round in self.rounds for token in round.tokens]


def joined(together, run, **settings):
    told = Noted(**settings)
    together.join(told, run, told)
    return told


def all_ended(*told):
    assert all(each.ended.wait(PATIENCE) for each in told)


KINDS = (
    {"method": "ersd", "topology": sequence(4)},
    {"method": "gsd", "topology": specinfer(8)},
    {"method": "ar"},
    {"method": "ersd", "topology": Topology([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])},
    {"method": "traversal", "topology": specinfer(6)},
)
PROMPTS = ("Once upon a time", "The weather that morning was", [7] * (2 * PIECE + 9))


def asked(number):
    """The prompt and the settings of one of many visitors."""
    kind, prompt = KINDS[number % len(KINDS)], PROMPTS[number % len(PROMPTS)]
    return prompt, {"seed": number, "max_new_tokens": 12 + number % 3 * 8, "detail": False, **kind}


def test_texts_are_those_of_the_runs_alone_whoever_joins_and_leaves(pair, together):
    """Mixed methods, trees, prompts and lengths; every fourth visitor leaves after two rounds."""
    visitors = []
    for number in range(20):
        prompt, settings = asked(number)
        most = 2 if number % 4 == 3 else None
        visitors.append(joined(together, specdec.stream(pair, prompt, **settings), most=most))
        if number % 5 == 4:
            assert visitors[number - 4].ended.wait(PATIENCE)  # later ones find the others at other rounds
    all_ended(*visitors)
    for number, told in enumerate(visitors):
        prompt, settings = asked(number)
        alone = specdec.generate(pair, prompt, **settings).token_ids
        assert told.error is None
        assert told.token_ids == alone[: len(told.token_ids)]
        assert len(told.token_ids) == len(alone) or told.stopped


def test_seated_runs_are_decoded_in_one_batch(together, monkeypatch):
    pair, sizes, step = markov_pair(6), [], Batch.step
    all_there = threading.Event()

    def counted(batch, of):
        all_there.wait(PATIENCE)
        sizes.append(len(of))
        return step(batch, of)

    monkeypatch.setattr(Batch, "step", counted)
    runs = [specdec.stream(pair, [0], seed=seed, max_new_tokens=30) for seed in range(7)]
    visitors = [joined(together, run) for run in runs]
    all_there.set()
    all_ended(*visitors)
    assert max(sizes) >= 6  # one may have been advanced before the others came


def test_runs_of_two_pairs_are_batches_of_their_own_and_forgotten_with_the_last_run(together):
    pairs = [markov_pair(6), markov_pair(6, seed=4)]
    runs = [specdec.stream(pairs[seed % 2], [0], seed=seed, max_new_tokens=20) for seed in range(6)]
    all_ended(*(joined(together, run) for run in runs))
    for seed, run in enumerate(runs):
        alone = specdec.generate(pairs[seed % 2], [0], seed=seed, max_new_tokens=20)
        assert run.generation.token_ids == alone.token_ids
    let_closed_runs_end()
    assert not together._open
    assert not together._members
    assert not together.shares


def test_an_error_ends_its_own_run_after_the_rounds_before_it(pair, together, monkeypatch):
    prompt, settings = asked(0)
    runs = [specdec.stream(pair, prompt, **settings | {"seed": seed}) for seed in range(4)]
    begin = runs[1].begin

    def broken():
        engine = begin()
        decoding = engine.decoding

        def failing(number):
            if number == 2:
                raise MemoryError
            return (yield from decoding(number))

        engine.decoding = failing
        return engine

    monkeypatch.setattr(runs[1], "begin", broken)
    visitors = [joined(together, run) for run in runs]
    all_ended(*visitors)
    assert [type(told.error) for told in visitors] == [type(None), MemoryError, type(None), type(None)]
    assert len(visitors[1].rounds) == 2
    for seed in (0, 2, 3):
        alone = specdec.generate(pair, prompt, **settings | {"seed": seed})
        assert visitors[seed].token_ids == alone.token_ids


def test_a_run_that_can_not_begin_tells_its_own_visitor(together, monkeypatch):
    pair = markov_pair(6)
    broken, other = (specdec.stream(pair, [0], seed=seed, max_new_tokens=9) for seed in (1, 2))
    monkeypatch.setattr(broken, "begin", lambda: (_ for _ in ()).throw(MemoryError()))
    visitors = [joined(together, run) for run in (broken, other)]
    all_ended(*visitors)
    assert [type(told.error) for told in visitors] == [MemoryError, type(None)]


def test_where_a_step_fails_as_a_whole_its_culprit_is_found(pair, together, monkeypatch, caplog):
    """All others go on by themselves: their visitors get each round once, and the text of the run alone."""
    prompt, settings = asked(0)
    step, failed = Batch.step, []

    def failing(batch, of):
        if any(run.seed == 2 and len(run.rounds) == 3 for run in of):
            failed.append(len(of))
            raise RuntimeError("a bug")
        return step(batch, of)

    monkeypatch.setattr(Batch, "step", failing)
    runs = [specdec.stream(pair, prompt, **settings | {"seed": seed}) for seed in range(4)]
    visitors = [joined(together, run) for run in runs]
    all_ended(*visitors)
    assert failed[0] > 1
    assert failed[-1] == 1
    assert str(visitors[2].error) == "a bug"
    assert len(visitors[2].rounds) == 3
    for seed in (0, 1, 3):
        alone = specdec.generate(pair, prompt, **settings | {"seed": seed})
        assert visitors[seed].error is None
        assert visitors[seed].token_ids == alone.token_ids
    assert "a step of 4 runs failed" in caplog.text or "a step of 3 runs failed" in caplog.text


def test_a_run_that_is_another_one_the_second_time_is_no_one_s_text(together, monkeypatch, caplog):
    pair, step = markov_pair(6), Batch.step

    def failing(batch, of):
        if len(of) > 1 and all(run.rounds for run in of):
            for run in of:
                run.settings = run.settings._replace(method="gsd")  # what is decoded anew will be this
            raise RuntimeError("a bug")
        return step(batch, of)

    monkeypatch.setattr(Batch, "step", failing)
    both = [specdec.stream(pair, [0], seed=seed, max_new_tokens=200) for seed in (5, 6)]
    started = threading.Event()
    first = joined(together, both[0], meanwhile=lambda told: started.wait(PATIENCE))
    second = joined(together, both[1])
    started.set()
    all_ended(first, second)
    for told, seed in ((first, 5), (second, 6)):
        alone = specdec.generate(pair, [0], seed=seed, max_new_tokens=200).token_ids
        assert told.token_ids == alone[: len(told.token_ids)]
        assert "another text" in str(told.error)


def test_who_waits_is_told_where_the_thread_itself_fails(together, monkeypatch):
    monkeypatch.setattr(Together, "_chosen", lambda self: 1 / 0)
    told = joined(together, specdec.stream(markov_pair(6), [0]))
    assert told.ended.wait(PATIENCE)
    assert isinstance(told.error, ZeroDivisionError)
    let_closed_runs_end()
    monkeypatch.undo()
    again = joined(together, specdec.stream(markov_pair(6), [0], max_new_tokens=4))
    all_ended(again)
    assert again.error is None


def test_a_thread_that_can_not_be_started_costs_one_run_and_not_those_after_it(together, monkeypatch):
    def no_thread(self):
        raise RuntimeError("can't start new thread")

    pair = markov_pair(6)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="new thread"):
            joined(together, specdec.stream(pair, [0], max_new_tokens=4))
    again = joined(together, specdec.stream(pair, [0], max_new_tokens=4))
    all_ended(again)
    assert len(again.token_ids) == 4


def rounds_meanwhile(together, monkeypatch, addresses):
    """Steps in which each of these visitors' runs was, by address, while all of them were there."""
    pair, step, all_there, had = markov_pair(6), Batch.step, threading.Event(), []
    runs = [specdec.stream(pair, [0], method="ar", seed=n, max_new_tokens=60) for n in range(len(addresses))]
    by_run = dict(zip(runs, addresses, strict=True))

    def noted(batch, of):
        all_there.wait(PATIENCE)
        if len(batch) == len(runs):
            had.append(Counter(by_run[run] for run in of))
        return step(batch, of)

    monkeypatch.setattr(Batch, "step", noted)
    visitors = [joined(together, run, address=by_run[run]) for run in runs]
    all_there.set()
    all_ended(*visitors)
    assert had
    return had, runs


def test_an_address_with_many_runs_has_few_in_a_step_beside_others(together, monkeypatch):
    addresses = ["flood"] * 11 + ["one", "other", "other"]
    had, _ = rounds_meanwhile(together, monkeypatch, addresses)
    assert all(step == {"flood": OF_ADDRESS, "one": 1, "other": 2} for step in had)


def test_two_classes_of_one_size_are_decoded_whole(together, monkeypatch):
    had, _ = rounds_meanwhile(together, monkeypatch, ["school"] * 9 + ["college"] * 9)
    assert all(step == {"school": 9, "college": 9} for step in had)


def test_runs_of_an_address_take_turns_in_its_part_of_a_step(together, monkeypatch):
    steps = []
    monkeypatch.setattr(Together, "_step", lambda self, batch: steps.append(self._advanced))
    for number in range(9):
        share = Noted(address="flood" if number else "one")
        run = specdec.stream(markov_pair(6), [0], seed=number)
        together._members.append(page_together._Member(share, run, share, "the batch"))
    work = together._steps()
    for _ in range(4):
        next(work)
    had = Counter(member for step in steps for member in step)
    assert sorted(had.values()) == [2] * 8 + [4]


def test_the_time_of_a_step_is_shared_by_its_runs_and_they_come_first_where_one_of_them_does():
    model = Model()
    line = Turns(lambda: Bounds(9, 9, 9, 9), model)
    few, many = line.seat(Visitor("few")), [line.seat(Visitor("many", n)) for n in range(3)]

    class Runs(Claim):
        shares = (few, *many)

    runs, check = Runs(model), line.seat(Visitor("check"))
    model.used(runs, 4.0)
    assert [seat.worked for seat in (few, *many)] == [1.0] * 4
    model.used(check, 2.0)
    assert [model.right(claim) for claim in (few, many[0], check, runs)] == [1.0, 3.0, 2.0, 1.0]
    assert model.right(Claim(model)) == 0.0


def test_a_run_alone_gets_its_rounds_as_fast_as_the_thread_can_decode(together):
    """Whoever joins later is in the next step: nobody waits for the end of another run."""
    pair, late = markov_pair(6), []

    def join_late(told):
        if len(told.rounds) == 3:
            late.append(joined(together, specdec.stream(pair, [1], method="ar", max_new_tokens=5)))

    first = joined(together, specdec.stream(pair, [0], method="ar", max_new_tokens=200), meanwhile=join_late)
    all_ended(first)
    assert late[0].ended.is_set()


def test_a_visitor_who_stops_leaves_with_the_round_in_progress(pair, together):
    turns = Turns(lambda: Bounds(2, 2, 2, 2), together._model)
    prompt, settings = asked(0)
    run = specdec.stream(pair, prompt, **settings | {"max_new_tokens": 400})
    with turns.seat() as seat:
        ahead = Ahead(seat, iter_of(run), together)
        rounds = next(ahead.batches(0))
        ahead.close()
    assert rounds
    let_closed_runs_end()
    assert run.rounds[-1].finish is None
    assert not together._members


def iter_of(run):
    return run
    yield


def test_a_stopped_beginning_is_not_decoded(together):
    go_on, run = threading.Event(), specdec.stream(markov_pair(6), [0])

    def beginning():
        go_on.wait(PATIENCE)
        return run
        yield

    ahead = Ahead(Turns(lambda: Bounds(1, 1, 1, 1), together._model).seat(), beginning(), together)
    ahead.close()
    go_on.set()
    let_closed_runs_end()
    assert not run.rounds


def test_measurements_and_checks_get_their_turns_beside_the_runs(together):
    model = together._model
    line = Turns(lambda: Bounds(4, 4, 4, 4), model)
    told = joined(together, specdec.stream(markov_pair(6), [0], method="ar", max_new_tokens=4000))
    with line.seat(Visitor("check")) as seat:
        for _ in range(20):
            with seat.turn():
                time.sleep(0.001)
    before = len(told.rounds)
    told.most = 0
    assert told.ended.wait(PATIENCE)
    assert before > 0
