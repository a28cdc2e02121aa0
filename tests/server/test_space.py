"""The files of a Space agree: front matter, versions, sizes and models. Also how a Space borrows a GPU."""

import json
import pickle
import re
import subprocess
import sys
from importlib.metadata import version
from types import SimpleNamespace

import gradio as gr
import pytest
import yaml
from packaging.requirements import Requirement

import specdec
from components.page.settings import VisitorSettings
from components.runs import known_pairs, run, zero_gpu
from components.visitors import limits
from tests.conftest import ROOT
from tests.helpers.tiny_checkpoints import save_checkpoint
from tests.helpers.tokenizers import trained_tokenizer

README = (ROOT / "README.md").read_text()
LARGEST = 10_000_000
"""A Space wants files larger than this many bytes in large-file storage."""
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}


@pytest.fixture(scope="module")
def front_matter():
    return yaml.safe_load(README.split("---\n")[1])


@pytest.fixture(scope="module")
def requirements():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    required = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {each.name: each.specifier for each in required}


def test_the_front_matter_is_complete_and_names_what_is_there(front_matter):
    required = {"title", "emoji", "colorFrom", "colorTo", "sdk", "sdk_version", "python_version", "app_file"}
    assert required <= set(front_matter)
    assert front_matter["sdk"] == "gradio"
    assert {front_matter["colorFrom"], front_matter["colorTo"]} <= COLOURS
    assert 0 < len(front_matter["short_description"]) <= 60
    assert re.fullmatch(r"\d+[mh]", front_matter["startup_duration_timeout"])
    assert all(re.fullmatch(r"[a-z0-9-]+", tag) for tag in front_matter["tags"])
    assert (ROOT / front_matter["app_file"]).is_file()
    thumbnail = front_matter.get("thumbnail", "app.py")
    assert thumbnail.startswith("https://") or (ROOT / thumbnail).is_file()


def test_versions_agree(front_matter, requirements):
    assert front_matter["sdk_version"] in requirements["gradio"]
    match = re.search(r"Python (3\.\d+) or newer", README)
    assert tuple(map(int, front_matter["python_version"].split("."))) >= tuple(map(int, match[1].split(".")))
    assert all(version(name) in specifier for name, specifier in requirements.items())
    zero_gpus = ("2.8.0", "2.9.1", "2.10.0", "2.11.0")
    assert all(torch in requirements["torch"] for torch in zero_gpus)


def test_models_of_the_front_matter_are_the_listed_ones(front_matter):
    models = (model for pair in known_pairs.PAIRS for model in (pair.target, pair.draft))
    names = {model.hub_id for model in models if model is not None}
    assert set(front_matter["models"]) == names
    assert {entry.split()[0] for entry in front_matter.get("preload_from_hub", [])} <= names


def test_every_file_is_small_enough_for_a_space():
    process = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if process.returncode:
        pytest.skip("not a checkout: which files are shipped is unknown")
    files = [ROOT / name for name in process.stdout.decode().split("\0") if name]
    sizes = {file: file.stat().st_size for file in files if file.is_file()}
    assert len(sizes) > 50
    assert {str(file): size for file, size in sizes.items() if size > LARGEST} == {}


# The tests below use a stand-in for Hugging Face's package `spaces`, which works only on their machines. The
# stand-in does the parts that this project must handle: a generator with a duration, whose arguments and
# results are pickled.


class Spaces(SimpleNamespace):
    """The stand-in. asked: the requested seconds. refusal: an error instead of a GPU."""

    def __init__(self):
        super().__init__(asked=[], refusal=None, broken=None)

    def GPU(self, task, duration):  # noqa: N802 - as in `spaces`
        def borrowed(*args):
            self.asked.append(duration(*args))
            if self.refusal is not None:
                raise self.refusal
            for update in task(*pickle.loads(pickle.dumps(args))):
                if self.broken is not None:
                    raise self.broken
                yield pickle.loads(pickle.dumps(update))

        return borrowed


