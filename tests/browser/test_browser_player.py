"""The Decode tab as a player: recorded runs, time, links between panels, saving and opening files."""

import json
import re

import pytest
from playwright.sync_api import expect

import specdec
from components.decode import traces
from specdec.topology import Topology
from tests.conftest import (
    DESKTOP,
    enter,
    generate,
    resize,
    serious_findings,
    settle,
    shifts,
    state,
    wait_for_state,
    watch_shifts,
)
from tests.helpers.distributions import markov_pair

HOSTILE = '</script><img src=x onerror="window.hacked=1">'
SHOW = """(run) => {
  const rounds = Array.from({ length: 300 }, (_, number) =>
    ({ ...structuredClone(run.rounds[number % run.rounds.length]), number }));
  const setup = { ...run, models: [], baseline: false };
  const source = { name: "file", title: "made", look: "", twin: null };
  window.specdec.store.show({ setup, prefillSeconds: 0, rounds }, source);
}"""
"""Show three hundred rounds: those of a run, over and over."""
TREE = Topology([(i,) for i in range(16)] + [(i, j) for i in range(16) for j in range(23)])
"""The largest tree: 384 nodes."""


def place(page):
    """The selected round and decision."""
    return page.evaluate("(({ selected, decision }) => [selected.round, decision])(specdec.store.state)")


def open_trace(page, name):
    """A recorded run at its start, paused."""
    before = state(page)["run"]  # the run may be the one that is shown, loaded once more
    page.locator("#replay .choose").select_option(name)
    wait_for_state(page, f"run !== {json.dumps(before)} && recorded?.name === '{name}'")
    page.locator("#text h2").click()
    page.keyboard.press("Home")  # this also stops the play
    expect(page.locator("#stepper .play .word")).to_have_text("play")
    settle(page)
    return specdec.Generation.from_json((traces.FOLDER / f"{name}.json").read_text())


def test_with_reduced_motion_nothing_plays_and_the_keys_walk_through_decisions_and_rounds(page):
    page.wait_for_selector("#text .tokens .token.accepted", state="visible")
    before = place(page)
    page.wait_for_timeout(1000)
    assert place(page) == before
    expect(page.locator("#stepper .play .word")).to_have_text("play")
    run = open_trace(page, "early-rejection")
    kinds = []
    for _ in range(3):
        kinds.append(page.evaluate("window.specdec.store.selectedDecision().kind"))
        page.keyboard.press("ArrowRight")
    assert kinds == ["draft", "rejected", "residual"]
    assert place(page)[0] == 1
    page.keyboard.press("Shift+ArrowRight")
    round_number = place(page)[0]
    page.keyboard.press("Shift+ArrowLeft")
    assert place(page)[0] == round_number - 1
    page.keyboard.press("End")
    assert place(page)[0] == run.rounds[-1].number
    assert not state(page)["veiled"]
    expect(page.locator(".live-figure .mean")).to_have_text(", on average")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".live-figure .mean")).to_have_text(", so far")
    page.keyboard.press("Home")
    assert place(page) == [0, 0]


def test_space_plays_and_pauses_and_keys_belong_to_the_prompt_while_somebody_writes(page):
    open_trace(page, "story")
    page.locator("#prompt textarea").click()
    for key in ("ArrowRight", "Shift+ArrowRight", "End", " "):
        page.keyboard.press(key)
    settle(page)
    assert place(page) == [0, 0]
    expect(page.locator("#stepper .play .word")).to_have_text("play")
    page.locator("#text h2").click()
    page.keyboard.press(" ")
    wait_for_state(page, "selected.round >= 1")
    page.keyboard.press(" ")
    before = place(page)
    page.wait_for_timeout(900)
    assert place(page) == before


