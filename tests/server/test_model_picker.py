"""Loading models from folders and from a hub, by the code and by the page, and models that are refused."""

import asyncio
import gc
import json
import re
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import httpx
import pytest
from huggingface_hub.errors import HfHubHTTPError

import app
import specdec
from components.decode import models as models_panel
from components.page.settings import VisitorSettings
from components.runs import known_pairs, run
from components.runs.jobs import Closed
from components.runs.lazy import LazyPair, present, shared
from components.server import access, options
from components.server.access import FIXED, LISTED, OWN, Access
from components.server.loading import Choice, Loading
from specdec.models import source
from tests.helpers.small_hub import serving
from tests.helpers.tiny_checkpoints import save_checkpoint
from tests.helpers.tokenizers import byte_level_tokenizer

FAMILIES = ("llama", "gpt2")  # tests/models has all
SERVICE_UNAVAILABLE = httpx.Response(503, request=httpx.Request("GET", "https://huggingface.co"))
ON_HUB = Choice("the pair", "tests/target", "tests/draft", "cpu", "float32")
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
save = partial(save_checkpoint, tokenizer=byte_level_tokenizer())


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with a target and a draft of each family, and a pair that chats."""
    root = tmp_path_factory.mktemp("models")
    for family in FAMILIES:
        save(root / f"{family}-target", family)
        save(root / f"{family}-draft", family, seed=1)
    chatting = byte_level_tokenizer()
    chatting.chat_template = TEMPLATE
    save(root / "chat", "llama", tokenizer=chatting)
    save(root / "other", "llama", tokenizer=byte_level_tokenizer(280))
    return root


@pytest.fixture
def hub(root, tmp_path, monkeypatch):
    """A hub with two models and an empty cache. No other machine is contacted."""
    models = {"tests/target": root / "llama-target", "tests/draft": root / "llama-draft"}
    with serving(models, monkeypatch, tmp_path / "cache") as hub:
        yield hub


@pytest.fixture(scope="module")
def embedded():
    return specdec.load_pair("stories")


@pytest.fixture(autouse=True)
def given_back(monkeypatch):
    """Giving memory back is only counted: here it would take longer than the loads of small models."""
    counted = Mock()
    monkeypatch.setattr("components.server.memory.give_back", counted)
    return counted


def wait_for_the_end(page):
    while page.state()["status"] in ("loading", "cancelling"):
        time.sleep(0.01)


def loaded(choice, pair, load=None):
    """The state that the page would show after this choice was loaded."""
    page = Loading(pair, load)
    page.begin(choice)
    wait_for_the_end(page)
    return page.state()


def own(root, target, draft, rule=OWN):
    return Access(rule, root).choice(OWN, target, draft, "float32", "cpu")


def state_of(page):
    return asyncio.run(page.functions["models/state"](None))


def load(page, target, draft, **more):
    """The updates for a visitor who loads own models."""
    settings = {"pair": OWN, "target": target, "draft": draft, "dtype": "float32", "device": "cpu"}
    return listened(page.streams["load_pair"](**(settings | more)))


def listened(updates):
    """The states of a load, as its visitor receives them. Closing the generator is leaving the page."""

    async def received():
        return await anext(updates, "null")

    with asyncio.Runner() as runner:
        try:
            while (state := json.loads(runner.run(received()))) is not None:
                yield state
        finally:
            runner.run(updates.aclose())


def test_a_pair_is_loaded_through_the_page_and_decodes_exactly(root, embedded, given_back):
    pair = shared(embedded)
    states = list(load(app.build(pair, Access(OWN, root)), "gpt2-target", "gpt2-draft"))
    assert (states[0]["status"], states[-1]["status"]) == ("loading", "ready"), states[-1]
    assert given_back.called
    names = [Path(model["name"]).name for model in states[-1]["models"]]
    assert names == ["gpt2-target", "gpt2-draft"]
    settings = VisitorSettings("the cat", k=3, max_new_tokens=20, seed=5)
    updates = [json.loads(update) for update in run.updates(pair, settings)]
    plain = specdec.generate(pair.load(), "the cat", method="ar", max_new_tokens=20, seed=5)
    assert [token["id"] for u in updates for r in u["rounds"] for token in r["tokens"]] == plain.token_ids


def test_the_pair_before_is_freed_and_a_run_ends_with_what_it_began(root):
    pair = LazyPair(lambda: specdec.load_pair(root / "llama-target", root / "llama-draft"))
    target = weakref.ref(pair.load().target.module)
    running = run.start(pair, VisitorSettings("the cat", max_new_tokens=12, seed=1).checked())
    first = next(running)
    assert loaded(own(root, "gpt2-target", "gpt2-draft"), pair)["status"] == "ready"
    assert present(pair).target.name.endswith("gpt2-target")
    rounds = [first, *running]
    alone = specdec.generate(
        running.pair, "the cat", topology=specdec.topology.sequence(4), max_new_tokens=12, seed=1
    )
    assert [token.id for round in rounds for token in round.tokens] == alone.token_ids
    assert target() is not None
    del running, alone, rounds, first
    gc.collect()
    assert target() is None


def test_a_draft_with_another_tokenizer_is_loaded_and_its_reach_is_said(root, embedded):
    state = loaded(own(root, "llama-target", "other"), shared(embedded))
    assert state["status"] == "ready"
    assert re.search(r"another tokenizer.* \d+% of its probability", state["models"][1]["note"])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nothing-there", "not a local folder"),
        ("", "target is empty"),
        ("../models", "not in the folder"),
        ("/etc", "not in the folder"),
        ("a\0b", "not a name"),
        ("a\ud800b", "not a name"),
        ("x" * 300, "no hub id"),
        ("x" * 2000, "not a name"),
        (None, "target = None"),
        ("x/y/z", "nor a hub id"),
        ("<img src=x onerror=alert(1)>", "hub id"),
    ],
)
def test_what_can_not_be_loaded_leaves_the_pair_and_says_why(root, embedded, monkeypatch, target, message):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    pair = shared(embedded)
    try:
        text = loaded(own(root, target, "llama-draft"), pair)["message"]
    except ValueError as error:
        text = str(error)
    assert message in text
    assert str(root) not in text
    assert pair.load() is embedded


@pytest.mark.parametrize(
    ("name", "harm", "message"),
    [
        ("bad", lambda bad: (bad / "model.safetensors").unlink(), "model.safetensors is missing"),
        ("bad", lambda bad: (bad / "config.json").write_text("{"), "config.json"),
        ("bad", lambda bad: (bad / "tokenizer.json").write_text("{"), "no tokenizer"),
        ("bad/bad.gguf", lambda bad: (bad / "bad.gguf").write_bytes(b"GGUF"), "bad.gguf"),
    ],
    ids=["weights", "config", "tokenizer", "gguf"],
)
def test_a_broken_folder_or_file_is_explained_without_its_place(embedded, tmp_path, name, harm, message):
    models = tmp_path / "models"
    save(models / "bad", "llama")
    harm(models / "bad")
    choice = own(models, name, "bad")
    assert choice.target == str(models / name)
    state = loaded(choice, shared(embedded))
    assert state["status"] == "failed"
    assert message in state["message"]
    assert "bad" in state["message"]
    assert str(tmp_path) not in state["message"]
    assert "Traceback" not in state["message"]


def test_a_model_is_fetched_from_a_hub_with_its_bytes_reported_and_then_needs_no_network(hub, monkeypatch):
    reports = []
    pair = specdec.load_pair("tests/target", "tests/draft", dtype="float32", report=reports.append)
    assert (pair.target.name, pair.draft.name) == ("tests/target", "tests/draft")
    fetched = [
        progress for progress in reports if (progress.stage, progress.name) == ("fetching", "tests/target")
    ]
    assert [progress.done for progress in fetched] == sorted(progress.done for progress in fetched)
    weights = (hub.models["tests/target"] / "model.safetensors").stat().st_size
    assert weights < fetched[-1].done == fetched[-1].total < 2 * weights
    assert {progress.stage for progress in reports} == {"asking", "fetching", "reading", "checking"}
    num_bytes = hub.sent
    specdec.load_pair("tests/target", "tests/draft")
    assert hub.sent - num_bytes < 100_000  # lists of files, without weights
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert specdec.load_pair("tests/target", "tests/draft").target.name == "tests/target"


def test_a_hub_that_is_out_of_reach_is_told_in_seconds(hub, embedded):
    hub.shutdown()
    hub.server_close()
    start = time.monotonic()
    message = loaded(ON_HUB, shared(embedded))["message"]
    assert time.monotonic() - start < source.TIMEOUT + 30  # 30: the seconds that a busy machine may add
    assert "the hub is out of reach: there is no network here, no answer from it" in message
    assert "rrno" not in message


def test_what_breaks_a_download_off_is_told_in_words(hub, embedded, monkeypatch):
    for error, words in (
        (HfHubHTTPError("503", response=SERVICE_UNAVAILABLE), "the hub answers with status 503 now"),
        (OSError(28, "No space left on device"), "the disk says 'No space left on device'"),
        (OSError(-2, "Name or service not known"), "the hub is out of reach"),
        (ConnectionResetError(104, "Connection reset by peer"), "the hub is out of reach"),
        (TimeoutError("timed out"), "the hub is out of reach"),
    ):
        monkeypatch.setattr(source, "hf_hub_download", Mock(side_effect=error))
        message = loaded(ON_HUB, shared(embedded))["message"]
        assert words in message
        assert "try again" in message
        assert "rrno" not in message


def test_two_loads_at_once_report_their_own_weights(root):
    """The only hook for progress that transformers has would give the progress of one load to the other."""
    names = [str(root / name) for name in ("llama-target", "gpt2-target")]
    reports = {name: [] for name in names}
    start = threading.Barrier(2)

    def load(name):
        def report(progress):
            if progress.stage == "reading":
                reports[name].append(progress)
                time.sleep(0.01)  # makes both loads read at the same time

        start.wait(60)
        specdec.load_pair(name, report=report)

    with ThreadPoolExecutor() as threads:
        list(threads.map(load, names))
    for name in names:
        counted = reports[name][1:]  # the first report only says that reading begins
        assert {progress.name for progress in reports[name]} == {name}
        assert [progress.done for progress in counted] == list(range(counted[-1].total))


def test_a_hub_says_no(hub, embedded, tmp_path):
    pickled = save(tmp_path / "pickled", "llama")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    hub.models |= {"tests/gated": hub.models["tests/target"], "tests/pickled": pickled}
    hub.gated.add("tests/gated")
    says = {"tests/unknown": "not found on the hub", "tests/gated": "gated", "tests/pickled": "safetensors"}
    for name, message in says.items():
        state = loaded(Choice("t", name, "tests/draft", "cpu"), shared(embedded))
        assert state["status"] == "failed"
        assert message in state["message"]


def test_a_download_is_cancelled_in_its_middle_and_goes_on_later(hub, embedded):
    hub.seconds_per_chunk = 0.05
    pair = shared(embedded)
    page = Loading(pair)
    page.begin(ON_HUB)
    while page.state().get("done", 0) < 60_000:
        assert page.state()["status"] == "loading", page.state()
        time.sleep(0.01)
    with pytest.raises(ValueError, match="the pair is being loaded"):
        page.begin(Choice("another"))
    settings = VisitorSettings("Once", max_new_tokens=4, seed=1)
    assert json.loads(list(run.updates(pair, settings))[-1])["phase"] == "done"  # the old pair stays in use
    page.cancel()
    assert page.state()["status"] in ("cancelling", "cancelled")
    wait_for_the_end(page)
    assert (page.state()["status"], pair.load()) == ("cancelled", embedded)
    hub.seconds_per_chunk = 0.0
    page.begin(ON_HUB)
    wait_for_the_end(page)
    assert page.state()["status"] == "ready"


def test_reading_weights_is_cancelled_between_two_of_them(root):
    def stop_at(progress):
        reports.append(progress)
        if progress.stage == "reading" and progress.done == 3:
            raise Closed

    reports = []
    with pytest.raises(Closed):
        specdec.load_pair(root / "llama-target", report=stop_at)
    assert reports[-1].total > 3


def test_folders_beside_the_servers_own_files_are_not_among_those_it_offers(tmp_path, monkeypatch):
    monkeypatch.chdir(Path(app.__file__).parent)
    for name in ("assets/stories", "specdec"):
        with pytest.raises(ValueError, match="is not a folder or GGUF file among the models of this server"):
            own(tmp_path, name, "Qwen/Qwen3-0.6B")
    assert own(tmp_path, "Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B").target == "Qwen/Qwen3-8B"


def test_only_listed_pairs_where_the_rule_says_so():
    access = Access(LISTED)
    for pair in known_pairs.PAIRS:
        choice = access.choice(pair.name, "ignored", "ignored", "auto", "auto")
        assert choice.target == (pair.shipped or pair.target.hub_id)
    for name in (OWN, "qwen", "", None, ["stories"], {}):
        with pytest.raises(ValueError, match=r"listed|not one of|not a name"):
            access.choice(name, "/etc", "/etc", "auto", "auto")
    with pytest.raises(ValueError, match="chosen"):
        Access(FIXED).choice("stories", "", "", "auto", "auto")


@pytest.mark.parametrize(
    ("options", "environment", "rule"),
    [
        ([], {}, OWN),
        (["--host", "127.0.0.1"], {}, OWN),
        (["--host", "0.0.0.0"], {}, LISTED),
        (["--share"], {}, LISTED),
        ([], {"GRADIO_SERVER_NAME": "0.0.0.0"}, LISTED),
        ([], {"SPACE_ID": "someone/space"}, FIXED),
        (["--proxy", "10.0.0.7"], {}, FIXED),
        (["--proxy", "0"], {}, OWN),
        (["--proxy", "10.0.0.7", "--models", "listed"], {}, LISTED),
        (["--models", "listed"], {"SPACE_ID": "someone/space"}, LISTED),
        ([], {"SPACE_ID": "someone/space", "SPECDEC_MODELS": "fixed"}, FIXED),
        (["--models", "own", "--share"], {}, OWN),
        (["--models", "own"], {"SPACES_ZERO_GPU": "true"}, FIXED),
    ],
)
def test_the_rule_and_the_key_fit_who_can_reach_the_page(options, environment, rule):
    access = allowed(options, environment)
    assert access.rule == rule
    local = options in ([], ["--host", "127.0.0.1"], ["--proxy", "0"]) and not environment
    assert (access.key is None) == (local or rule == FIXED)
    assert access.key is None or (len(access.key) >= 16 and access.key not in repr(access))
    assert (
        allowed([*options, "--models", "listed", "--models-key", "mellon-mellon"], {}).key == "mellon-mellon"
    )


def test_a_wrong_rule_or_key_or_draft_is_named(root):
    """`SPECDEC_MODELS` also names the folder of the coder pair."""
    assert allowed([], {"SPECDEC_MODELS": "/"}).rule == OWN
    with pytest.raises(ValueError, match="models = 'fixd' is not one of"):
        allowed([], {"SPECDEC_MODELS": "fixd"})
    with pytest.raises(ValueError, match="models-key has 3 characters; give at least 8"):
        Access(LISTED, key="key")
    with pytest.raises(ValueError, match=r"draft = \['llama-draft'\]"):
        own(root, "llama-target", ["llama-draft"])


def allowed(arguments, environment):
    return access.from_options(options.parse(arguments, environment), environment)


@pytest.fixture
def public(root, embedded):
    """A page that other machines can reach, its pair, and a load that continues until it is cancelled."""
    go_on, pair = threading.Event(), shared(embedded)

    def load(*_args, report, **_options):
        while not go_on.wait(0.01):
            report(SimpleNamespace(_asdict=lambda: {"stage": "reading"}))
        return embedded

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("components.runs.lazy.load", load)
        yield models_panel.panel(pair, Access(OWN, root, key="open-sesame"))
        go_on.set()


WANTED = ("llama-target", "llama-draft")


def test_a_load_is_begun_and_cancelled_by_whoever_has_the_key_and_by_no_stranger(public):
    for key in ("", "open", None, 5, ["open-sesame"], "\ud800", "open-sesame "):
        [answer] = load(public, *WANTED, key=key)
        assert answer["error"] == "The key is not the one that the server printed at its start."
        assert state_of(public)["status"] == "rest"
    cancel, updates = public.functions["models/cancel"], load(public, *WANTED, key="open-sesame")
    assert next(updates)["status"] == "loading"
    for body in ({}, {"key": "x"}, {"key": "\ud800"}, {"key": 5}, None, {"key": None}):
        assert "error" in cancel(body)
    assert state_of(public)["status"] == "loading"
    assert cancel({"key": "open-sesame"})["status"] in ("cancelling", "cancelled")
    assert list(updates)[-1]["status"] == "cancelled"


def test_a_load_ends_when_its_visitor_leaves(public):
    updates = load(public, *WANTED, key="open-sesame")
    assert next(updates)["status"] == "loading"
    assert state_of(public)["status"] == "loading"
    updates.close()
    while state_of(public)["status"] == "cancelling":
        time.sleep(0.01)
    assert state_of(public)["status"] == "cancelled"


def test_where_no_thread_is_left_a_load_is_refused_and_the_next_one_begins(public, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        [answer] = load(public, *WANTED, key="open-sesame")
    assert "no thread left" in answer["error"]
    assert next(load(public, *WANTED, key="open-sesame"))["status"] == "loading"


@pytest.mark.parametrize(("rule", "names"), [(OWN, 8), (LISTED, 7), (FIXED, 0)])
def test_the_page_offers_what_the_rule_allows_and_does_not_tell_the_key(embedded, rule, names):
    panel = models_panel.panel(shared(embedded), Access(rule, key="open-sesame"))
    fields = panel.fields.get("live", {})
    assert {*fields} == ({"pair", "target", "draft", "dtype", "device"} if names else set())
    assert len(fields.get("pair", {"choices": []})["choices"]) == names
    assert ('id="load-models"' in panel.html) == bool(names)
    assert "open-sesame" not in panel.html
    if not names:
        assert "has chosen them" in next(load(panel, *WANTED, key="open-sesame"))["error"]


def test_a_pair_that_does_not_fit_is_refused_before_it_is_fetched(hub, embedded, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("specdec.models.free_memory.free", lambda where: 100_000)
        assert "not enough memory" in loaded(ON_HUB, shared(embedded))["message"]
    monkeypatch.setattr("specdec.models.source.shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    assert "on disk" in loaded(ON_HUB, shared(embedded))["message"]
    assert hub.sent < (hub.models["tests/target"] / "model.safetensors").stat().st_size


def test_a_chat_template_writes_the_prompt_where_there_is_one(root, embedded):
    pair = specdec.load_pair(root / "chat", root / "llama-draft")
    settings = VisitorSettings("the cat", max_new_tokens=8, seed=3, chat=True)
    full = replace(settings, history=("a dog", "the cat") * 40)
    assert "This conversation is too long" in json.loads(list(run.updates(pair, full))[-1])["message"]
    long = replace(settings, prompt="the cat " * 2000)  # alone too long, whatever was said before
    for history in ((), ("a dog", "the cat")):
        message = json.loads(list(run.updates(pair, replace(long, history=history)))[-1])["message"]
        assert "The question is too long: " in message
    setup = [json.loads(update) for update in run.updates(pair, settings)][1]["setup"]
    assert (setup["prompt"], setup["chat"]) == ("the cat", True)
    assert setup["prompt_ids"] == pair.chat_prompt("the cat")
    plain = [json.loads(update) for update in run.updates(embedded, settings)][1]["setup"]
    assert (plain["prompt"], plain["chat"]) == ("the cat", False)


def test_the_panel_tells_about_each_known_pair():
    for pair in known_pairs.PAIRS:
        about = models_panel.about({"pair": pair.name, "device": "cpu"})["words"]
        if pair.target is not None:
            assert pair.target.hub_id in about
            assert pair.target.licence in about
            assert about.count("GB") >= 4 or pair.shipped
    assert re.search("GGUF files.*tokenizer", models_panel.about({"pair": OWN})["words"])
    assert models_panel.about({"pair": "stories"})["load"] == "Load and measure"


def test_the_button_says_what_is_downloaded(monkeypatch):
    for paths, words in ((None, "Download 1.6 GB, load and measure"), (("a", "b"), "Load and measure")):
        monkeypatch.setattr("specdec.coder.installed", lambda paths=paths: paths)
        assert models_panel.about({"pair": "coder"})["load"] == words


def test_what_the_panel_cannot_tell_about():
    for pair, device in (("\ud800", "cpu"), (["qwen3-8b"], "cpu"), ("qwen3-8b", "moon"), ("qwen3-8b", [0])):
        error = models_panel.about({"pair": pair, "device": device})["error"]
        assert re.match(r"(pair|device) = ", error)
