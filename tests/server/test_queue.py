"""Visitors' runs, which one thread begins and decodes: each text is that of the run alone."""

import gc
import itertools
import threading
import time
import weakref
from collections import Counter
from inspect import getgeneratorstate
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import specdec
from components.runs import queue as page_queue
from components.runs.queue import LIGHT, STEP, Job, Owner, Queue, State
from components.runs.seats import Bounds, Line
from components.runs.zero_gpu import BorrowedJob
from specdec.decoding import auto
from specdec.decoding.batch import PIECE, Batch
from specdec.decoding.costs import RoundTimes
from specdec.decoding.run import Run
from specdec.topology import Topology, sequence, specinfer
from tests.conftest import let_closed_runs_end
from tests.helpers.distributions import markov_pair

PATIENCE = 60
"""Seconds until a test gives up."""


@pytest.fixture(scope="module")
def pair():
    pair = specdec.load_pair("stories")
    pair.eos_ids = frozenset()
    return pair


@pytest.fixture
def queue():
    return Queue()


def unmeasured(run):
    """A run that begins without a measurement."""
    return run
    yield


def submitted(queue, beginning, address="", key=None):
    steps = unmeasured(beginning) if isinstance(beginning, Run) else beginning
    return queue.submit(Owner(address), steps, begins_run=True, key=key)


def ended(*jobs):
    """Wait for the end of each job. Returns the rounds of the first."""
    results = []
    for job in jobs:
        try:
            results.append([round for rounds in job.batches(0) for round in rounds])
        except Exception:
            results.append(job.values)
    return results[0] if results else []


def token_ids(job):
    return [token.id for round in job.values for token in round.tokens]


def decodes(queue):
    """Whether the next run is decoded."""
    job = submitted(queue, specdec.stream(markov_pair(6), [0], method="ar", max_new_tokens=4))
    ended(job)
    return len(token_ids(job)) == 4


KINDS = (
    {"method": "ersd", "topology": sequence(4)},
    {"method": "gsd", "topology": specinfer(8)},
    {"method": "ar"},
    {"method": "ersd", "topology": Topology([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])},
    {"method": "traversal", "topology": specinfer(6)},
)
PROMPTS = ("Once upon a time", "The weather that morning was", [7] * (2 * PIECE + 9))


def request_of(number):
    """The prompt and the settings of one of many visitors."""
    kind, prompt = KINDS[number % len(KINDS)], PROMPTS[number % len(PROMPTS)]
    return prompt, {"seed": number, "max_new_tokens": 12 + number % 3 * 8, "detail": False, **kind}


@pytest.fixture
def steps(monkeypatch):
    """The runs of each step of a batch, recorded once `go_on` is set. `before(batch, runs)` may raise."""
    step, noted = Batch.step, SimpleNamespace(runs=[], go_on=threading.Event(), before=lambda *_: None)

    def watched(batch, runs):
        noted.go_on.wait(PATIENCE)
        noted.before(batch, runs)
        noted.runs.append(list(runs))
        return step(batch, runs)

    monkeypatch.setattr(Batch, "step", watched)
    return noted


# ---------------------------------------------------------------- texts


def test_texts_are_those_of_the_runs_alone_whoever_joins_and_leaves(pair, queue):
    """Mixed methods, trees, prompts and lengths; every fourth visitor leaves after two rounds."""
    jobs = []
    for number in range(len(KINDS) * len(PROMPTS)):
        prompt, settings = request_of(number)
        jobs.append(submitted(queue, specdec.stream(pair, prompt, **settings)))
        if number % 4 == 3:
            next(jobs[-1].batches(0))
            jobs[-1].close()
        if number % 5 == 4:
            ended(jobs[number - 4])  # later visitors join while the others are at other rounds
    ended(*jobs)
    for number, job in enumerate(jobs):
        prompt, settings = request_of(number)
        alone = specdec.generate(pair, prompt, **settings).token_ids
        assert job.state in ((State.DONE, State.CANCELLED) if job.closed else (State.DONE,))
        assert token_ids(job) == alone[: len(token_ids(job))]
        assert len(token_ids(job)) == len(alone) or job.closed


def test_runs_are_decoded_in_one_batch_and_one_that_comes_later_waits_for_no_end(queue, steps):
    pair = markov_pair(6)
    runs = [specdec.stream(pair, [0], method="ar", seed=seed, max_new_tokens=30) for seed in range(7)]
    jobs = [submitted(queue, run) for run in runs]
    steps.go_on.set()
    next(jobs[0].batches(0))
    late = submitted(queue, specdec.stream(pair, [1], method="ar", max_new_tokens=2))
    ended(*jobs, late)
    assert max(map(len, steps.runs)) >= 6  # the first run may have been advanced alone
    assert any({late.run, runs[0]} <= set(runs_of) for runs_of in steps.runs)


