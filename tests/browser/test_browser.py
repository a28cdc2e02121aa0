"""The page as a visitor uses it: the real app with the embedded pair, in headless Chromium."""

import json

from playwright.sync_api import expect

from tests import conftest
from tests.conftest import LONG, choose, enter, pick, press_once, ready, settle, shows, state, wait_for_state

HOSTILE = "<img src=x onerror=window.hacked=1> ${window.hacked=2} {{7*7}} `x` \u202eabc <b>bold</b>"


def generate(page, until="done", prompt=None, length=None):
    if prompt is not None:
        enter(page.locator("#prompt textarea"), prompt)
    if length is not None:
        enter(page.locator("#length input[type=number]"), str(length))
    conftest.generate(page, until)


SHOWN = """[...document.querySelectorAll("#text .tokens .token:not(.rejected)")]
  .map((token) => [token.textContent, token.classList[1]])"""
"""Texts and kinds of the tokens that are drawn."""
IS_DRAWN = f"""(({{ phase, rounds }}) => phase === "running" && rounds.length > 2
  && {SHOWN}.length === rounds.flatMap(({{ tokens }}) => tokens).length)(window.specdec.store.state)"""


def stopped_run(visit):
    """A run that the page stops while it runs, as soon as more than two rounds of it are drawn.

    A browser without processor time may receive all rounds at once. Then the server had ended the run before
    the stop, and the caller tries again."""
    page = visit(f"?{LONG}")
    press_once(page, IS_DRAWN, "#stop")
    generate(page, until="stopped")
    expect(page.locator("#generate")).to_be_enabled()
    return state(page)


def test_text_appears_while_it_is_generated_and_stop_ends_the_run_within_a_round_and_frees_the_model(
    visit, blank
):
    page = blank
    tries = (stopped_run(visit) for _ in range(5))
    rounds = next(run["rounds"] for run in tries if run["rounds"][-1]["finish"] is None)
    assert [round["number"] for round in rounds] == list(range(len(rounds)))
    tokens = [[token["text"], token["kind"]] for round in rounds for token in round["tokens"]]
    assert len(tokens) < 400
    settle(page.locator("#text .tokens"))
    assert page.evaluate(SHOWN) == tokens
    page.reload()
    ready(page)
    generate(page, length=4)  # the model is free again
    assert state(page)["setup"]["max_new_tokens"] == 4
    assert state(page)["rounds"][-1]["finish"] == "length"


def test_a_finished_run_rests_on_the_last_decision_of_its_last_whole_tree_and_is_copied_and_stepped(page):
    generate(page, length=48)
    settle(page.locator("#text .tokens"))
    run = state(page)
    chosen = run["selected"]["round"]
    drafted = [len(round["nodes"]) for round in run["rounds"]]
    assert drafted[chosen] == max(drafted)
    assert max(drafted[chosen + 1 :], default=0) < max(drafted)
    assert run["selected"]["step"] == len(run["rounds"][chosen]["steps"]) - 1
    text = run["setup"]["prompt"] + "".join(round["text"] for round in run["rounds"])
    page.locator("#text .story").select_text()
    page.keyboard.press("Control+c")
    assert page.evaluate("navigator.clipboard.readText()") == text
    # stepping, and a press on a token, move every panel
    token = page.locator("#text .tokens .token:not(.rejected)").nth(5)
    where = token.evaluate("token => [Number(token.dataset.round), Number(token.dataset.step)]")
    token.click()
    wait_for_state(page, "!follow")
    assert list(state(page)["selected"].values()) == where
    page.get_by_role("button", name="First round").click()
    shows(page, "#tree .verdict", "Round 1:")
    page.get_by_role("button", name="Next round").click()
    shows(page, "#tree .verdict", "one call yields")
    steps = state(page)["rounds"][0]["steps"]
    expect(page.locator("#race .step")).to_have_count(len(steps))
    page.get_by_role("button", name="Next round").click()
    shows(page, "#tree .verdict", "Round 2:")
    expect(page.locator("#stepper output")).to_contain_text("round 2 of")
    expect(page.locator("#text .tokens > .round").nth(1)).to_contain_class("selected")
    page.locator("#text h2").click()  # the keys work unless an element needs them itself
    page.keyboard.press("Shift+ArrowLeft")
    shows(page, "#tree .verdict", "Round 1:")
    page.locator("#race .step").first.click()
    wait_for_state(page, "selected.step === 0")
    expect(page.locator("#race .step").first).to_have_attribute("aria-pressed", "true")
    rows = page.locator("#race .row").count()  # as many bars as there is room for
    assert 2 <= rows <= min(4, len(steps[0]["leading"]))


