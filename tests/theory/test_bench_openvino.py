"""openvino-genai beside us: its wiring on a stand-in, and, where it is installed, what it says."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch

from specdec.bench import bandwidth, openvino
from specdec.bench.command import main
from specdec.bench.contestants import Workload
from specdec.bench.openvino import DRAFTED, PLAIN, answers, chosen_openvino, folders
from specdec.bench.synthetic import PRESETS, synthetic_pair
from specdec.decoding.run import generate
from specdec.exactness.audit import engines
from specdec.models.openvino import Pipeline, convert_pair
from specdec.probs import Sampling

CRASHES = "bfloat16"
"""A dtype in which the stand-in ends its process."""


class Engine:
    """Says 0, 1, 2, ...; with a draft half of the tokens were drafted."""

    made: ClassVar[list[tuple[tuple, dict]]] = []
    asked: ClassVar[list[tuple[list[int], SimpleNamespace]]] = []

    def __init__(self, *place, **properties):
        self.made.append((place, properties))
        self._drafts = "draft_model" in properties

    def get_generation_config(self):
        return SimpleNamespace()

    def generate(self, ids, config):
        self.asked.append((ids[0].tolist(), config))
        count = config.max_new_tokens
        figures = SimpleNamespace(get_num_accepted_tokens=lambda: count // 2)
        return SimpleNamespace(tokens=[range(count)], extended_perf_metrics=figures if self._drafts else None)


@pytest.fixture
def stand_in(monkeypatch):
    """openvino-genai that answers at once. Files of models are written as empty ones."""
    Engine.made, Engine.asked = [], []
    genai, core = ModuleType("openvino_genai"), ModuleType("openvino")
    genai.LLMPipeline, genai.SchedulerConfig = Engine, SimpleNamespace
    genai.draft_model = lambda *place, **properties: (place, properties)
    core.Tensor = np.asarray
    monkeypatch.setitem(sys.modules, "openvino_genai", genai)
    monkeypatch.setitem(sys.modules, "openvino", core)
    monkeypatch.setattr(openvino, "find_spec", lambda _: True)
    monkeypatch.setattr(openvino, "answers", lambda _, dtype: dtype != CRASHES)

    def written(_pair, place):
        return [str(place / role) for role in ("target", "draft")]

    monkeypatch.setattr(openvino, "convert_pair", written)
    return Engine


@pytest.fixture(scope="module")
def tiny():
    return synthetic_pair(PRESETS["tiny"], torch.float32)[0]


def test_what_is_asked_reaches_the_engine(stand_in):
    said = Pipeline("t", "d", threads=3, dtype="bfloat16").generate(
        [5, 6], seed=7, max_new_tokens=4, temperature=0.5, top_k=9, top_p=0.8, k=2, endless=True
    )
    assert said == ([0, 1, 2, 3], 2)
    place, properties = stand_in.made[0]
    exact = {"INFERENCE_PRECISION_HINT": "bf16", "KV_CACHE_PRECISION": "bf16", "INFERENCE_NUM_THREADS": 3}
    assert place == ("t", "CPU")
    assert properties["draft_model"] == (("d", "CPU"), exact)
    assert properties["scheduler_config"].enable_prefix_caching is False
    assert exact.items() <= properties.items()
    ids, config = stand_in.asked[0]
    assert ids == [5, 6]
    assert vars(config) == {
        "do_sample": True,
        "temperature": 0.5,
        "top_k": 9,
        "top_p": 0.8,
        "max_new_tokens": 4,
        "rng_seed": 7,
        "ignore_eos": True,
        "num_assistant_tokens": 2,
    }
    said = Pipeline("t", backend="SDPA").generate([5], seed=0, max_new_tokens=3, temperature=0)
    assert said == ([0, 1, 2], 3)
    assert stand_in.asked[1][1].do_sample is False
    assert stand_in.made[1][1]["ATTENTION_BACKEND"] == "SDPA"


@pytest.mark.usefixtures("stand_in")
def test_it_takes_part_plainly_and_with_a_draft_at_its_best(tiny, tmp_path):
    found = folders([], {"float32": tiny, "bfloat16": tiny}, tmp_path)
    assert found == {"float32": [str(tmp_path / "float32" / role) for role in ("target", "draft")]}
    plain, drafted = chosen_openvino(found, [1, 2], [2, 3], Sampling(), [Workload([1], 0, 4)])[0]
    assert plain.name == PLAIN
    assert drafted.name.startswith(f"{DRAFTED}, k = ")
    assert plain.threads == drafted.threads
    assert plain.run(Workload([1], 0, 6))[2:4] == (6, 6)
    assert drafted.run(Workload([1], 0, 6))[2:4] == (6, 3)


def test_a_text_that_it_ends_with_an_error_is_repeated_with_another_seed(stand_in, monkeypatch):
    decode = stand_in.generate

    def fails(self, ids, config):
        if config.rng_seed in (7, 8):
            raise RuntimeError("content_length")
        return decode(self, ids, config)

    monkeypatch.setattr(stand_in, "generate", fails)
    run = openvino.openvino(Pipeline("t"), Sampling())
    assert run(Workload([1], 7, 4)).tokens == 4
    assert stand_in.asked[0][1].rng_seed == 7 + openvino.OTHER_SEED
    monkeypatch.setattr(openvino, "OTHER_SEED", 0)
    with pytest.raises(RuntimeError, match="content_length"):
        run(Workload([1], 8, 4))


@pytest.mark.usefixtures("stand_in")
def test_its_lines_stand_in_the_same_table(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bandwidth, "BYTES", 1 << 20)
    path = tmp_path / "bench.json"
    options = ["--smoke", "--dtype", "float32", "--device", "cpu", "--sequences", "2", "--optimal", "2"]
    main([*options, "--synthetic", "tiny", "--openvino", "--json", str(path)])
    result, printed = json.loads(path.read_text()), capsys.readouterr().out
    rows = {row["name"]: row for row in result["rows"]}
    best = max((PLAIN, f"{DRAFTED}, k = 2"), key=lambda name: rows[name]["tokens_per_second"])
    assert rows[best]["ratio"]["openvino-genai"]["value"] == 1.0
    assert rows["specdec ERSD auto"]["ratio"]["openvino-genai"]["value"] < 1.0  # it answers at once
    assert "x openvino-genai" in printed
    assert {"openvino", "openvino-genai"} <= set(result["machine"])


@pytest.mark.usefixtures("stand_in")
def test_what_it_can_not_take_part_with_is_named(tiny, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="nowhere"):
        folders(["nowhere"], {"float32": tiny}, tmp_path)
    with pytest.raises(ValueError, match="float32 or bfloat16"):
        folders([], {"float16": tiny}, tmp_path)
    with pytest.raises(ValueError, match="openvino-draft: there is no draft beside target"):
        engines.engine("openvino-draft", tiny, folders=["target"])
    with pytest.raises(ValueError, match="bfloat16 ended with an error"):
        folders([], {CRASHES: tiny}, tmp_path)
    monkeypatch.setattr(openvino, "find_spec", lambda _: None)
    with pytest.raises(ValueError, match="openvino is not installed"):
        folders([], {"float32": tiny}, tmp_path)


def test_a_process_that_ends_with_an_error_has_no_answer(tmp_path):
    assert not answers(str(tmp_path / "nowhere"), "float32")


@pytest.mark.filterwarnings("ignore")
def test_a_converted_pair_says_greedily_what_the_pair_says(tiny, tmp_path):
    for name in ("openvino", "openvino_genai", "openvino_tokenizers"):
        pytest.importorskip(name)
    target, draft = convert_pair(tiny, tmp_path)
    own = generate(tiny, [5, 6, 7], method="ar", max_new_tokens=16, temperature=0).token_ids
    assert answers(target, "float32")
    pipelines = Pipeline(target), Pipeline(target, backend="SDPA"), Pipeline(target, draft)
    for pipeline in pipelines:
        asked = {"seed": 1, "max_new_tokens": 16, "endless": True}
        assert pipeline.generate([5, 6, 7], temperature=0, **asked).token_ids == own
        assert pipeline.generate([5, 6, 7], **asked) == pipeline.generate([5, 6, 7], **asked)
