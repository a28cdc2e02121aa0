"""What the page is sent: real rounds of the embedded pair, complete, in order, and safe to show."""

import asyncio
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import app
import specdec
from components.page import assets, gradio_files, serving
from components.page.settings import VisitorSettings
from components.server import feed, run, seats, topologies
from specdec.methods import METHODS

ROOT = Path(app.__file__).parent
PANELS = {
    "codec_lab": "codecs",
    "controls": "decode.controls",
    "experiments_lab": "experiments",
    "page": "decode",
    "projector": "page.projector",
    "race": "decode.race",
    "race_lab": "race_lab",
    "statistics": "decode.statistics",
    "stepper": "decode.stepper",
    "text": "decode.text",
    "tree": "decode.tree",
    "tree_lab": "tree_lab",
}
"""What runs alone, and where it is."""
WITHOUT_RUN = ("codec_lab", "experiments_lab")


@pytest.fixture(scope="module")
def blocks(pair):
    async def build():
        return app.build(pair)

    return asyncio.run(build())  # outside a running loop, Gradio opens loops that it never closes


def settings(**changes):
    return VisitorSettings(**({"prompt": "Once upon a time", "max_new_tokens": 12, "seed": 3} | changes))


def received(pair, wanted, interval=0.0):
    return [json.loads(update) for update in run.updates(pair, wanted, interval)]


def numbered(pair):
    """The updates since the run has begun, as texts."""
    return [text for text in run.updates(pair, settings(), interval=0.0) if '"seq"' in text]


@pytest.mark.parametrize("topology", ["sequence", "optimal"])
def test_a_run_that_cannot_begin_has_only_its_error_as_a_numbered_update(pair, topology):
    updates = received(pair, settings(prompt="word " * 600, topology=topology, k=4))
    numbers = [(update["seq"], update["phase"]) for update in updates if "seq" in update]
    assert numbers == [(0, "error")]


def rounds_in(updates, baseline=False):
    chosen = [update for update in updates if (update["phase"] == "baseline") == baseline]
    return [specdec.Round.from_json(json.dumps(round)) for update in chosen for round in update["rounds"]]


def emitted(rounds):
    return [(token.id, token.text, token.kind) for round in rounds for token in round.tokens]


@pytest.mark.parametrize("method", ["ersd", "gsd", "ar"])
def test_updates_carry_every_round_of_the_run(pair, method):
    updates = received(pair, settings(method=method))
    expected = specdec.generate(pair, "Once upon a time", method=method, max_new_tokens=12, seed=3)
    assert emitted(rounds_in(updates)) == emitted(expected.rounds)
    numbers = [update["seq"] for update in updates if "seq" in update]
    assert numbers == list(range(len(numbers)))
    assert len({update["run"] for update in updates}) == 1
    assert updates[-1]["phase"] == "done"


def test_rounds_wait_for_the_next_update_and_none_is_lost(pair):
    slow = received(pair, settings(), interval=3600)
    # the wait, the tree, the first rounds, all others where some are left, the end
    assert len(slow) in (4, 5)
    assert emitted(rounds_in(slow)) == emitted(rounds_in(received(pair, settings())))


def test_rounds_carry_the_detail_that_the_panels_show(pair):
    for round in rounds_in(received(pair, settings())):
        assert len(round.steps) == len(round.tokens)
        assert all(node.q is not None for node in round.nodes)


def test_the_baseline_is_measured_on_the_same_prompt_and_seed(pair):
    updates = received(pair, settings(baseline=True))
    baseline = rounds_in(updates, baseline=True)
    assert all(round.seconds.evaluate > 0 and len(round.tokens) == 1 for round in baseline)
    ids = [id for id, _, _ in emitted(baseline)]
    assert ids == [id for id, _, _ in emitted(rounds_in(updates))]  # ERSD: drafter invariance


@pytest.mark.parametrize("topology", ["sequence", "optimal"])
def test_the_prompt_is_tokenised_once(pair, monkeypatch, topology):
    split, split_texts = type(pair)._split, []
    monkeypatch.setattr(
        type(pair), "_split", lambda pair, text, **kw: split_texts.append(text) or split(pair, text, **kw)
    )
    updates = received(pair, settings(topology=topology, k=4, prompt="The dog", baseline=True))
    assert updates[-1]["phase"] == "done"
    assert split_texts.count("The dog") == 1


def test_lost_updates_can_be_asked_for(pair):
    updates = numbered(pair)
    name = json.loads(updates[0])["run"]
    assert feed.missing({"run": name, "seq": 2}) == updates[2:]
    assert feed.missing({"run": "unknown", "seq": 0}) == []


def test_stop_ends_a_run_by_its_name_also_before_the_server_has_heard_of_it(pair):
    feed.stop({"run": "early-1"})
    assert list(run.updates(pair, settings(), interval=0.0, name="early-1")) == []
    going = run.updates(pair, settings(), interval=0.0, name="early-2")
    assert json.loads(next(going))["run"] == "early-2"
    assert seats.MODEL.num_seated == 1
    feed.stop({"run": "early-2"})
    assert list(going) == []
    assert seats.MODEL.num_seated == 0


def test_a_run_stops_the_earlier_ones_of_its_page_and_no_other(pair):
    first, other = (
        run.updates(pair, settings(), interval=0.0, name=name) for name in ("quick-1", "another-1")
    )
    assert [json.loads(next(going))["run"] for going in (first, other)] == ["quick-1", "another-1"]
    visitor = seats.Visitor("here", "tab")  # whose limit is two runs: stopped ones do not count
    later = [run.updates(pair, settings(), 0.0, visitor, f"quick-{number}") for number in (2, 3, 4, 5)]
    for going in later:
        next(going)
    assert json.loads(list(later[-1])[-1])["phase"] == "done"
    assert [list(going) for going in (first, *later[:-1])] == [[]] * 4
    assert json.loads(list(other)[-1])["phase"] == "done"