def test_the_tree_keeps_its_zoom_while_rounds_go_by(page):
    pick(page.locator("#topology select"), "batch")  # the trees of "auto" change their shape
    generate(page, length=32)
    root = "document.querySelector('#tree .mark.root').getAttribute('transform')"
    tree = page.evaluate(root)
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_function(f"{root} !== {tree!r}")
    zoomed = page.evaluate(root)
    generate(page, length=8)
    assert page.evaluate(root) == zoomed
    page.locator("#tree [data-zoom=reset]").click()
    page.wait_for_function(f"{root} === {tree!r}")


def test_gsd_shows_its_tests_and_the_statistics_their_denominators_and_the_names_of_the_record(page):
    choose(page.locator("#method").get_by_label("GSD"))
    generate(page, length=48)
    rounds = state(page)["rounds"]
    page.get_by_role("button", name="First round").click()
    page.get_by_role("button", name="Next round").click()
    shows(page, "#tree .verdict", "one call yields")
    trials = len(rounds[0]["steps"][-1]["trials"])
    expect(page.locator("#race .strip")).to_have_count(min(trials, 4))
    # the numbers count only the rounds that are shown
    page.get_by_role("button", name="Newest round").click()
    shows(page, "#statistics .efficiency-note", f"{sum(len(round['tokens']) for round in rounds)} tokens in")
    nodes = [node for round in rounds for node in round["nodes"] if node["path"][-1] == 0]
    nodes = [node for node in nodes if node["status"] != "unvisited"]
    accepted = sum(node["status"] == "accepted" for node in nodes)
    row = page.locator("#statistics .acceptance tbody tr").first
    expect(row).to_contain_text(f"{accepted} of {len(nodes)}")
    page.locator("#statistics .all > summary").click()
    for name in ("mean_length", "num_drafted"):
        expect(page.locator("#statistics .models")).to_contain_text(name)


def test_hostile_text_is_shown_as_text(page):
    generate(page, prompt=HOSTILE, length=4)
    page.wait_for_function(
        "text => document.querySelector('#text .prompt').textContent === text", arg=HOSTILE
    )
    assert page.locator("#text .prompt .control").get_attribute("data-shown") == "[U+202E]"
    # A model may write any text. The text of a token is the same everywhere on the page.
    texts = json.dumps(state(page)["rounds"][:1])
    hostile = json.loads(texts, object_hook=lambda each: each | {"text": HOSTILE} if "text" in each else each)
    conftest.receive(page, {"phase": "done"}, rounds=hostile)
    page.wait_for_function("document.querySelector('#text .token.accepted, #text .token.correction')")
    page.wait_for_function("document.querySelector('#race .drawing .name')?.textContent.includes('img')")
    first = "document.querySelector('#text .tokens .token:not(.rejected)').textContent"
    page.wait_for_function(f"text => {first} === text", arg=HOSTILE)
    assert page.locator("#text img, #race img, #tree img, #text b:not(.hint b), #race .figure b").count() == 0
    assert page.evaluate("window.hacked") is None
    # A rejected word must not part the letters of a word that is written from right to left.
    places = page.evaluate(
        """() => {
          const letter = (text) => `<span class="token accepted">${text}</span>`;
          const tokens = document.querySelector("#text .tokens");
          tokens.innerHTML = `a ${letter("ש")}<s class="token rejected">wrong</s>${letter("ל")}`;
          return [...tokens.children].map((element) => element.getBoundingClientRect().x);
        }"""
    )
    assert places == sorted(places, reverse=True)


