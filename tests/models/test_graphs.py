"""Laws of the forward that CUDA graphs are made of, and of who gets one: all but the capture, on a CPU.

`recorded` stands in for the capture: what would go stale in a graph does so there.
"""

from __future__ import annotations

import gc
import inspect
import logging
import threading
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch

import app
import specdec
from components.server import options, zero_gpu
from specdec.bench.command import bench, parser
from specdec.models import HFModel, graphs, static
from specdec.models.graphs import GraphSession, captured
from specdec.models.selfcheck import relative_error
from specdec.models.sessions import LeanSession
from specdec.models.static import StaticForward, static_masks
from specdec.models.ways import UNWINDOWED
from tests.helpers.recorded import recorded
from tests.helpers.tiny_checkpoints import tiny_model
from tests.models.test_lean import MODELS
from tests.models.test_models import Replay, random_line, random_tree


@pytest.fixture(autouse=True)
def _recorded(monkeypatch):
    monkeypatch.setattr(graphs, "captured", recorded)
    monkeypatch.setattr("specdec.models.hf.check_device", lambda *_: None)


def model_with_graphs(dtype=torch.float64, **changes):
    model = HFModel(tiny_model("llama", dtype, **changes), cuda_graphs=True)
    assert model.graphs is not None
    return model


class Both:
    """A session with graphs beside one without: they must score the same."""

    def __init__(self, model, seed):
        self.replay = Replay(model, seed, prefix=5)
        self.plain = LeanSession(model, UNWINDOWED)
        self.plain.prefill(self.replay.committed)
        assert type(self.replay.session) is GraphSession

    def forward(self, parents):
        """The larger error, against plain forwards over each line and against the session without."""
        before = len(self.replay.pending)
        have, want = self.replay.forward(parents)
        tokens = torch.tensor([line[-1] for line in self.replay.pending[before:]])
        return max(relative_error(have, want), relative_error(have, self.plain.forward(tokens, parents)))

    def keep(self, nodes):
        self.replay.keep(nodes)
        self.plain.keep(nodes)


@pytest.mark.parametrize("name", MODELS)
def test_replays_score_what_the_models_own_forward_scores(name):
    model = HFModel(MODELS[name](), cuda_graphs=True)
    replay = Replay(model, seed=1, prefix=9)
    limit = 1e-10 if name == "float64" else 5e-5
    before = model.graphs.replays
    for parents in ([-1, 0, 0, 1], [-1, -1, 1, 2], [-1, 0, 1, 2], [-1, 0, 1, 0]):
        have, want = replay.forward(parents)
        assert relative_error(have, want) < limit
        replay.keep(random_line(replay.rng, parents))
    assert model.graphs.replays > before


def test_half_precision_passes_the_check_as_its_eager_forward_does():
    model = HFModel(tiny_model("llama", torch.bfloat16), cuda_graphs=True)
    assert type(model.session()) is GraphSession
    exact = HFModel(tiny_model("llama", torch.bfloat16).double()).session()
    rounded = [model.session(), LeanSession(model, UNWINDOWED)]
    errors = []
    for token in range(10, 40):
        tokens, parents = torch.tensor([token, token + 1, token + 2]), [-1, 0, 0]
        want, *have = (session.forward(tokens, parents).double() for session in (exact, *rounded))
        errors.append([relative_error(logits, want) for logits in have])
        for session in (exact, *rounded):
            session.keep([0, 2])
    graphed, eager = torch.tensor(errors).amax(0)
    assert graphed < 2 * eager


def test_random_trees_over_many_rounds_in_two_forwards_each():
    both = Both(model_with_graphs(), seed=2)
    rng, before = both.replay.rng, both.replay.model.graphs.replays
    for _ in range(25):
        parents = random_tree(rng, rng.choice([1, 2, 5]))
        assert both.forward(parents) < 1e-10
        more = random_tree(rng, rng.choice([1, 3]), first=len(parents))
        assert both.forward(more) < 1e-10
        both.keep(random_line(rng, parents + more))
    assert both.replay.model.graphs.replays - before > 30
    assert both.replay.model.graphs.fault is None