@pytest.mark.parametrize(
    "name", [None, 7, [1], "", "x", "Y-1", "a-", "a-1 ", f"{41 * 'a'}-1", "a-1234567890"]
)
def test_a_name_that_no_page_gives_is_replaced(pair, name):
    feed.stop({"run": name})
    update = json.loads(next(run.updates(pair, settings(), interval=0.0, name=name)))
    assert update["run"] != name
    assert update["phase"] != "error"


def test_a_long_gap_is_filled_in_parts(pair, monkeypatch):
    updates = numbered(pair)
    name, longest = json.loads(updates[0])["run"], max(map(len, updates))
    for limit in (1, 2 * longest):
        monkeypatch.setattr(feed, "_LONGEST", limit)
        found = []
        while part := feed.missing({"run": name, "seq": len(found)}):
            assert len(part) == 1 or sum(map(len, part)) <= limit
            found += part
        assert found == updates


def test_an_empty_seed_draws_one_and_tells_which(pair):
    updates = received(pair, settings(seed=None, max_new_tokens=2))
    drawn = next(update["setup"]["seed"] for update in updates if "setup" in update)
    assert isinstance(drawn, int)
    assert drawn >= 0


def test_the_context_tree_decodes_to_the_same_text(pair):
    expected = specdec.generate(pair, "Once upon a time", method="ar", max_new_tokens=12, seed=3)
    updates = received(pair, settings(topology="context", k=6))
    assert [id for id, _, _ in emitted(rounds_in(updates))] == expected.token_ids


def test_the_optimal_topology_has_k_nodes(pair):
    chosen = run.start(pair, settings(topology="optimal", k=6).checked()).topology
    assert chosen.num_draft_tokens == 6


def test_only_generate_is_public(blocks):
    assert list(blocks.get_api_info()["named_endpoints"]) == ["/generate"]
    assert blocks.get_api_info()["unnamed_endpoints"] == {}


def test_clients_are_told_every_method_and_topology(blocks):
    told = blocks.get_api_info()["named_endpoints"]["/generate"]["description"]
    for name in (*METHODS, *topologies.NAMES):
        assert re.search(rf"\b{name}\b", told), name


def test_generate_is_typed(blocks):
    parameters = blocks.get_api_info()["named_endpoints"]["/generate"]["parameters"]
    types = {parameter["parameter_name"]: parameter["type"]["type"] for parameter in parameters}
    assert types == {
        "prompt": "string",
        "method": "string",
        "topology": "string",
        "k": "integer",
        "max_new_tokens": "integer",
        "temperature": "number",
        "top_k": "integer",
        "top_p": "number",
        "seed": "integer",
        "chat": "boolean",
        "tree": "string",
    }


def test_for_the_model_nobody_waits_in_gradios_own_queue(blocks):
    limits = {fn.name: fn.concurrency_limit for fn in blocks.fns.values()}
    assert [limits[name] for name in ("decode", "compared", "generate")] == [None, None, None]


def test_no_template_evaluates_data(blocks):
    for component in blocks.blocks.values():
        template = getattr(component, "html_template", "")
        assert "${" not in template.replace("${value}", "") or template == ""
        if "panel" in (getattr(component, "elem_classes", None) or []):
            assert "${" not in template
            assert "{{" not in template


def test_scripts_are_public_and_weights_are_not():
    public = (assets.file_url(assets.MAIN), assets.file_url(assets.PLOTLY), assets.script())
    assert all(assets.changed(f"/{address}") for address in public)
    private = (assets.ASSETS / "stories" / "target" / "config.json", assets.ASSETS / "results", assets.ASSETS)
    assert not any(assets.changed(f"/{assets.file_url(path)}") for path in private)


def test_where_a_model_lies_is_not_shown(pair):
    assert not any(model["name"].startswith("/") for model in run.models(pair))
    assert {model["role"] for model in run.models(pair)} == {"target", "draft"}


@pytest.mark.parametrize(("name", "module"), PANELS.items())
def test_every_panel_runs_alone(pair, name, module, monkeypatch):
    launched = []
    monkeypatch.setattr(serving, "launch", launched.append)
    monkeypatch.setattr(specdec, "load_pair", lambda *_: pair)
    monkeypatch.delitem(sys.modules, f"components.{module}", raising=False)

    async def start():
        runpy.run_module(f"components.{module}", run_name="__main__")

    asyncio.run(start())
    panels = {getattr(block, "elem_id", None) for block in launched[0].blocks.values()}
    assert ("generate" if name == "controls" else name) in panels
    assert ("feed" in panels) == (name not in WITHOUT_RUN)


def test_the_command_line_explains_a_wrong_model():
    command = [sys.executable, ROOT / "app.py", "--target", "/no/such/folder"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert ended.returncode != 0
    assert "error: " in ended.stderr
    assert "/no/such/folder" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_page_names_the_files_of_gradio_that_it_needs(blocks, monkeypatch, tmp_path):
    links = gradio_files.links(blocks)
    assert links.count("modulepreload") > 20
    assert "markdown" not in links  # no component of the page needs it
    other = tmp_path / "index.html"
    other.write_text('<script type="module" src="./assets/other.js"></script>')
    monkeypatch.setattr(gradio_files, "_PAGE", other)
    assert gradio_files.links(blocks) == ""  # of another version, and the page loads without