def test_a_mistake_stands_beside_its_field_which_takes_what_the_server_takes(page):
    """A slider has a narrower range than the setting. A typed value beyond the slider's end is valid, and a
    run uses it."""
    page.locator(".open-settings input").check(force=True)
    field = page.locator("#top-k")
    expect(field.locator(".wrong")).to_be_hidden()
    enter(field.locator("input"), "-3")
    expect(field.locator(".wrong")).to_have_text("Give a whole number of at least 0.")
    expect(field.locator("input")).to_have_attribute("aria-invalid", "true")
    assert field.locator("input").get_attribute("aria-describedby") == "top-k-wrong"
    page.wait_for_timeout(600)  # the address follows within half a second
    assert "top-k" not in page.url, "a link must open"
    enter(field.locator("input"), "3")
    expect(field.locator(".wrong")).to_be_hidden()
    enter(page.locator("#top-p input").first, "0")
    page.locator("#generate").click()
    expect(page.locator("#top-p .wrong")).to_contain_text("top_p = 0")  # what the server says
    expect(page.locator("#top-p input").first).to_be_focused()
    enter(page.locator("#top-p input").first, "1")
    expect(page.locator("#top-p .wrong")).to_be_hidden()
    page.locator(".open-settings input").check(force=True)
    enter(page.locator("#temperature input").first, "2.5")
    expect(page.locator("#temperature .wrong")).to_be_hidden()
    enter(page.locator("#seed input"), "9007199254740993")
    expect(page.locator("#seed .wrong")).to_contain_text("to 9007199254740991")
    enter(page.locator("#seed input"), "1")
    pick(page.locator("#topology select"), "batch")
    enter(page.locator("#k input").first, "0")
    expect(page.locator("#k .wrong")).to_be_visible()
    page.locator("#method").get_by_text("Plain", exact=False).click()
    expect(page.locator("#k .wrong")).to_be_hidden()
    generate(page, length=4)
    assert state(page)["setup"]["temperature"] == 2.5


def test_on_a_touch_screen_generate_keeps_its_colour_after_a_tap(someone, url):
    """There, a tapped button stays hovered."""
    phone = someone(f"{url}/", has_touch=True, is_mobile=True)
    button, colour = phone.locator("#generate"), "(button) => getComputedStyle(button).backgroundColor"
    before = button.evaluate(colour)
    button.hover()
    phone.wait_for_timeout(300)  # colours change slowly
    assert button.evaluate(colour) == before


def test_the_choice_of_auto_is_explained(visit):
    page = visit("?baseline=0&topology=auto&length=24&seed=1")
    generate(page)
    page.locator("#statistics .all > summary").click()
    choice = page.locator("#statistics .choice")
    drafted = [len(round["nodes"]) for round in state(page)["rounds"]]
    mean = sum(drafted) / len(drafted)
    # on a busy machine drafting may not pay
    outcome = f"{mean:.1f} drafted tokens per call" if mean else "which found that drafting does not pay here"
    expect(choice.locator("summary")).to_contain_text(f"topology: auto, {outcome}")
    expect(choice.locator("summary")).to_contain_text("why this tree?")
    choice.locator("summary").click()
    rows = choice.locator("tbody tr").all_inner_texts()
    rates = [float(row.split("\t")[-1]) for row in rows]
    assert [rate for row, rate in zip(rows, rates, strict=True) if "★" in row] == [max(rates)]
    assert choice.locator("svg").count() == 3
    assert choice.locator("circle.chosen").count() == 3
