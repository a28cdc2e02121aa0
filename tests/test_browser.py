"""The page as a visitor uses it: the real app with the embedded pair, in headless Chromium."""

from __future__ import annotations

import pytest

import specdec

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=window.hacked=1> ${window.hacked=2} {{7*7}} `x` \u202eabc <b>bold</b>"


@pytest.fixture(scope="module")
def pair():
    return specdec.load_pair()


def state(page):
    return page.evaluate("window.specdec.store.state")


def generate(page, until="done", prompt=None, length=None):
    if prompt is not None:
        page.locator("#prompt textarea").fill(prompt)
    if length is not None:
        page.locator("#length input[type=number]").fill(str(length))
        page.locator("#length input[type=number]").blur()
    page.locator("#generate").click()
    page.wait_for_function("phase => document.body.dataset.phase === phase", arg=until)


def drawn(page, text, selector):
    page.wait_for_function(
        "([selector, text]) => document.querySelector(selector).textContent.includes(text)",
        arg=[selector, text],
    )


def test_text_appears_while_it_is_generated(page):
    page.evaluate(
        """() => {
          window.counts = [];
          const count = () => document.querySelectorAll("#text .tokens .token:not(.rejected)").length;
          new MutationObserver(() => {
            if (document.body.dataset.phase === "running") window.counts.push(count());
          }).observe(document.querySelector("#text .tokens"), { childList: true });
        }"""
    )
    generate(page, length=250)
    tokens = [token for round in state(page)["rounds"] for token in round["tokens"]]
    counts = page.evaluate("window.counts")
    assert len(counts) > 3
    assert counts == sorted(counts)
    assert counts[0] < len(tokens) / 2
    shown = page.locator("#text .tokens .token:not(.rejected)").evaluate_all(
        "tokens => tokens.map((token) => [token.textContent, token.classList[1]])"
    )
    assert shown == [[token["text"], token["kind"]] for token in tokens]


def test_the_page_shows_what_the_decoder_decodes(page, pair):
    generate(page, prompt="Tom had a red ball.", length=24)
    run = state(page)
    tree = specdec.Topology([node["path"] for node in run["rounds"][0]["nodes"]])
    assert tree.num_draft_tokens == 8
    expected = specdec.generate(
        pair, "Tom had a red ball.", topology=tree, max_new_tokens=24, seed=run["setup"]["seed"]
    )
    assert [token["id"] for round in run["rounds"] for token in round["tokens"]] == expected.token_ids
    assert page.locator("#statistics .efficiency").inner_text() == f"{expected.block_efficiency:.2f}"


def test_a_finished_run_rests_on_its_last_whole_tree_and_a_race_of_both_models(page):
    generate(page, length=30)
    run = state(page)
    chosen = run["selected"]["round"]
    assert len(run["rounds"][chosen]["nodes"]) == 8
    assert all(len(round["nodes"]) < 8 for round in run["rounds"][chosen + 1 :])
    assert run["rounds"][chosen]["steps"][run["selected"]["step"]]["winner_q"] is not None


def test_selected_text_is_plain_text(page):
    generate(page, length=40)
    copied = page.evaluate(
        """() => {
          getSelection().selectAllChildren(document.querySelector("#text .story"));
          return getSelection().toString();
        }"""
    )
    run = state(page)
    assert copied == run["setup"]["prompt"] + "".join(round["text"] for round in run["rounds"])


def test_stop_stops_within_a_round_and_frees_the_model(page):
    generate(page, until="running", length=400)
    page.wait_for_function("window.specdec.store.state.rounds.length > 2")
    page.locator("#stop").click()
    page.wait_for_function("document.body.dataset.phase === 'stopped'")
    page.wait_for_function("!document.querySelector('#generate').disabled")
    run = state(page)
    assert run["rounds"][-1]["finish"] is None
    assert sum(len(round["tokens"]) for round in run["rounds"]) < 400
    generate(page, length=4)  # the model is free again
    assert state(page)["setup"]["max_new_tokens"] == 4
    assert state(page)["rounds"][-1]["finish"] == "length"