@pytest.fixture
def spaces(monkeypatch):
    spaces = Spaces()
    monkeypatch.setitem(sys.modules, "spaces", spaces)
    return spaces


@pytest.fixture(scope="module")
def pairs():
    """The embedded pair twice: one for the GPU, and one to compare it with."""
    return specdec.load_pair("stories"), specdec.load_pair("stories")


@pytest.fixture
def cloud(spaces, pairs):
    """A pair that borrows a GPU for each of its runs, without any measurement yet."""
    pair = pairs[0]
    pair.measurements.clear()
    return zero_gpu.Lender(pair, run.start)


def received(pair, **changes):
    settings = VisitorSettings(**({"prompt": "Once upon a time", "max_new_tokens": 12, "seed": 3} | changes))
    return map(json.loads, run.updates(pair, settings, interval=0.0))


def updates(pair, **changes):
    return [*received(pair, **changes)]


def texts(updates):
    return [
        "".join(round["text"] for u in updates if u["phase"] == phase for round in u["rounds"])
        for phase in ("running", "baseline")
    ]


def said(title, message="why"):
    """An error of `spaces`."""
    return gr.Error(message, title=f"ZeroGPU {title}", print_exception=False)


@pytest.mark.parametrize("topology", ["sequence", "context"])
def test_a_borrowed_run_is_the_same_run(cloud, pairs, spaces, topology):
    settings = {"topology": topology, "k": 6, "baseline": True}
    own, borrowed = updates(pairs[1], **settings), updates(cloud, **settings)
    assert texts(borrowed) == texts(own)
    assert [u["phase"] for u in borrowed[-1:]] == ["done"]
    assert borrowed[-1]["prefill_seconds"] > 0
    assert len(spaces.asked) == 2


def test_seconds_are_few_and_grow_with_the_length(cloud, spaces):
    for length in (8, 120, 160):
        cloud.start(VisitorSettings("Once", max_new_tokens=length, seed=1).checked()).close()
    assert spaces.asked == sorted(spaces.asked)
    assert zero_gpu.LEAST == spaces.asked[0] < spaces.asked[-1] <= zero_gpu.MOST


def test_acceptance_is_measured_in_the_first_run_only(cloud, spaces):
    for _ in range(2):
        updates(cloud, topology="optimal", k=4, temperature=0.7)
    first, second = spaces.asked
    assert first > second
    assert cloud.measurements


def test_without_a_gpu_the_embedded_pair_goes_on_and_says_so(cloud, spaces):
    spaces.refusal = said("quota exceeded", "14s requested vs. 3s left")
    news = updates(cloud)
    message = next(update["message"] for update in news if "message" in update)
    assert "14s requested vs. 3s left" in message
    assert "small story models of this page do this run on the CPU" in message
    assert news[-1]["phase"] == "done"
    assert texts(news)[0]


@pytest.mark.parametrize(
    ("title", "words"),
    [
        *(("quota exceeded", "used up"), ("illegal duration", "used up"), ("pending credits", "used up")),
        *(("queue timeout", "not free"), ("client error", "not free")),
    ],
)
def test_refusals_are_told_in_plain_words(cloud, spaces, title, words):
    spaces.refusal = said(title)
    with pytest.raises(zero_gpu.NoGpuError, match=f"{words}.*why"):
        cloud.start(VisitorSettings("Once", seed=1).checked())


def test_a_run_that_is_broken_off_ends_with_a_message(cloud, spaces, caplog):
    spaces.broken = said("worker error", "GPU task aborted")
    last = updates(cloud)[-1]
    assert last["phase"] == "error"
    assert "fewer tokens" in last["message"]
    assert "GPU task aborted" in caplog.text