def test_what_comes_next_keeps_its_place_and_the_sentence_says_the_rule_with_its_numbers(page):
    run = open_trace(page, "early-rejection")
    trial = run.rounds[0].steps[0].trials[0]
    where = "document.querySelector('#text .tokens').getBoundingClientRect().height"
    height = page.evaluate(where)
    visible = page.locator("#text .tokens .token >> visible=true")
    expect(visible).to_have_count(0)
    page.keyboard.press("ArrowRight")  # the decision at which a test of GSD fails
    settle(page)
    expect(visible).to_have_count(1)
    assert visible.all_inner_texts() == [run.rounds[0].nodes[0].text.strip()]
    expect(page.locator("#tree .drawing .node.unvisited")).to_have_count(3)
    pattern = re.compile(r"u = (\S+) ≥ p/q = (\S+): rejected")
    expect(page.locator("#race .verdict")).to_contain_text(pattern)
    numbers = pattern.search(page.locator("#race .verdict").inner_text()).groups()
    assert [*map(float, numbers)] == pytest.approx([trial.u, trial.ratio], rel=5e-3)
    page.keyboard.press("ArrowRight")
    expect(page.locator("#race .verdict")).to_contain_text("so it is drawn from the residual")
    settle(page)
    expect(visible).to_have_count(2)
    assert page.evaluate(where) == height


def test_show_it_goes_to_what_the_title_says(page):
    for name, words in (
        ("wide-tree", r"wins the large model's race \(e/p = [\d.]+\); guessed: accepted"),
        ("nobody-drafted", r"wins the large model's race .*; not guessed: correction"),
        ("long-run", r"no guess here: bonus"),
    ):
        open_trace(page, name)
        page.get_by_role("button", name="Show it").click()
        expect(page.locator("#race .verdict")).to_contain_text(re.compile(words))


def test_what_belongs_together_lights_up_by_pointer_and_by_keyboard(page):
    open_trace(page, "story")
    page.keyboard.press("Shift+ArrowRight")
    settle(page)
    lit = "[...document.querySelectorAll('.lit')].map((e) => e.closest('.block.panel').id).sort()"
    page.locator("#text .tokens .token.accepted").first.hover()
    contains = f"ids => {{ const lit = {lit}; return ids.every((id) => lit.includes(id)); }}"
    page.wait_for_function(contains, arg=["text", "tree", "race", "statistics"])
    page.locator("#statistics .all > summary").click()
    page.locator("#text .tokens .token.accepted").first.hover()
    page.wait_for_function(contains, arg=["text", "tree", "race", "statistics"])
    rows = page.locator("#statistics tr.lit")
    expect(rows).to_have_count(2)
    assert any(row.startswith("drafted and accepted") for row in rows.all_inner_texts())
    page.locator("#text h2").hover()
    page.mouse.move(0, 0)
    page.wait_for_function("document.querySelectorAll('.lit').length === 0")
    page.locator("#tree .figure").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function(contains, arg=["text", "tree"])
    expect(page.locator("#tree .inspected")).to_contain_text("q = ")
    page.locator("#statistics .acceptance tbody tr").first.focus()
    page.wait_for_function("document.querySelectorAll('#text .tokens .token.lit').length > 3")


def test_a_link_opens_a_recorded_run_and_the_address_follows_the_choice(blank, url):
    page = blank
    page.goto(f"{url}/?trace=no-such-run")
    expect(page.locator(".replay-error")).to_contain_text("no-such-run")
    page.goto(f"{url}/?trace=wide-tree")
    wait_for_state(page, "recorded?.name === 'wide-tree'")
    open_trace(page, "parting-gsd")
    expect(page).to_have_url(re.compile("trace=parting-gsd"))
    page.get_by_role("button", name="With ERSD").click()
    wait_for_state(page, "setup.method === 'ersd'")
    expect(page).to_have_url(re.compile("trace=parting-ersd"))
    open_trace(page, "code")
    page.get_by_role("button", name="A chat answer").click()
    expect(page).to_have_url(re.compile("trace=opening"))
    page.locator("#stepper .skip").evaluate("(skip) => skip.click()")
    expect(page.locator("#stepper output")).to_have_text("round 4 of 68, all played")


def test_the_menu_that_saves_a_run_can_be_read_and_closes(page):
    open_trace(page, "parting-gsd")
    menu = page.locator("details.save")
    for close in (lambda: page.keyboard.press("Escape"), lambda: page.locator("h1").click()):
        menu.locator("summary").click()
        expect(menu).to_have_attribute("open", "")
        settle(page)
        assert serious_findings(page) == []
        close()
        expect(menu).not_to_have_attribute("open", "")