def test_stepping_moves_every_panel(page):
    generate(page, length=48)
    page.get_by_role("button", name="First round").click()
    drawn(page, "Round 1:", "#tree .verdict")
    page.get_by_role("button", name="Next round").click()
    drawn(page, "so one target evaluation yields", "#tree .verdict")
    steps = state(page)["rounds"][0]["steps"]
    assert page.locator("#race .step").count() == len(steps)
    page.get_by_role("button", name="Next round").click()
    drawn(page, "Round 2:", "#tree .verdict")
    assert page.locator("#stepper output").inner_text().startswith("round 2 of")
    assert page.locator("#text .round.selected").evaluate("e => [...e.parentNode.children].indexOf(e)") == 1
    page.locator("#text h2").click()  # the keys work wherever nothing else wants them
    page.keyboard.press("Shift+ArrowLeft")
    drawn(page, "Round 1:", "#tree .verdict")
    page.locator("#race .step").first.click()
    page.wait_for_function("window.specdec.store.state.selected.step === 0")
    page.wait_for_function("document.querySelector('#race .step').ariaPressed === 'true'")
    assert page.locator("#race .row").count() == min(8, len(steps[0]["leading"]))


def test_a_token_selects_its_round(page):
    generate(page, length=48)
    token = page.locator("#text .tokens .token:not(.rejected)").nth(5)
    where = token.evaluate("token => [Number(token.dataset.round), Number(token.dataset.step)]")
    token.click()
    page.wait_for_function("window.specdec.store.state.follow === false")
    assert list(state(page)["selected"].values()) == where


def test_the_tree_keeps_its_zoom_while_rounds_go_by(page):
    generate(page, length=32)
    root = "document.querySelector('#tree .mark.root').getAttribute('transform')"
    whole = page.evaluate(root)
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_function(f"{root} !== {whole!r}")
    zoomed = page.evaluate(root)
    generate(page, length=8)
    assert page.evaluate(root) == zoomed
    page.locator("#tree [data-zoom=reset]").click()
    page.wait_for_function(f"{root} === {whole!r}")


def test_gsd_shows_its_tests_and_the_statistics_their_denominators(page):
    page.get_by_label("GSD", exact=True).check()
    generate(page, length=48)
    rounds = state(page)["rounds"]
    page.get_by_role("button", name="First round").click()
    page.get_by_role("button", name="Next round").click()
    drawn(page, "Round 1:", "#tree .verdict")
    drawn(page, "so one target evaluation yields", "#tree .verdict")
    assert page.locator("#race .trials tbody tr").count() == len(rounds[0]["steps"][-1]["trials"])
    page.get_by_role("button", name="Newest round").click()  # the numbers count what is shown
    drawn(page, f"{sum(len(round['tokens']) for round in rounds)} tokens in", "#statistics .efficiency-note")
    nodes = [node for round in rounds for node in round["nodes"] if node["path"][-1] == 0]
    nodes = [node for node in nodes if node["status"] != "unvisited"]
    accepted = sum(node["status"] == "accepted" for node in nodes)
    row = page.locator("#statistics .acceptance tbody tr").first.inner_text()
    assert f"{accepted} of {len(nodes)}" in row


def test_the_baseline_is_measured(page):
    page.get_by_label("Measure the autoregressive baseline too").check()
    generate(page, length=24)
    assert len(state(page)["baseline"]) == 24
    assert "times the speed of autoregressive" in page.locator("#statistics .comparison").inner_text()
    assert "24 of 24 tokens" in page.locator("#statistics .comparison").inner_text()


def test_hostile_text_is_shown_as_text(page):
    generate(page, prompt=HOSTILE, length=4)
    assert page.locator("#text .prompt").evaluate("prompt => prompt.textContent") == HOSTILE
    assert page.locator("#text .prompt .control").get_attribute("data-shown") == "[U+202E]"
    # A model may say anything too: the same text as a token, everywhere a token is shown.
    page.evaluate(
        """(hostile) => {
          const { store } = window.specdec;
          const { rounds, setup } = structuredClone(store.state);
          const text = JSON.stringify(rounds[0], (key, value) => (key === "text" ? hostile : value));
          const fields = { run: "hostile", seq: 0, phase: "done", setup, rounds: [JSON.parse(text)] };
          store.receive(JSON.stringify(fields));
        }""",
        HOSTILE,
    )
    page.wait_for_function("document.querySelector('#text .token.accepted, #text .token.correction')")
    page.wait_for_function("document.querySelector('#race .drawing .name')?.textContent.includes('img')")
    assert page.locator("#text .tokens .token").first.evaluate("token => token.textContent") == HOSTILE
    assert page.locator("#text img, #race img, #tree img, #text b:not(.hint b), #race .figure b").count() == 0
    assert page.evaluate("window.hacked") is None