def test_a_text_grows_through_all_capacities_to_the_end_of_its_context():
    model = model_with_graphs(max_position_embeddings=560)
    assert model.graphs.capacity == 1024
    both = Both(model, seed=3)
    for length in (250, 505, 550):
        for session in (both.replay.session, both.plain):
            session.prefill([7] * (length - session.length))
        both.replay.committed += [7] * (length - len(both.replay.committed))
        for _ in range(4):  # captured, compared and replayed on both sides of 256 and of 512
            assert both.forward([-1, 0, 0]) < 1e-10
            both.keep([0, 2])
    assert {capacity for _, capacity in both.replay.session._slot._shapes} == {256, 512, 1024}
    assert both.replay.session.length == 558
    assert both.forward([-1, 0, -1]) < 1e-10
    with pytest.raises(ValueError, match="context of 560"):
        both.replay.session.forward(torch.tensor([5]), [1])


def test_a_text_that_outgrows_its_slot_goes_on_without(monkeypatch):
    monkeypatch.setattr(graphs, "CAPACITY", 256)
    both = Both(model_with_graphs(), seed=4)
    for session in (both.replay.session, both.plain):
        session.prefill([7] * 245)
    both.replay.committed += [7] * 245
    for _ in range(3):
        assert both.forward([-1, 0, 0, 1]) < 1e-10
        both.keep([0, 1, 3])
    assert both.replay.session._cache.buffer.shape[2] > 256


def test_a_tree_too_wide_for_a_graph_is_scored_without_one():
    both = Both(model_with_graphs(), seed=5)
    before = both.replay.model.graphs.replays
    parents = random_tree(both.replay.rng, static.WIDTH + 1)
    assert both.forward(parents) < 1e-10
    assert both.forward([3]) < 1e-10
    both.keep([0])
    assert both.replay.model.graphs.replays == before
    assert both.forward([-1]) < 1e-10


def test_logits_stay_when_others_are_replayed():
    session = model_with_graphs().session()
    kept = [session.forward(torch.tensor([token]), [-1]) for token in range(10, 18)]
    copies = [logits.clone() for logits in kept]
    for _ in range(4):
        session.forward(torch.tensor([30]), [-1])
    assert all(map(torch.equal, kept, copies))
    assert len({logits.data_ptr() for logits in kept}) == len(kept)


def test_whole_runs_are_the_same_token_for_token():
    texts = []
    for cuda_graphs in (True, False):
        models = [
            HFModel(
                tiny_model("llama", torch.float64, seed, num_hidden_layers=layers), cuda_graphs=cuda_graphs
            )
            for seed, layers in ((0, 3), (0, 2))
        ]
        pair = specdec.ModelPair(*models)
        pair.eos_ids = frozenset()
        for topology in (specdec.topology.sequence(3), specdec.topology.specinfer(8)):
            for method in ("ersd", "gsd"):
                asked = {"method": method, "topology": topology, "max_new_tokens": 20, "seed": 6}
                run = specdec.generate(pair, [5, 6], **asked)
                texts.append((cuda_graphs, run.token_ids))
        assert cuda_graphs is any(model.graphs and model.graphs.replays > 20 for model in models)
    with_graphs, without = ([ids for on, ids in texts if on is wanted] for wanted in (True, False))
    assert with_graphs == without


# What would go wrong on a GPU only, put there on purpose: all of it has to be found.


def _frozen_length(self, token_ids, masks, length):
    """Loads all but the length, as if it were a number of Python's."""
    self._token_ids.copy_(token_ids)
    self._places.copy_(masks.places)
    self._bias.copy_(masks.bias)
    self._length.fill_(6)


def _frozen_tokens(self, token_ids, masks, length):
    if not self._token_ids.any():
        self._token_ids.copy_(token_ids)
    self._places.copy_(masks.places)
    self._bias.copy_(masks.bias)
    self._length.fill_(length)


