"""Records in a notebook: what each shows with scripts and without. Text never becomes HTML."""

import base64
import gzip
import re
from dataclasses import replace
from html import unescape

import pytest

import specdec
from components.decode import traces
from specdec.notebook import player, tree
from specdec.notebook.bundle import bundled
from specdec.notebook.shown import MOST_BYTES
from tests.conftest import SLOW

HOSTILE = "</script></p><img src=x onerror='top.hacked=window.hacked=1'>"
MOST = 300_000


@pytest.fixture(scope="module")
def generation():
    """The largest of the recorded runs, with all races."""
    return specdec.Generation.from_json((traces.FOLDER / "wide-tree.json").read_text())


def html(record):
    return record._repr_mimebundle_()["text/html"]


def still_of(page):
    return re.sub(r"<(iframe|style).*?</\1>", "", page, flags=re.DOTALL)


def framed_page(page):
    (inner,) = re.findall(r"srcdoc='([^']*)'", page)
    (packed,) = re.findall(r'atob\("([^"]*)"\)', unescape(inner))
    return gzip.decompress(base64.b64decode(packed)).decode()


def test_a_page_asks_for_nothing(generation):
    page = generation.to_html()
    assert not re.search(r'\b(?:src|href)="|@import [^{]|url\((?!"?(?:#|data:))', page)
    assert page.count("<script") == page.count("</script") == 2


def test_modules_that_can_t_be_bundled_are_named(tmp_path):
    (tmp_path / "b.js").write_text("export const a = 1;\n")
    wrong = ["export default 1;", "export let a = 1;", "import.meta.url;", 'import "./b.js";']
    for line in (*wrong, 'export { a } from "./b.js";'):
        (tmp_path / "start.js").write_text(f"{line}\n")
        with pytest.raises(ValueError, match=r"start\.js: .* can't be bundled"):
            bundled(tmp_path, "start.js")


def test_a_module_is_there_once_and_above_those_that_import_it(tmp_path):
    (tmp_path / "b.js").write_text('export const a = "</script>";\n')
    (tmp_path / "c.js").write_text('import { a as other } from "./b.js";\nexport function c() {}\n')
    (tmp_path / "start.js").write_text('import * as b from "./b.js";\nimport {\n  c,\n} from "./c.js";\n')
    script = bundled(tmp_path, "start.js")
    assert "</" not in script
    assert [script.count(f"const module_{number} =") for number in range(4)] == [1, 1, 1, 0]
    for line in ("const { a: other } = module_0;", "const b = module_0;", "return { c };"):
        assert line in script


def test_a_frame_is_isolated_and_holds_the_run(generation):
    output = html(generation)
    assert re.findall(r'sandbox="([^"]*)"', output) == ["allow-scripts"]
    page = framed_page(output)
    (trace,) = re.findall(r'id="trace">(.*?)</script>', page)
    assert specdec.Generation.from_json(trace.replace("\\u003c", "<")).token_ids == generation.token_ids


def test_without_frames_the_text_stands_with_its_kinds(generation):
    still = still_of(html(generation))
    words = unescape(re.sub("<[^>]+>", "", still))
    assert words.startswith(generation.prompt + generation.text)
    elements = re.findall(r'<(span|b|u) class="(accepted|bonus|correction)"', still)
    kinds = [token.kind for round in generation.rounds for token in round.tokens if token.text]
    assert len(elements) == len(kinds) + len({*kinds})  # the kinds in the text and in the legend
    assert {("span", "accepted"), ("b", "bonus")} <= {*elements}


def test_plain_text_is_short(generation):
    plain = generation._repr_mimebundle_()["text/plain"]
    assert repr(generation.text) in plain
    assert f"{len(generation.token_ids)} tokens in {len(generation.rounds)} target calls" in plain
    assert len(plain) < len(generation.text) + 200


