"""The updates that the page receives: real rounds of the embedded pair, complete, in order, and safe to
show."""

import json
import re
import sys
import time
from dataclasses import asdict

import httpx
import pytest
from gradio_client import Client

import app
import specdec
from components.decode import controls
from components.page import assets, frame, serving
from components.page.settings import TABLE, VisitorSettings
from components.runs import run, topologies
from specdec.drafters.catalogue import DRAFTERS
from specdec.methods import METHODS
from tests.helpers.processes import printed
from tests.stress.visitors import free_port


@pytest.fixture(scope="module")
def page(pair):
    return app.build(pair)


@pytest.fixture(scope="module")
def endpoints(url):
    """The endpoints of the served page by name, as clients see them."""
    return httpx.get(f"{url}/gradio_api/info").json()["named_endpoints"]


def settings(**changes):
    return VisitorSettings(**({"prompt": "Once upon a time", "max_new_tokens": 12, "seed": 3} | changes))


def received(pair, settings, interval=0.0):
    return [json.loads(update) for update in run.updates(pair, settings, interval=interval)]


def rounds_in(updates, baseline=False):
    chosen = [update for update in updates if (update["phase"] == "baseline") == baseline]
    return [specdec.Round.from_json(json.dumps(round)) for update in chosen for round in update["rounds"]]


def emitted(rounds):
    return [(token.id, token.text, token.kind) for round in rounds for token in round.tokens]


@pytest.mark.parametrize(("method", "interval"), [("ersd", 3600), ("gsd", 0.0), ("ar", 3600)])
def test_updates_carry_every_round_of_the_run_with_the_detail_that_the_panels_show(pair, method, interval):
    updates = received(pair, settings(method=method), interval)
    expected = specdec.generate(pair, "Once upon a time", method=method, max_new_tokens=12, seed=3)
    rounds = rounds_in(updates)
    assert emitted(rounds) == emitted(expected.rounds)
    assert updates[-1]["phase"] == "done"
    assert updates[-1]["acceptance"] == json.loads(json.dumps(asdict(expected.acceptance)))
    assert all(len(round.steps) == len(round.tokens) for round in rounds)
    assert all(node.q is not None for round in rounds for node in round.nodes)
    # slow ones: the wait, the tree, the first rounds, then all other rounds if there are any, and the end
    assert len(updates) in (4, 5) or not interval


def test_the_context_tree_decodes_to_the_same_text(pair):
    expected = specdec.generate(pair, "Once upon a time", method="ar", max_new_tokens=12, seed=3)
    updates = received(pair, settings(topology="context", k=6))
    assert [id for id, _, _ in emitted(rounds_in(updates))] == expected.token_ids


def test_the_baseline_is_measured_on_the_same_prompt_and_seed(pair):
    updates = received(pair, settings(baseline=True))
    baseline = rounds_in(updates, baseline=True)
    assert all(round.seconds.evaluate > 0 and len(round.tokens) == 1 for round in baseline)
    ids = [id for id, _, _ in emitted(baseline)]
    assert ids == [id for id, _, _ in emitted(rounds_in(updates))]  # drafter invariance of ERSD


def test_the_prompt_is_tokenised_once(pair, monkeypatch):
    split, split_texts = type(pair)._split, []
    monkeypatch.setattr(
        type(pair), "_split", lambda pair, text, **kw: split_texts.append(text) or split(pair, text, **kw)
    )
    updates = received(pair, settings(topology="optimal", k=4, prompt="The dog", baseline=True))
    assert updates[-1]["phase"] == "done"
    assert split_texts.count("The dog") == 1


def test_an_empty_seed_draws_one_and_tells_which(pair):
    updates = received(pair, settings(seed=None, max_new_tokens=2))
    seed = next(update["setup"]["seed"] for update in updates if "setup" in update)
    assert isinstance(seed, int)
    assert seed >= 0


def test_clients_see_the_streams_and_nothing_else(endpoints):
    assert {*endpoints} == {"/decode", "/compare", "/check_losslessness", "/load_pair"}


def test_clients_are_told_every_setting_and_choice(endpoints):
    text = endpoints["/decode"]["description"]
    for name in (*METHODS, *topologies.NAMES, *DRAFTERS):
        assert f" {name}: " in text.replace("(", " "), name
    assert {name for name, row in TABLE.items() if f" {name}: {row.setting.help}" not in text} == set()
    assert "k: k: drafted tokens per round (1 to 64; unused with method ar, drafter copies, topology" in text
    for shared in ("temperature: 0 always takes the likeliest token (0 to 100).", "columns:"):
        assert shared in endpoints["/compare"]["description"]


def test_the_form_of_a_run_and_the_typed_endpoint_have_the_settings_of_the_table(page, endpoints):
    types = {"whole": "integer", "number": "number", "flag": "boolean"}
    assert {each["parameter_name"]: each["type"]["type"] for each in endpoints["/decode"]["parameters"]} == {
        name: types.get(row.setting.kind, "string") for name, row in TABLE.items()
    }
    assert {row.setting.address for row in TABLE.values()} <= {*page.fields[controls.PART]}