def _number(self):
    """A forward that slices by a Python number: right when it is captured, and wrong ever after."""
    length = int(self._length)
    numbers = self._places[1]
    kv = self._kv[:, :, : length + int(numbers[-1]) + 1]
    mask = self._bias[:, (self._columns[: kv.shape[2]] - length).clamp(0, static.WIDTH + 1)][None, None]
    turns = self._turns[length + self._places[0]]
    return self._decoder.logits(self._decoder.hidden(self._token_ids, kv, length + numbers, turns, mask))


@pytest.mark.parametrize(
    ("name", "fault"), [("load", _frozen_length), ("load", _frozen_tokens), ("__call__", _number)]
)
def test_a_graph_that_does_not_follow_its_inputs_is_never_used(monkeypatch, caplog, name, fault):
    monkeypatch.setattr(StaticForward, name, fault)
    model = HFModel(tiny_model("llama"), cuda_graphs=True)
    assert model.graphs is None
    assert type(model.session()) is type(HFModel(tiny_model("llama")).session())
    assert len(caplog.records) == 1
    assert "without CUDA graphs" in caplog.text


def test_the_forward_that_slices_by_numbers_is_right_but_for_its_replay(monkeypatch):
    monkeypatch.setattr(StaticForward, "__call__", _number)
    monkeypatch.setattr(graphs, "captured", captured)  # a CPU's: the forward itself
    assert both_agree(model_with_graphs(), rounds=5)


def both_agree(model, rounds):
    both = Both(model, seed=7)
    errors = []
    for _ in range(rounds):
        errors.append(both.forward([-1, 0, 0]))
        both.keep([0, 1])
    return max(errors) < 1e-10


def test_what_can_not_be_captured_is_told_once_and_runs_without(monkeypatch, caplog):
    def refused(*_):
        raise RuntimeError("operation not permitted when stream is capturing\nCUDA kernel errors might ...")

    model = model_with_graphs()
    before, running = model.graphs.replays, Both(model, seed=8)
    monkeypatch.setattr(graphs, "captured", refused)
    for _ in range(4):
        for parents in ([-1, 0, 1, 2], [-1, 0, 0, 1, 1, 2]):  # shapes that the check did not capture
            assert running.forward(parents) < 1e-10
            running.keep([0])
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "RuntimeError: operation not permitted when stream is capturing" in caplog.text
    assert type(model.session()) is LeanSession
    assert model.graphs.replays == before


def test_a_new_graph_that_scores_otherwise_ends_all_of_them(monkeypatch, caplog):
    model = model_with_graphs()
    running = Both(model, seed=9)
    monkeypatch.setattr(graphs, "captured", lambda run, *_: lambda: run() * 1.01 + 0.1)
    for _ in range(6):
        assert running.forward([-1, 0, 1, 2]) < 1e-10
        running.keep([0])
    assert "off by" in caplog.text
    assert len(caplog.records) == 1
    assert type(model.session()) is LeanSession


def test_slots_are_lent_to_one_session_at_a_time_and_come_back():
    model = model_with_graphs()
    first, second = Both(model, 10), Both(model, 11)
    assert first.replay.session._slot is not second.replay.session._slot
    for _ in range(5):
        for both in (first, second):
            assert both.forward([-1, 0]) < 1e-10
            both.keep([0, 1])
    slot = second.replay.session._slot
    del second, both
    gc.collect()
    assert model.session()._slot is slot


def test_what_a_broken_run_leaves_behind_does_not_reach_the_next():
    model = model_with_graphs()
    session = model.session()
    slot = session._slot
    with torch.inference_mode():
        slot.kv.fill_(torch.nan)
    del session
    both = Both(model, 12)
    assert both.replay.session._slot is slot
    assert both.forward([-1, 0]) < 1e-10