def test_a_button_that_copies_gets_its_label_back_however_often_it_is_pressed(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_trace(page, "parting-gsd")
    page.locator("details.save summary").click()
    link = page.locator("#replay .link")
    for _ in range(2):
        link.click()
        expect(link).to_have_text("copied")
    expect(link).to_have_text("Copy link to this moment")


def save(page, kind):
    if page.locator("#replay .save[open]").count() == 0:
        page.locator("#replay .save summary").click()
    with page.expect_download() as download:
        page.locator(f"[data-save={kind}]").click()
    return download.value


def test_a_live_run_is_the_decoders_and_is_saved_played_and_kept_beside_a_recorded_one(page, tmp_path):
    enter(page.locator("#length input[type=number]"), "12")
    generate(page)
    save(page, "json").save_as(tmp_path / "run.json")
    saved = specdec.Generation.from_json((tmp_path / "run.json").read_text())
    decoded = specdec.generate(
        specdec.load_pair("stories"),
        saved.prompt,
        method=saved.method,
        topology=saved,
        max_new_tokens=12,
        seed=saved.seed,
    )
    assert saved.token_ids == decoded.token_ids
    assert saved.prompt_ids == decoded.prompt_ids
    assert saved.prefill_seconds > 0
    expect(page.locator("#statistics .efficiency")).to_have_text(f"{decoded.block_efficiency:.2f}")
    page.locator("#stepper .play").click()
    expect(page.locator("#stepper output")).to_contain_text("round 1 of")
    open_trace(page, "long-run")
    page.locator("#replay .choose").select_option("own")
    wait_for_state(page, "recorded === null")
    token_ids = [token["id"] for round in state(page)["rounds"] for token in round["tokens"]]
    assert token_ids == decoded.token_ids


def test_a_saved_page_plays_offline_and_hostile_text_stays_text(page, someone, tmp_path):
    run = open_trace(page, "early-rejection")
    page.evaluate(
        """text => {
          const round = window.specdec.store.state.rounds[0];
          round.tokens[0].text = text;
          round.text = round.tokens.map((token) => token.text).join("");
        }""",
        HOSTILE,
    )
    save(page, "html").save_as(tmp_path / "run.html")
    trace = (traces.FOLDER / "early-rejection.json").stat().st_size
    assert (tmp_path / "run.html").stat().st_size < trace + 300_000
    offline, urls = someone("about:blank", offline=True), []
    offline.on("request", lambda request: urls.append(request.url))
    offline.goto(f"file://{tmp_path}/run.html")
    wait_for_state(offline, "selected?.round >= 1")
    offline.keyboard.press("End")
    settle(offline)
    offline.wait_for_function("document.querySelectorAll('#tree .drawing .node').length > 0")
    first, *others = offline.locator("#text .tokens .token:not(.rejected)").all_text_contents()
    assert first == HOSTILE
    assert others == [token.text for round in run.rounds for token in round.tokens][1:]
    assert [address for address in urls if not address.startswith(("file:", "data:"))] == []
    assert offline.evaluate("window.hacked") is None


def test_figures_are_saved_as_pictures(page, tmp_path):
    run, entry = open_trace(page, "wide-tree"), next(e for e in traces.entries() if e["name"] == "wide-tree")
    word = run.rounds[entry["round"]].tokens[entry["step"]].text.strip()
    page.get_by_role("button", name="Show it").click()
    expect(page.locator("#race .verdict")).to_contain_text("guessed: accepted")
    settle(page)
    for panel in ("tree", "race"):
        save(page, f"{panel}-svg").save_as(tmp_path / "figure.svg")
        text = (tmp_path / "figure.svg").read_text()
        assert text.startswith("<svg")
        assert word in text
        assert "var(" not in text
        save(page, f"{panel}-png").save_as(tmp_path / "figure.png")
        assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def metrics(session, clean=True):
    if clean:
        session.send("HeapProfiler.collectGarbage")
    return {entry["name"]: entry["value"] for entry in session.send("Performance.getMetrics")["metrics"]}


UNIT = "() => { let sum = 0; for (let i = 0; i < 3e7; i++) sum += Math.sqrt(i); return sum; }"
"""A unit of processor time: about 30 ms on a machine on which a round took 15 ms, and a redraw by plotly 150
ms."""


def test_rounds_of_384_nodes_are_played_cheaply_and_their_labels_never_touch(page):
    """Ten rounds a second leave half of the main thread's time free. Both times are measured on this
    machine's processor."""
    resize(page, (1280, 1600))  # both drawings are visible
    run = specdec.generate(markov_pair(40), [0], topology=TREE, max_new_tokens=60, seed=1, detail=True)
    page.evaluate(SHOW, json.loads(run.to_json()))
    page.wait_for_function("document.querySelectorAll('#tree .drawing .node').length === 384")
    page.locator("#stepper .speed").select_option("fastest")
    session = page.context.new_cdp_session(page)
    # processor time of the thread, because on a shared machine the clock also counts other work
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    watch_shifts(page)
    idle = metrics(session)["TaskDuration"]
    page.evaluate(UNIT)
    unit = metrics(session, clean=False)["TaskDuration"] - idle
    page.locator("#stepper .play").click()
    wait_for_state(page, "selected.round >= 20")
    elements = "document.querySelectorAll('*').length"
    before, count, start = metrics(session), page.evaluate(elements), place(page)[0]
    wait_for_state(page, f"selected.round >= {start + 60}")
    busy = metrics(session, clean=False)["TaskDuration"] - before["TaskDuration"]
    rounds = place(page)[0] - start
    after = metrics(session)
    assert busy / rounds < 2 * unit
    assert abs(page.evaluate(elements) - count) < 120
    assert after["Nodes"] - before["Nodes"] < 500
    assert after["JSEventListeners"] - before["JSEventListeners"] < 20
    assert after["JSHeapUsedSize"] - before["JSHeapUsedSize"] < 3e6
    assert shifts(page)[0] < 0.01, shifts(page)
    resize(page, DESKTOP)
    page.keyboard.press("End")
    settle(page)
    labels_never_touch(page)


def labels_never_touch(page):
    """Neither in a large tree nor when it is zoomed, which brings them back."""
    labels = """() => [...document.querySelectorAll("#tree .drawing .node text")]
      .filter((text) => text.textContent !== "")
      .map((text) => text.getBoundingClientRect()).map(({ x, y }) => [Math.round(x), y])"""
    places = page.evaluate(labels)
    assert 20 < len(places) < 200
    by_column = {}
    for x, y in places:
        by_column.setdefault(x, []).append(y)
    gaps = [b - a for ys in by_column.values() for a, b in zip(sorted(ys), sorted(ys)[1:], strict=False)]
    assert min(gaps) > 11
    nodes = page.locator("#tree .drawing .node")
    for _ in range(6):
        page.locator("#tree [data-zoom=in]").click()
    page.wait_for_function("document.querySelectorAll('#tree .drawing .node').length < 60")
    settle(page)
    assert len(page.evaluate(labels)) > 0.8 * nodes.count() or nodes.count() == 0


CODER = "Qwen2.5-Coder 1.5B checks, 0.5B guesses · recorded on two CPU cores"


@pytest.fixture
def code(visit):
    """The recorded run on a server with the story pair."""
    return visit("?trace=code&baseline=0")


def test_the_pair_is_named_and_another_one_that_generate_runs(code):
    expect(code.locator("#shown_pair .shown")).to_have_text(CODER)
    runs = "Generate uses: Story models 15M checks, 0.7M guesses"
    expect(code.locator("#shown_pair .next")).to_have_text(runs)
    expect(code.locator("#generate")).to_have_accessible_description(re.compile("^Generate uses"))
    code.locator("#replay .choose").select_option("story")
    expect(code.locator("#shown_pair .shown")).to_have_text(re.compile("^Story models 15M checks, 0.7M"))
    expect(code.locator("#shown_pair .next")).to_have_text("")


def test_code_keeps_its_lines_and_indentation_in_one_width_of_letters(code):
    text = "".join(code.locator("#text .tokens .token.code:not(.rejected)").all_text_contents())
    program = re.fullmatch(r"```python\n(.*?)```\s*", text, re.DOTALL)
    names = {}
    exec(program[1], names)
    primes = [number for number in range(30) if names["is_prime"](number)]
    assert primes == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    expect(code.locator("#text .tokens .code").first).to_have_css("font-family", re.compile("monospace"))
    expect(code.locator("#prompt")).not_to_have_css("font-family", re.compile("monospace"))
    left = "element => element.getBoundingClientRect().left"
    returned = code.locator("#text .token.code > .ink", has_text="return").first
    assert returned.evaluate(left) > code.locator("#text .tokens").evaluate(left) + 30
    assert code.locator("#text .token.code.accepted > .ink").count() > 50