def test_runs_of_two_pairs_are_batches_of_their_own_and_the_pairs_are_forgotten(queue, steps):
    pairs = [markov_pair(6), markov_pair(6, seed=4)]
    alone = [specdec.generate(pairs[n % 2], [0], seed=n, max_new_tokens=20).token_ids for n in range(6)]
    jobs = [submitted(queue, specdec.stream(pairs[n % 2], [0], seed=n, max_new_tokens=20)) for n in range(6)]
    steps.go_on.set()
    ended(*jobs)
    assert [token_ids(job) for job in jobs] == alone
    assert all(len({run.pair for run in runs}) == 1 for runs in steps.runs)
    let_closed_runs_end()
    gone = [weakref.ref(pair) for pair in pairs]
    steps.runs.clear()
    del jobs, pairs
    gc.collect()
    assert [pair() for pair in gone] == [None, None]


# ---------------------------------------------------------------- errors


def test_an_error_ends_its_own_run_after_the_rounds_before_it(pair, queue, monkeypatch):
    """One run fails in its third round, and one cannot begin."""
    prompt, settings = request_of(0)
    failing = SimpleNamespace(name="failing", propose=Mock(side_effect=[[[7]], [[7]], MemoryError]))
    drafters = [None, failing, None, None]
    runs = [specdec.stream(pair, prompt, drafter=drafters[n], **settings | {"seed": n}) for n in range(4)]
    monkeypatch.setattr(runs[2], "begin", lambda _trees: (_ for _ in ()).throw(MemoryError()))
    jobs = [submitted(queue, run) for run in runs]
    ended(*jobs)
    assert [job.state for job in jobs] == [State.DONE, State.FAILED, State.FAILED, State.DONE]
    assert [type(jobs[seed].error) for seed in (1, 2)] == [MemoryError] * 2
    assert [len(jobs[seed].values) for seed in (1, 2)] == [2, 0]
    for seed in (0, 3):
        alone = specdec.generate(pair, prompt, **settings | {"seed": seed})
        assert token_ids(jobs[seed]) == alone.token_ids


def test_a_step_that_fails_as_a_whole_ends_its_runs_and_the_next_one_is_decoded(queue, steps, caplog):
    def failing(_, runs):
        if all(run.rounds for run in runs):
            raise RuntimeError("a bug")

    pair, steps.before = markov_pair(6), failing
    settings = {"method": "ar", "max_new_tokens": 9}
    jobs = [submitted(queue, specdec.stream(pair, [0], seed=seed, **settings)) for seed in range(4)]
    steps.go_on.set()
    ended(*jobs)
    assert {(job.state, str(job.error)) for job in jobs} == {(State.FAILED, "a bug")}
    assert all(job.values for job in jobs), "each keeps the rounds before"
    assert "runs failed" in caplog.text
    steps.before = lambda *_: None
    assert decodes(queue)


