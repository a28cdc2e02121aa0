"""The measurement of many runs at once counts correctly, and its command runs."""

import json

import pytest
import torch

from research.bench import batch
from specdec.bench.synthetic import PRESETS, synthetic_pair


@pytest.fixture(scope="module")
def pair():
    return synthetic_pair(PRESETS["tiny"], torch.float32)[0]


def test_turns_and_together_decode_the_same_texts(pair):
    alone, beside = (batch.Trial(pair, [[1, 2]], 9, 1).runs(3, 2) for _ in range(2))
    one, both = batch.turns(alone), batch.together(pair, beside)
    assert one.tokens == both.tokens == 27
    assert [run.generation.token_ids for run in alone] == [run.generation.token_ids for run in beside]
    for timed in (one, both):
        assert 0 < timed.first <= min(timed.ends) <= max(timed.ends) == timed.seconds


def test_the_command_adds_a_pair_to_its_results(tmp_path, capsys):
    results = tmp_path / "batch.json"
    results.write_text('{"another": {}}')
    options = ["--pair", "tiny", "--tokens", "4", "--repeats", "1", "--runs", "1,3", "--k", "0,2"]
    threads = torch.get_num_threads()
    batch.main([*options, "--json", str(results)])
    torch.set_num_threads(threads)
    assert "tokens per second of processor time" in capsys.readouterr().out
    another, found = json.loads(results.read_text()).values()
    assert another == {}
    assert [row["runs"] for row in found["rows"]] == [1, 3]
    assert [(row["runs"], row["k"]) for row in found["by_k"]] == [(1, 0), (1, 2), (3, 0), (3, 2)]


@pytest.mark.parametrize("option", [("--runs", "0"), ("--k", "x"), ("--tokens", "0")])
def test_what_does_not_fit_is_told(option):
    with pytest.raises(ValueError, match=option[1]):
        batch.main(["--pair", "tiny", *option])
