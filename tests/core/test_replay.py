"""Every recorded run shows what its title says, and the decoder still decodes the same."""

from functools import cache
from statistics import median

import pytest

import specdec
from components.decode import moments, record_runs, traces
from components.page import assets
from components.runs import timing
from tests.conftest import ours, same_arithmetic

RECORDINGS = {name: recording for recording in record_runs.RECORDINGS for name in recording.names()}
NAMES = [*RECORDINGS]
ENTRIES = {entry["name"]: entry for entry in traces.entries()}


def load(name):
    return specdec.Generation.from_json((traces.FOLDER / f"{name}.json").read_text())


def tokens_of(rounds):
    return [token for round in rounds for token in round.tokens]


def arguments_of(name):
    run = load(name)
    return RECORDINGS[name].pair, run.prompt_ids, run.max_new_tokens, run.temperature, run.seed


def decoded(pair, prompt_ids, most, temperature, seed, method="ar", topology=None):
    settings = {"max_new_tokens": most, "temperature": temperature, "seed": seed}
    return specdec.generate(ours(pair), prompt_ids, method=method, topology=topology, **settings)


plain_run = cache(decoded)
"""Two recorded runs of one prompt and seed have one plain text."""


def test_the_index_names_every_recorded_run_and_nothing_else():
    files = {path.stem for path in traces.FOLDER.glob("*.json")} - {"index"}
    assert list(ENTRIES) == NAMES
    assert files == set(NAMES)
    assert len(NAMES) >= 6


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_what_the_decoder_decodes_beside_plain_decoding_of_its_prompt_and_seed(name):
    run, pair = load(name), ours(RECORDINGS[name].pair)
    same_arithmetic(pair, run)
    repeat = decoded(*arguments_of(name), run.method, specdec.Topology(run.paths))
    plain = plain_run(*arguments_of(name))
    ids = pair.chat_prompt(run.prompt) if run.chat else pair.encode(run.prompt)
    assert (list(run.prompt_ids), run.chat) == (ids, RECORDINGS[name].chat)
    assert (repeat.text, repeat.token_ids) == (run.text, run.token_ids)
    assert tokens_of(run.baseline) == tokens_of(plain.rounds)
    assert run.method != "ersd" or plain.text == run.text


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_small_timed_and_says_where_to_look_but_not_where_it_was_recorded(name):
    run, entry = load(name), ENTRIES[name]
    file = traces.FOLDER / f"{name}.json"
    assert file.stat().st_size < record_runs.MOST_BYTES
    assert len(assets.pack(traces._compact_text(file).encode()).gzip) < 150_000
    assert 0 < len(entry["look"]) < 120
    assert len(entry["title"]) < 80
    assert (run.target, run.draft) == record_runs.NAMES[RECORDINGS[name].pair]
    assert all(timing.decoding_seconds(round) > 0 for round in run.baseline)
    assert len(run.timings) >= timing.LEAST
    for repeat in run.timings:
        assert (len(repeat.run), len(repeat.plain)) == (len(run.rounds), len(run.baseline))
        assert min(*repeat.run, *repeat.plain) > 0


@pytest.mark.parametrize("name", ["code", "story"])
def test_an_opening_is_faster_than_its_baseline(name):
    """By the median time of each round, as the page draws them, and in more than half of the repeats."""
    repeats = load(name).timings
    run, plain = (
        sum(map(median, zip(*(getattr(repeat, lane) for repeat in repeats), strict=True)))
        for lane in ("run", "plain")
    )
    assert plain > run
    assert median(sum(repeat.plain) / sum(repeat.run) for repeat in repeats) > 1


@pytest.mark.parametrize("name", ["code", "opening", "story"])
def test_an_opening_shows_what_was_replaced_in_its_first_rounds(name):
    run = load(name)
    assert {"accepted", "correction"} <= {token.kind for round in run.rounds[:4] for token in round.tokens}


def test_gsd_and_ersd_are_recorded_on_the_same_prompt_seed_and_tree():
    gsd, ersd = (load(name) for name in RECORDINGS["parting-gsd"].names())
    assert (gsd.method, ersd.method) == ("gsd", "ersd")
    assert (gsd.prompt, gsd.seed, gsd.paths) == (ersd.prompt, ersd.seed, ersd.paths)
    twins = [ENTRIES[name]["twin"] for name in ("parting-gsd", "parting-ersd")]
    assert twins == ["parting-ersd", "parting-gsd"]


def test_a_finder_says_no_where_there_is_nothing_to_see():
    calm = load("long-run")
    assert moments.early_rejection(calm) is None
    assert moments.undrafted(load("early-rejection")) is None
    assert moments.long_run(load("nobody-drafted")) is None


def test_what_is_recorded_is_what_the_index_points_at():
    for recording in record_runs.RECORDINGS:
        moment = recording.find(*[load(name) for name in recording.names()])
        for name in recording.names():
            assert (ENTRIES[name]["round"], ENTRIES[name]["step"]) == (moment.round, moment.step)


def test_runs_are_written_with_their_entries_and_their_measured_baselines(monkeypatch, tmp_path):
    monkeypatch.setattr(timing, "MOST", timing.LEAST)
    recording, pair = RECORDINGS["story"], ours("stories")
    moment, runs = record_runs.again(pair, recording)
    repeats = [record_runs.timed(pair, recording, run) for run in runs]
    entries = record_runs.write(recording, moment, list(zip(runs, repeats, strict=True)), tmp_path)
    assert [entry["name"] for entry in entries] == recording.names()
    assert {path.stem for path in tmp_path.glob("*.json")} == set(recording.names())
    for name, run, measured in zip(recording.names(), runs, repeats, strict=True):
        written = specdec.Generation.from_json((tmp_path / f"{name}.json").read_text())
        assert (written.method, written.rounds) == (run.method, run.rounds)
        assert written.token_ids == load(name).token_ids  # under ERSD the seed decides the text
        assert written.baseline == tuple(measured.plain_rounds)
        assert tokens_of(written.baseline) == tokens_of(load(name).baseline)
        assert len(written.timings) == timing.LEAST
        for repeat, seconds in zip(written.timings, measured.seconds, strict=True):
            assert repeat.run == pytest.approx(seconds["run"], abs=1e-6)
            assert repeat.plain == pytest.approx(seconds["plain"], abs=1e-6)