def test_a_mistake_is_explained_in_the_page(page):
    page.get_by_role("button", name="Sampling and seed").click()
    # Gradio fills in its own value a moment after the field is there
    page.wait_for_function("document.querySelector('#top-k input')?.value === '0'")
    page.locator("#top-k input").fill("-3")
    page.locator("#top-k input").blur()
    page.wait_for_url("**top-k=-3**")
    generate(page, until="error")
    message = page.get_by_role("alert").inner_text()
    assert "top_k = -3" in message
    assert "Traceback" not in page.locator("body").inner_text()
    page.wait_for_function("!document.querySelector('#generate').disabled")


def test_a_run_that_breaks_off_is_not_left_running(page):
    page.evaluate("window.specdec.begin(); window.specdec.ended()")
    page.wait_for_function("document.body.dataset.phase === 'error'")
    assert "broke off" in page.get_by_role("alert").inner_text()


def test_lost_updates_are_asked_for(page):
    page.evaluate(
        """() => {
          // The first update with number 3 never arrives.
          const parse = JSON.parse;
          JSON.parse = (text, ...rest) => {
            const value = parse(text, ...rest);
            if (value?.seq !== 3 || window.lost) return value;
            window.lost = true;
            return { ...value, seq: -1 };
          };
        }"""
    )
    generate(page, length=60)
    assert page.evaluate("window.lost") is True
    rounds = state(page)["rounds"]
    assert [round["number"] for round in rounds] == list(range(len(rounds)))
    assert sum(len(round["tokens"]) for round in rounds) == 60


def test_nothing_but_text_grows_over_a_long_run(page):
    generate(page, length=40)
    before = nodes_outside_the_text(page)
    page.locator("#k input[type=number]").fill("2")  # small trees make many rounds
    page.locator("#k input[type=number]").blur()
    generate(page, length=200)
    assert len(state(page)["rounds"]) >= 60
    page.get_by_role("button", name="First round").click()
    drawn(page, "Round 1:", "#tree .verdict")
    after = nodes_outside_the_text(page)
    assert abs(after - before) < 150, (before, after)  # one round's bars, labels and buttons


def nodes_outside_the_text(page):
    return page.evaluate(
        "document.querySelectorAll('*').length - document.querySelectorAll('#text .tokens *').length"
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_shows_everything_without_scrolling_sideways(page, url, theme):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{url}/?__theme={theme}")
    page.wait_for_function("window.specdec && document.body.dataset.phase === 'idle'")
    generate(page, length=32)
    for panel in ("#tree", "#race"):  # figures are drawn when they come into view
        page.locator(panel).scroll_into_view_if_needed()
        page.wait_for_function("panel => document.querySelector(panel).querySelector('svg')", arg=panel)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    widest = "elements => Math.max(...elements.map((element) => element.getBoundingClientRect().right))"
    shown = ".block.panel, .figure .drawing, #buttons button"
    assert page.locator(shown).count() >= 10
    # a figure that was drawn before the page was narrow follows when plotly has drawn it again
    fits = f"shown => ({widest})([...document.querySelectorAll(shown)]) <= 390"
    page.wait_for_function(fits, arg=shown)


def test_the_endpoint_streams_the_same_rounds(url, pair):
    from gradio_client import Client

    client = Client(url, verbose=False)
    job = client.submit(
        "Once upon a time",
        method="gsd",
        topology="specinfer",
        k=8,
        max_new_tokens=32,
        seed=5,
        api_name="/generate",
    )
    rounds = [specdec.Round.from_json(text) for text in job]
    expected = specdec.generate(
        pair,
        "Once upon a time",
        method="gsd",
        topology=specdec.topology.specinfer(8),
        max_new_tokens=32,
        seed=5,
    )
    assert [round.tokens for round in rounds] == [round.tokens for round in expected.rounds]


def test_the_endpoint_explains_a_mistake(url):
    from gradio_client import Client

    client = Client(url, verbose=False)
    with pytest.raises(Exception, match="top_p = 7") as raised:
        client.predict("Once upon a time", top_p=7, api_name="/generate")
    assert "Traceback" not in str(raised.value)