@pytest.mark.parametrize("drafter", ["model", "copies", "model+copies"])
def test_a_client_streams_the_rounds_of_the_page_and_chooses_the_drafter(pair, url, drafter):
    prompt = "Tom saw a big dog. Tom saw a big dog. Tom saw"
    settings = {"drafter": drafter, "topology": "sequence", "k": 4, "max_new_tokens": 12, "seed": 3}
    updates = Client(url, verbose=False).submit(prompt, **settings, api_name="/decode")
    rounds = rounds_in(map(json.loads, updates))
    assert any(node.copied for round in rounds for node in round.nodes) == (drafter != "model")
    expected = specdec.generate(pair, prompt, max_new_tokens=12, seed=3)
    assert [id for id, _, _ in emitted(rounds)] == expected.token_ids


def test_small_answers_come_soon_while_runs_are_decoded(url):
    """The slowest of fifty took 0.4 s on a very busy machine. One whole run that blocked the event loop would
    hold an answer back for seconds."""
    client = Client(url, verbose=False)
    settings = {"topology": "batch", "k": 64, "max_new_tokens": 400, "api_name": "/decode"}
    jobs = [client.submit("Once upon a time", **settings) for _ in range(8)]
    seconds = []
    for _ in range(50):
        start = time.monotonic()
        httpx.post(f"{url}/ask/models/state", json={}, timeout=60).raise_for_status()
        seconds.append(time.monotonic() - start)
        time.sleep(0.02)
    assert not all(job.done() for job in jobs)
    for job in jobs:
        job.cancel()
    assert max(seconds) < 1.5


def test_the_page_asks_no_other_host_and_holds_no_text_as_code(page):
    html = serving._html(page, "<b>&", "page.css", "main.js")
    assert "&lt;b&gt;&amp;" in html
    linked = re.findall(r'(?:src|<link[^>]*href)="([^"]+)"', html)
    assert linked
    assert not [address for address in linked if address.startswith(("http", "//"))]
    props = re.search(r'id="props">(.*?)</script>', html)[1]
    assert json.loads(props)["replay"]["entries"]
    assert "<" not in props


def test_without_the_range_coder_the_page_opens_and_its_view_says_what_to_install(monkeypatch, pair):
    monkeypatch.setitem(sys.modules, "constriction", None)  # as on Linux with an ARM processor
    page = app.build(pair).html
    assert "pip install constriction" in page
    assert "codec_lab" not in page


def test_the_data_of_panels_keeps_its_order_and_cannot_end_its_element():
    content = frame.panel("coin", "<p></p>", sides=2, names={"tails": "</script><b>", "heads": "& 'é'"})
    page = serving._html(content, "Coins", "page.css", "main.js")
    [written] = re.findall(r'id="props">(.*?)</script>', page)
    assert json.loads(written) == content.props
    assert list(json.loads(written)["coin"]["names"]) == ["tails", "heads"]


def test_every_panel_has_a_script(page):
    later = {"codec_lab": "codecs", "experiments_lab": "experiments", "lossless": "losslessness"}
    names = re.findall(r'data-panel="(\w+)"', page.html)
    main = assets.MAIN.read_text()
    assert len(set(names)) == len(names) > 20
    for name in names:
        is_later = (assets.ASSETS / later.get(name, name) / "panel.js").exists()
        assert is_later or re.search(rf"\b{name}: ", main), name
    assert {*page.props} == {*names}


def test_a_browser_keeps_a_script_until_it_changes(url):
    packed, files = (assets.script(), assets.style()), map(assets.file_url, (assets.MAIN, assets.PLOTLY))
    rules = dict.fromkeys(packed, "immutable") | dict.fromkeys(files, "no-cache")
    for address, rule in rules.items():
        first = httpx.get(f"{url}/{address}")
        assert rule in first.headers["cache-control"]
        answer = httpx.get(f"{url}/{address}", headers={"if-none-match": first.headers["etag"]})
        assert (answer.status_code, answer.content) == (304, b"")
    # a page that was opened before a change
    old = httpx.get(f"{url}/{assets.FILES}/v000000000000/bundle/main.js")
    assert old.text == httpx.get(f"{url}/{assets.script()}").text
    assert "no-cache" in old.headers["cache-control"]


def test_where_a_model_lies_is_not_shown(pair):
    assert not any(model["name"].startswith("/") for model in run.models(pair))
    assert {model["role"] for model in run.models(pair)} == {"target", "draft"}


def test_the_command_line_explains_a_wrong_model():
    with pytest.raises(SystemExit, match=r"error: .*/no/such/folder"):
        app.main(["--target", "/no/such/folder", "--port", str(free_port())])


REPLACED = """
import inspect, sys
import fastapi, gradio, gradio.queueing, gradio.routes, httpx, starlette.applications, uvicorn
import uvicorn.protocols.http.h11_impl, uvicorn.protocols.http.httptools_impl

def functions():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("fastapi", "gradio", "starlette", "uvicorn"):
            for owner in [module, *(each for each in vars(module).values() if inspect.isclass(each))]:
                for key, value in list(vars(owner).items()):
                    if inspect.isfunction(value):
                        found[name, owner.__name__, key] = value
    return found

before = functions()
import app
from components.page import serving
from components.runs.lazy import LazyPair
server = serving.server(app.build(LazyPair(lambda: None)))
serving.launch(server, server_name="127.0.0.1", prevent_thread_lock=True, quiet=True)
assert httpx.get(server.get_blocks().local_url).status_code == 200
after = functions()
print(len(before), [key for key, value in before.items() if after.get(key) is not value])
"""


def test_serving_the_page_replaces_no_function_of_the_framework():
    """Gradio, FastAPI, Starlette and uvicorn have the same functions before and after."""
    number, replaced = printed(REPLACED).splitlines()[-1].split(" ", 1)
    assert int(number) > 1000
    assert replaced == "[]"