@pytest.mark.slow
def test_two_hundred_tokens_are_less_than_300_kilobytes():
    settings = {"topology": specdec.topology.specinfer(24), "max_new_tokens": 200, "seed": 0, "detail": True}
    g = specdec.generate(specdec.load_pair("stories"), "Once upon a time", **settings)
    assert len(g.token_ids) == 200
    assert len(html(g).encode()) < MOST


def test_what_is_too_long_for_the_player_is_shown_still(generation, monkeypatch):
    assert f"MOST_BYTES = {MOST_BYTES:_};" in (player.ASSETS / "shared/trace.js").read_text()
    monkeypatch.setattr("specdec.notebook.shown.MOST_BYTES", 1000)
    page = html(generation)
    assert "<iframe" not in page
    assert "Too long to be played here" in page


def test_a_run_without_texts_shows_ids():
    tokens = (specdec.trace.Token(17, "", "accepted"), specdec.trace.Token(4, "", "correction"))
    node = specdec.trace.Node((0,), 17, "", "accepted")
    round = specdec.Round(0, 3, tokens, (node,), (), specdec.trace.Seconds(), "")
    g = specdec.Generation("ersd", ((0,),), "", (1, 2), 0, 1.0, 0, 1.0, 9, "t", "d", 0.0, (round,))
    assert '<span class="accepted" title="accepted">17</span>' in still_of(html(g))
    assert '"text":" 17"' in framed_page(html(g))
    assert ">17<" in html(round)
    empty = specdec.Generation("ersd", (), "Once", (1,), 0, 1.0, 0, 1.0, 9, "t", "d", 0.0, ())
    assert "Once" in html(empty)
    assert "<iframe" not in html(empty)


def test_a_round_shows_its_tree(generation):
    round = max(generation.rounds, key=lambda round: len(round.nodes))
    still = still_of(html(round))
    statuses = re.findall(r'<g class="(\w+)"', still)
    assert statuses == [node.status for node in round.nodes]
    assert f"{len(round.nodes)} drafted, {round.num_accepted} accepted" in still


def test_a_topology_shows_its_nodes():
    page = html(specdec.topology.specinfer(12))
    assert page.count("<circle") == page.count("<path ") == 12
    assert "12 drafted tokens, depth 6" in page
    assert "<svg" not in html(specdec.topology.sequence(tree.MOST_NODES + 1))
    assert "0 drafted tokens" in html(specdec.Topology([]))