def test_without_a_free_slot_or_memory_a_session_is_an_ordinary_one(monkeypatch, caplog):
    model = model_with_graphs()
    held = [model.session() for _ in range(graphs.SLOTS)]
    assert {type(session) for session in held} == {GraphSession}
    assert len({id(session._slot) for session in held}) == graphs.SLOTS
    assert [type(model.session()) for _ in range(2)] == [LeanSession] * 2
    assert caplog.text.count("has no CUDA graphs: all 8") == 1
    monkeypatch.setattr(graphs, "free", lambda where: 1000)
    other = HFModel(tiny_model("llama"), cuda_graphs=True)
    assert other.graphs is None  # it could not be checked
    assert "less than twice" in caplog.text


def test_threads_with_a_session_each_do_not_mix_their_results():
    model = model_with_graphs()
    several = [Both(model, seed) for seed in range(13, 16)]
    worst = [0.0] * len(several)

    def run(index):
        for _ in range(12):
            worst[index] = max(worst[index], several[index].forward([-1, 0, 0]))
            several[index].keep([0, 2])

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(several))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(worst) < 1e-10


def test_a_mask_row_has_a_column_for_the_prefix_each_pending_node_and_free_places():
    masks = static_masks((-1, 0, 0, 2), 1, torch.float32, torch.device("cpu"), True)
    seen = (masks.bias == 0).int()
    #                                prefix, nodes 0 to 3, free places
    assert seen[:, :6].tolist() == [[1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], [1, 1, 0, 1, 1, 0]]
    assert not seen[:, 6:].any()
    assert masks.places.tolist() == [[1, 1, 2], [1, 2, 3]]


# The capture itself, between stand-ins: in which order, and what a failure leaves behind.


class Cuda(SimpleNamespace):
    """Streams that are only names, and a capture that may be refused at its end."""

    def __init__(self, refusal=None):
        super().__init__(now="main", done=[], refusal=refusal, CUDAGraph=self._graph)

    def _graph(self):
        return SimpleNamespace(replay=lambda: self.done.append("replay"))

    def device(self, device):
        return nullcontext()

    def current_stream(self, device):
        return Stream(self.now, self.done)

    @contextmanager
    def stream(self, stream):
        before, self.now = self.now, stream.name
        try:
            yield
        finally:
            self.now = before

    @contextmanager
    def graph(self, graph, pool, stream, capture_error_mode):
        inspect.signature(torch.cuda.graph).bind(graph, pool, stream, capture_error_mode=capture_error_mode)
        self.now = stream.name
        yield
        if self.refusal is not None:
            raise self.refusal
        self.now = "main"


class Stream(NamedTuple):
    name: str
    done: list

    def wait_stream(self, other):
        self.done.append(f"{self.name} waits for {other.name}")


def capture(monkeypatch, cuda):
    monkeypatch.setattr(graphs, "torch", SimpleNamespace(cuda=cuda))
    run = lambda: cuda.done.append(f"run in {cuda.now}") or "logits"  # noqa: E731
    return captured(run, torch.device("cuda"), Stream("aside", cuda.done), "pool")


def test_a_capture_warms_up_aside_and_a_replay_gives_the_result_of_the_capture(monkeypatch):
    cuda = Cuda()
    replay = capture(monkeypatch, cuda)
    steps = ["aside waits for main", "run in aside", "main waits for aside", "run in aside"]
    assert cuda.done == steps
    assert (replay(), cuda.done[-1], cuda.now) == ("logits", "replay", "main")


def test_a_refused_capture_leaves_the_stream_as_it_was(monkeypatch):
    cuda = Cuda(refusal=RuntimeError("operation failed due to a previous error during capture"))
    with pytest.raises(RuntimeError, match="previous error"):
        capture(monkeypatch, cuda)
    assert cuda.now == "main"


# Who may ask for them.


@pytest.fixture
def unpatched(monkeypatch):
    monkeypatch.undo()


@pytest.mark.usefixtures("unpatched")
def test_on_a_cpu_they_are_refused():
    with pytest.raises(ValueError, match="cuda_graphs = True: device = 'cpu' is no CUDA device"):
        HFModel(tiny_model("llama"), cuda_graphs=True)