def test_an_error_of_the_thread_itself_reaches_all_and_the_next_run_is_decoded(queue, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(page_queue.lazy, "use_threads", lambda _: 1 / 0)
        job = submitted(queue, specdec.stream(markov_pair(6), [0]))
        ended(job)
        assert isinstance(job.error, ZeroDivisionError)
        let_closed_runs_end()
    assert decodes(queue)


def test_a_thread_that_can_not_be_started_costs_one_run_and_not_those_after_it(queue, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(RuntimeError, match="new thread"):
            decodes(queue)
    assert decodes(queue)


# ---------------------------------------------------------------- addresses


def addresses_of_steps(queue, steps, requests):
    """The addresses and runs of each step in which all runs took part. asked: an address and a number of
    drafted tokens for each run."""
    pair = markov_pair(6)
    kinds = [{"topology": specinfer(drafted)} if drafted else {"method": "ar"} for _, drafted in requests]
    runs = [specdec.stream(pair, [0], seed=n, max_new_tokens=60, **kind) for n, kind in enumerate(kinds)]
    address_of = {run: address for run, (address, _) in zip(runs, requests, strict=True)}
    is_complete = []
    steps.before = lambda batch, _: is_complete.append(len(batch) == len(runs))

    def until_all_are_there():
        steps.go_on.wait(PATIENCE)
        return
        yield

    queue.submit(Owner("before"), until_all_are_there())
    jobs = [submitted(queue, run, address_of[run]) for run in runs]
    steps.go_on.set()
    ended(jobs[-1])  # from then on not all runs take part
    for job in jobs:
        job.close()
    ended(*jobs)
    return [
        [(address_of[run], run) for run in stepped]
        for stepped, complete in zip(steps.runs, is_complete, strict=True)
        if complete
    ]


def counts(steps):
    return [Counter(address for address, _ in step) for step in steps]


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["flood"] * 11 + ["one", "other", "other"], {"flood": 2, "one": 1, "other": 2}),
        (["school"] * 9 + ["college"] * 9, {"school": 8, "college": 8}),
        (["alone"] * 20, {"alone": 16}),
        (["large"] * 5, {"large": STEP // 65}),
    ],
    ids=["a flood beside others", "two classes of one size", "one address alone", "large trees"],
)
def test_an_address_with_many_runs_has_few_in_a_step(queue, steps, addresses, expected):
    drafted = {"large": 64}
    requests = [(address, drafted.get(address, 0)) for address in addresses]
    by_step = counts(addresses_of_steps(queue, steps, requests))
    assert by_step
    assert all(step == expected for step in by_step)


@pytest.mark.parametrize(("heavy", "drafted"), [(1, 64), (8, 40)])
def test_an_address_with_large_trees_takes_part_in_fewer_steps(queue, steps, heavy, drafted):
    requests = [("heavy", drafted)] * heavy + [("light", 4)]
    by_step = counts(addresses_of_steps(queue, steps, requests))[:20]
    assert len(by_step) == 20
    assert all(step["light"] == 1 for step in by_step), "nobody waits for a larger tree"
    evaluated = sum(step["heavy"] for step in by_step) * (drafted + 1)
    assert 0 < evaluated <= LIGHT * len(by_step) + drafted, "one step pays for the next"
    assert max(step["heavy"] for step in by_step) == 1, "a step is short, so a newcomer is soon served"


def seconds_of_a_short_run(queue, pair, beside=()):
    """Processor time of this process, which other work on the machine hardly changes. beside: runs of another
    address, which come when the short run has begun."""
    run = specdec.stream(
        pair, "Once upon a time", topology=sequence(4), seed=1, max_new_tokens=40, detail=False
    )
    start, job = time.process_time(), submitted(queue, run, "normal")
    next(job.batches(0))
    flood = [submitted(queue, run, "flood") for run in beside]
    ended(job)
    seconds = time.process_time() - start
    assert len(token_ids(job)) == 40
    assert {job.state for job in flood} <= {State.RUNNING}, "the flood was there all the time"
    for job in flood:
        job.close()
    ended(*flood)
    return seconds


@pytest.mark.parametrize(
    ("prompt", "settings"),
    [
        (PROMPTS[0], {"topology": specinfer(8), "max_new_tokens": 400}),
        ([7] * 480, {"topology": sequence(4), "max_new_tokens": 1}),
    ],
    ids=["the longest texts", "long prompts"],
)
def test_a_short_run_beside_one_address_with_sixteen_runs_takes_a_few_times_as_long(
    pair, queue, prompt, settings
):
    """The fastest of three, because other work on the machine only adds time. It was at most 2.1 times as
    long in six runs of this test."""

    def flood():
        return [specdec.stream(pair, prompt, seed=seed, detail=False, **settings) for seed in range(16)]

    alone = min(seconds_of_a_short_run(queue, pair) for _ in range(3))
    beside = min(seconds_of_a_short_run(queue, pair, flood()) for _ in range(3))
    assert beside <= 3 * alone


def test_a_newcomer_goes_first_for_as_many_rows_as_the_step_had_that_it_waited_for(queue, steps):
    """Runs without a draft count eight rows each. A flood pays `STEP` rows for its step, and takes part again
    when it is less than `LIGHT` ahead."""
    pair, jobs = markov_pair(6), []
    *flood, newcomer = (
        specdec.stream(pair, [0], method="ar", seed=seed, max_new_tokens=40) for seed in range(STEP // 8 + 1)
    )

    def arrive(_, runs):
        if len(runs) == len(flood) == len(jobs):
            jobs.append(submitted(queue, newcomer, "newcomer"))

    steps.before = arrive
    jobs += [submitted(queue, run, "flood") for run in flood]
    steps.go_on.set()
    ended(*jobs)
    ended(jobs[-1])
    first = steps.runs.index([newcomer])
    own = sum(1 for _ in itertools.takewhile(lambda runs: runs == [newcomer], steps.runs[first:]))
    assert own == (STEP - LIGHT) // 8 + 1


def test_forty_visitors_who_come_at_once_have_their_first_round_within_three_steps(queue, steps):
    pair = markov_pair(6)
    runs = [specdec.stream(pair, [0], seed=seed, max_new_tokens=12) for seed in range(40)]
    jobs = [submitted(queue, run, str(seed)) for seed, run in enumerate(runs)]
    steps.go_on.set()
    ended(*jobs)
    assert {*runs} <= {run for stepped in steps.runs[:3] for run in stepped}
    assert {job.state for job in jobs} == {State.DONE}


def test_runs_of_an_address_take_turns_in_its_part_of_a_step(queue, steps):
    addresses = addresses_of_steps(queue, steps, [("flood", 0)] * 8 + [("one", 0)])[:4]
    had = Counter(run for step in addresses for _, run in step)
    assert sorted(had.values()) == [1] * 8 + [4]


# ---------------------------------------------------------------- beginnings


class Trial:
    """Measurements of one key, of three steps each. work: the job of each step, in order."""

    def __init__(self):
        self.work, self.found = [], False
        self.go_on = threading.Event()

    def beginning(self, number, run):
        for _ in range(3):
            if self.found:
                break
            self.go_on.wait(PATIENCE)
            self.work.append(number)
            yield
        self.found = True
        return run


def short(seed=0):
    return specdec.stream(markov_pair(6), [0], method="ar", seed=seed, max_new_tokens=3)


def test_of_forty_runs_that_need_one_measurement_one_measures(queue):
    trial = Trial()
    jobs = [submitted(queue, trial.beginning(n, short(n)), key="key") for n in range(40)]
    wait = jobs[0].beginning(0.001)
    assert [next(wait), next(wait)] == [None, None], "the beginning is told of until the run is there"
    trial.go_on.set()
    list(wait)
    ended(*jobs)
    assert trial.work == [0, 0, 0]
    assert {(job.state, len(job.values)) for job in jobs} == {(State.DONE, 3)}


def test_where_the_one_who_measures_leaves_the_next_one_measures(queue):
    trial = Trial()
    jobs = [submitted(queue, trial.beginning(n, short(n)), key="key") for n in range(3)]
    time.sleep(0.05)
    jobs[0].close()
    trial.go_on.set()
    ended(*jobs)
    assert trial.work in ([0, 1, 1, 1], [1, 1, 1])
    assert (jobs[0].run, len(jobs[1].values), len(jobs[2].values)) == (None, 3, 3)


def test_a_failed_measurement_is_made_by_the_next(queue):
    def failing():
        yield
        raise ValueError("no draft")

    trial = Trial()
    trial.go_on.set()
    jobs = [submitted(queue, each, key="key") for each in (failing(), trial.beginning(1, short()))]
    ended(*jobs)
    assert "no draft" in str(jobs[0].error)
    assert trial.work == [1, 1, 1]


def test_whoever_needs_no_measurement_does_not_wait_for_one(queue):
    def endless():
        while True:
            time.sleep(0.001)
            yield

    measuring = submitted(queue, endless(), "other", key="key")
    job = submitted(queue, short())
    ended(job)
    assert (measuring.state, len(job.values)) == (State.RUNNING, 3)
    measuring.close()
    ended(measuring)


# ---------------------------------------------------------------- turns


def test_a_visitor_who_stops_leaves_with_the_round_in_progress(pair, queue):
    prompt, settings = request_of(0)
    run = specdec.stream(pair, prompt, **settings | {"max_new_tokens": 400})
    with Line(lambda: Bounds(4, 4, 4), queue).seat() as seat:
        assert next(seat.do(unmeasured(run), begins_run=True).batches(0))
    let_closed_runs_end()
    assert run.rounds[-1].finish is None


@pytest.mark.parametrize("runs", [1, 12])
def test_a_measurement_gets_as_much_time_as_the_runs_of_another_address(queue, monkeypatch, runs):
    step, pair = Batch.step, markov_pair(6)
    monkeypatch.setattr(Batch, "step", lambda batch, runs: (time.sleep(0.005), step(batch, runs))[1])
    endless = [specdec.stream(pair, [0], method="ar", seed=n, max_new_tokens=10**6) for n in range(runs)]
    jobs = [submitted(queue, run, "runs") for run in endless]
    next(jobs[-1].batches(0))

    def measuring():
        for number in range(20):
            time.sleep(0.01)
            yield number

    def done():
        return sum(len(job.values) for job in jobs), sum(job.owner.worked for job in jobs)

    start, (rounds, worked) = time.monotonic(), done()
    check = queue.submit(Owner("check"), measuring())
    assert [value for values in check.batches(0) for value in values] == list(range(20))
    assert check.owner.worked > 0.25 * (time.monotonic() - start)
    assert {job.state for job in jobs} == {State.RUNNING}
    assert done()[0] - rounds >= 10, "rounds between the steps"
    assert done()[1] - worked > 0.25 * check.owner.worked
    for job in jobs:
        job.close()
    ended(*jobs)


def test_the_result_and_the_error_of_steps_reach_who_waits_for_them(queue):
    assert queue.submit(Owner(), unmeasured("tree")).wait() == "tree"
    with pytest.raises(ZeroDivisionError):
        queue.submit(Owner(), (1 / 0 for _ in range(3))).wait()
    with pytest.raises(ZeroDivisionError):
        list(submitted(queue, (1 / 0 for _ in range(3))).beginning(PATIENCE))


def test_steps_of_a_closed_job_are_closed(queue):
    steps = (None for _ in itertools.count())
    job = queue.submit(Owner(), steps)
    while job.state is State.WAITING:
        time.sleep(0.001)
    job.close()
    job.wait()
    assert (getgeneratorstate(steps), job.state) == ("GEN_CLOSED", State.CANCELLED)


def test_an_address_pays_for_the_trees_that_auto_exchanges(queue, steps, monkeypatch):
    """Rows and drafts cost no time here, so "auto" goes from a small tree to a large one."""
    add, pair = RoundTimes.add, markov_pair(6)
    monkeypatch.setattr(RoundTimes, "add", lambda times, rounds, *_: add(times, rounds, 0.0, 1.0))
    monkeypatch.setattr(auto, "_SHARE", 1e9)  # trees are chosen in each round, however fast the machine is
    heavy = specdec.stream(pair, [0], topology="auto", seed=1, max_new_tokens=300)
    light = specdec.stream(pair, [0], method="ar", seed=1, max_new_tokens=300)
    jobs = [submitted(queue, heavy, "heavy"), submitted(queue, light, "light")]
    steps.go_on.set()
    ended(*jobs)
    together = [run for run in steps.runs if light in run]
    of_heavy = [run for run in together if heavy in run]
    evaluated = [1 + len(round.nodes) for round in heavy.rounds[: len(of_heavy)]]
    assert min(evaluated) < LIGHT < 2 * LIGHT < max(evaluated)
    assert sum(evaluated) <= LIGHT * len(together) + max(evaluated)


def test_addresses_that_left_are_forgotten(queue):
    pair = markov_pair(6)
    stays = submitted(queue, specdec.stream(pair, [0], method="ar", max_new_tokens=10**6), "stays")
    next(stays.batches(0))
    for number in range(30):
        ended(submitted(queue, specdec.stream(pair, [0], method="ar", max_new_tokens=1), f"visitor {number}"))
    rounds = len(stays.values)
    while len(stays.values) < rounds + 5:
        time.sleep(0.001)
    assert len(queue._paid) <= 2
    assert queue.paid("visitor 0") == 0 < queue.paid("stays")
    stays.close()
    ended(stays)


# ---------------------------------------------------------------- rounds in the order of reading


def test_every_round_comes_once_in_order():
    job = Job(Owner(), unmeasured(None))
    threading.Thread(target=lambda: [*map(job.add, range(1000)), job.end()]).start()
    batches = list(job.batches(0))
    assert list(itertools.chain(*batches)) == list(range(1000))
    assert all(batches)
    empty = Job(Owner(), unmeasured(None))
    empty.end()
    assert list(empty.batches(0)) == []


def test_rounds_wait_for_their_time_but_not_beyond_the_end():
    job = Job(Owner(), unmeasured(None))
    job.add(1)
    batches = job.batches(3600)
    assert next(batches) == [1]  # nobody waits for the first job
    job.add(2)
    job.add(3)
    job.end(ValueError("broken"))
    assert next(batches) == [2, 3]
    with pytest.raises(ValueError, match="broken"):
        next(batches)


def lent(*rounds, error=None):
    """A run in another process that gives these rounds."""
    yield from rounds
    if error:
        raise error


def test_a_lent_run_is_read_in_the_same_way():
    job = BorrowedJob(lent(1, 2, 3))
    assert list(job.beginning(0)) == []
    assert list(job.batches(0)) == [[1], [2], [3]]
    batches = BorrowedJob(lent(1, 2, 3, error=ValueError("broken"))).batches(3600)
    assert [next(batches), next(batches)] == [[1], [2, 3]]
    with pytest.raises(ValueError, match="broken"):
        next(batches)
    unread = BorrowedJob(lent(1))
    unread.close()
    assert list(unread.run) == []