@pytest.mark.parametrize(
    ("what", "error"), [("refusal", said("quota exceeded")), ("broken", said("worker error"))]
)
def test_a_gpu_that_is_not_lent_for_the_baseline_leaves_the_run_good(cloud, pairs, spaces, what, error):
    """The GPU is refused when it is requested, or fails during the run."""
    settings, news = {"baseline": True, "method": "ersd"}, []
    expected = texts(updates(pairs[1], **settings))
    for update in received(cloud, **settings):
        news.append(update)
        if news[-1]["phase"] == "baseline":
            setattr(spaces, what, error)
    assert news[-1]["phase"] == "done"
    assert "Plain decoding could not be measured" in news[-1]["message"]
    assert texts(news)[0] == expected[0]
    assert len(texts(news)[1]) < len(expected[1])


def test_a_mistake_of_the_visitor_comes_back_in_full(cloud, spaces):
    message = updates(cloud, prompt="word " * 600)[-1]["message"]
    assert "prompt" in message
    assert "tokens" in message


def test_stopping_gives_the_gpu_back(cloud, spaces):
    borrowed = cloud.start(VisitorSettings("Once", max_new_tokens=40, seed=1).checked())
    next(borrowed)
    borrowed.close()
    assert list(borrowed._updates) == []


def test_a_space_loads_its_pair_checks_it_on_the_cpu_and_moves_it(spaces, monkeypatch):
    moved = []
    monkeypatch.setattr("specdec.models.HFModel.to", lambda model, device: moved.append((model.name, device)))
    monkeypatch.setattr(limits, "_current", limits.Limits())
    folder = specdec.loading.EMBEDDED
    pair = zero_gpu.load(folder / "target", folder / "draft", "float32", run.start)
    assert moved == [("stories/target", "cuda"), ("stories/draft", "cuda")]
    assert isinstance(pair, zero_gpu.Lender)
    most = VisitorSettings("Once", max_new_tokens=limits.current().new_tokens, topology="sequence")
    assert pair.seconds(most) == zero_gpu.MOST


def test_a_space_takes_a_draft_with_another_tokenizer(spaces, monkeypatch, tmp_path):
    monkeypatch.setattr("specdec.models.HFModel.to", lambda model, device: model)
    monkeypatch.setattr(limits, "_current", limits.Limits())
    save_checkpoint(tmp_path, "llama", tokenizer=trained_tokenizer("byte fallback"), vocab_size=400)
    options = specdec.loading.EMBEDDED / "target", tmp_path, "float32"
    own, lender = specdec.load_pair(*options[:2], dtype="float32"), zero_gpu.load(*options, run.start)
    assert isinstance(lender, zero_gpu.Lender)
    settings = {"topology": "sequence", "k": 3, "baseline": True}
    pieces = texts(updates(lender, **settings))
    assert pieces == texts(updates(own, **settings))
    assert pieces[0] == pieces[1]


def test_a_space_without_its_models_falls_back_to_the_embedded_pair(spaces, monkeypatch, caplog):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    pair = zero_gpu.load(None, None, "auto", run.start)
    assert (pair.target.name, str(pair.target.device)) == ("stories/target", "cpu")
    assert isinstance(pair, specdec.ModelPair)
    assert known_pairs.BY_NAME[zero_gpu.DEFAULT].target.hub_id in caplog.text


def test_zero_gpu_is_known_by_its_variable():
    answers = [zero_gpu.here({"SPACES_ZERO_GPU": value}) for value in ("true", "1", "", "false")]
    assert (answers, zero_gpu.here({})) == ([True, True, False, False], False)


def test_a_moved_model_scores_what_it_did(pairs):
    pair = pairs[1]
    settings = {"max_new_tokens": 12, "seed": 3}
    before = specdec.generate(pair, "Once upon a time", **settings)
    pair.target.to("cpu")
    assert pair.target.decoder is not None
    assert specdec.generate(pair, "Once upon a time", **settings).token_ids == before.token_ids