def test_a_model_without_a_lean_forward_is_refused():
    with pytest.raises(
        ValueError, match="cuda_graphs = True: GPT2LMHeadModel does not run on the lean forward"
    ):
        HFModel(tiny_model("gpt2"), cuda_graphs=True)


def test_a_model_with_graphs_is_not_moved():
    with pytest.raises(ValueError, match="can't be moved"):
        model_with_graphs().to("cpu")


@pytest.mark.usefixtures("unpatched")
@pytest.mark.parametrize("device", ["cpu", "auto", torch.device("cpu")])
def test_a_pair_for_a_cpu_is_refused_before_anything_is_read(device):
    if torch.cuda.is_available() and device == "auto":
        pytest.skip("auto is a GPU here")
    with pytest.raises(ValueError, match=rf"cuda_graphs = True: device = '{device}' is no CUDA device"):
        specdec.load_pair("/nowhere", "/nowhere", device=device, cuda_graphs=True)


def test_a_loaded_pair_has_them_only_where_they_were_asked_for(monkeypatch):
    monkeypatch.setattr("specdec.models.load.check_device", lambda *_: None)
    pair = specdec.load_pair(device="cpu", cuda_graphs=True)
    assert pair.target.graphs.replays > 0
    assert "by one CUDA graph" in pair.draft.capability_reason
    assert specdec.load_pair(device="cpu").target.graphs is None


@pytest.mark.parametrize(
    ("variable", "arguments", "on"),
    [(None, [], False), ("1", [], True), ("0", ["--cuda-graphs"], True), ("1", ["--no-cuda-graphs"], False)],
)
def test_the_server_takes_them_from_its_command_line_or_a_variable(monkeypatch, variable, arguments, on):
    if variable is not None:
        monkeypatch.setenv("SPECDEC_CUDA_GRAPHS", variable)
    asked = []
    monkeypatch.setattr(specdec, "load_pair", lambda *_, **options: asked.append(options["cuda_graphs"]))
    app._load(options.parse(arguments))
    assert asked == [on]


def test_a_variable_that_is_neither_is_named(monkeypatch, capsys):
    monkeypatch.setenv("SPECDEC_CUDA_GRAPHS", "maybe")
    with pytest.raises(SystemExit):
        options.parse([])
    assert "SPECDEC_CUDA_GRAPHS = 'maybe' is neither 0 nor 1" in capsys.readouterr().err


def test_on_zero_gpu_they_are_refused_before_the_page_is_built(monkeypatch):
    monkeypatch.setattr(zero_gpu, "here", lambda: True)
    with pytest.raises(SystemExit, match="cuda_graphs = True: on ZeroGPU"):
        app.main(["--cuda-graphs"])


@pytest.mark.usefixtures("unpatched")
def test_a_server_without_a_gpu_ends_at_once(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="error: cuda_graphs = True: device = 'auto' is no CUDA device"):
        app.main(["--cuda-graphs"])


def test_the_benchmark_of_a_gpu_runs_at_a_tiny_scale_and_says_what_was_replayed(monkeypatch):
    monkeypatch.setattr("specdec.bench.synthetic.check_device", lambda *_: None)
    monkeypatch.setattr("specdec.bench.bandwidth.BYTES", 1 << 20)
    monkeypatch.setattr("specdec.auto._TRIAL_TOKENS", 24)
    shapes = ["--target-shape", "3,64,96,4,2,16", "--draft-shape", "1,32,48,2,2,16", "--vocabulary", "257"]
    trees = ["--sequences", "2", "--optimal", "3"]
    arguments = ["--synthetic", "8b", *shapes, *trees, "--dtype", "bfloat16", "--device", "cpu", "--smoke"]
    result = bench(parser().parse_args([*arguments, "--cuda-graphs"]))
    for model in result["graphs"]["bfloat16"].values():
        assert model["replays"] > 50
        assert model["fault"] is None
    assert result["pair"]["acceptance"] == pytest.approx(0.78, abs=0.05)
    shares = {row["name"] for row in result["rows"] if row.get("bandwidth_share", 0) > 0}
    assert shares == {"transformers autoregressive", "specdec autoregressive"}