def test_nodes_never_lie_on_each_other():
    topology = specdec.Topology([(0,), (1,), (2,), (0, 0), (0, 1), (2, 0), (2, 1), (0, 1, 0), (2, 1, 0)])
    assert len(set(re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', html(topology)))) == 9


def test_acceptance_shows_its_denominators(generation):
    stats = generation.acceptance
    page = html(stats)
    assert f"{stats.num_accepted} of {stats.num_drafted} drafted tokens accepted" in page
    assert f"<td>0</td><td>{stats.rate_by_position[0]:.0%}</td><td>{stats.rate_by_index[0]:.0%}</td>" in page


def hostile(generation):
    """The run with tokens, prompt and names that would do something if they were treated as HTML."""
    first = generation.rounds[0]
    tokens = (replace(first.tokens[0], id=0, text=HOSTILE), *first.tokens[1:])
    node = specdec.trace.Node((0,), 0, HOSTILE, "accepted")
    text = "".join(token.text for token in tokens)
    first = replace(first, tokens=tokens, nodes=(node, *first.nodes[1:]), text=text)
    rounds = (first, *generation.rounds[1:])
    return replace(generation, prompt=HOSTILE, target=HOSTILE, rounds=rounds)


def test_hostile_text_is_text_without_scripts(generation):
    record = hostile(generation)
    for page in (html(record), html(record.rounds[0])):
        assert "<img" not in still_of(page)
        assert "&lt;img" in still_of(page)


NOTEBOOK = "<!doctype html><meta charset=utf-8>{head}<body{body}>{output}"


@pytest.fixture
def open_frame(someone, tmp_path):
    """Open outputs as a notebook would, offline. Returns the page and the addresses that it asks for."""

    def open_output(output, head="", body="", scheme="light"):
        settings = {"bypass_csp": False, "offline": True, "reduced_motion": "reduce"}
        page, urls = someone("about:blank", (960, 800), is_new=True, color_scheme=scheme, **settings), []
        page.on("request", lambda request: urls.append(request.url))
        path = tmp_path / "notebook.html"
        path.write_text(NOTEBOOK.format(head=head, body=body, output=output))
        page.goto(path.as_uri())
        return page, urls

    return open_output


def played(page):
    page.wait_for_selector("iframe")
    frame = next(frame for frame in page.frames if frame != page.main_frame)
    frame.wait_for_function("window.specdec?.store.state.rounds.length > 0", timeout=SLOW)
    frame.wait_for_selector("#tree .drawing .node")
    for figure in ("#tree .figure", "#race .figure"):
        assert frame.locator(figure).bounding_box()["height"] > 150
    return frame


def policy(rules):
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'


INLINE = "script-src 'unsafe-inline'; style-src 'unsafe-inline'"
VS_CODE = policy(f"default-src 'none'; {INLINE}; child-src https: data:")


@pytest.mark.parametrize("head", ["", VS_CODE], ids=["free", "VS Code's rules"])
def test_a_token_brings_its_race_and_tree(open_frame, generation, head):
    page, urls = open_frame(html(generation), head)
    frame = played(page)
    assert page.locator(".specdec > .still").is_hidden()
    frame.locator("#text .tokens .token.accepted").first.click()
    assert frame.evaluate("window.specdec.store.state.selected.round") == 0
    assert frame.locator("#race .verdict").inner_text()
    frame.locator("#stepper .forward").click()
    assert frame.evaluate("window.specdec.store.state.decision") > 0
    assert [each for each in urls if not each.startswith(("file:", "about:srcdoc"))] == []


def test_hostile_text_is_text_in_the_frame(open_frame, generation):
    page, urls = open_frame(html(hostile(generation)))
    frame = played(page)
    assert frame.locator("#text .prompt").inner_text().replace("\u2068", "").removesuffix("\n") == HOSTILE
    assert frame.locator("img").count() == 0
    assert page.evaluate("window.hacked") is frame.evaluate("window.hacked") is None
    assert [each for each in urls if not each.startswith(("file:", "about:srcdoc"))] == []


def test_the_still_picture_stands_where_no_script_runs(open_frame, generation):
    page, _ = open_frame(html(generation), policy("default-src 'none'; style-src 'unsafe-inline'"))
    frame = next(frame for frame in page.frames if frame != page.main_frame)
    assert frame.locator(".text").inner_text().strip().startswith(generation.prompt.strip()[:20])
    assert frame.locator(".text").is_visible()
    page, _ = open_frame(re.sub(r"<iframe.*?</iframe>", "", html(generation), flags=re.DOTALL))
    assert page.locator(".specdec > .still .text").is_visible()


@pytest.mark.parametrize(
    ("body", "scheme", "dark"),
    [
        ("", "light", False),
        ("", "dark", True),
        # a frame has the colour scheme of its element, unless Chromium is given one for all pages
        (' data-jp-theme-light="false"', "no-override", True),
        (' class="vscode-dark"', "no-override", True),
        (' style="color-scheme: dark" data-jp-theme-light="true"', "no-override", False),
    ],
)
def test_light_and_dark_are_the_notebook_s(open_frame, generation, body, scheme, dark):
    page, _ = open_frame(html(generation) + html(generation.rounds[0]), body=body, scheme=scheme)
    for place in (played(page).locator("body"), page.locator(".specdec").last):
        ground = place.evaluate("element => getComputedStyle(element).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 300) is dark
