"""The first screen of the page, measured: all its parts are visible, and nothing jumps."""

import json
import re

import pytest
from playwright.sync_api import expect

from components.decode import traces
from tests.browser.test_browser_screens import CUT
from tests.browser.test_browser_screens import SIZES as SCREENS
from tests.conftest import (
    PHONE,
    SLOW,
    choose,
    closed,
    enter,
    generate,
    go,
    pick,
    ready,
    receive,
    resize,
    settle,
    shifts,
    shows,
    state,
    to,
    wait_for_state,
    watch_shifts,
)

DONE = {"phase": "done"}
PLACES = """(names) => Object.fromEntries(names.map((name) => {
  const { left, top, right, bottom } = document.querySelector(`#${name}.block`).getBoundingClientRect();
  return [name, [left, top, right, bottom].map(Math.round)];
}))"""


@pytest.fixture
def tab(blank, visit, someone, url):
    """Open the page at a size, as a new visitor. settings: those of a browser of its own."""

    def open_page(size, query="", reduced_motion="no-preference", **settings):
        if settings:
            page = someone(f"{url}/{query}", size, **settings)
            ready(page)
            return page
        blank.emulate_media(reduced_motion=reduced_motion)
        return visit(query, size)

    return open_page


def whole_places(page, names):
    """Whether these panels are completely on the screen, and their places."""
    places = page.evaluate(PLACES, names)
    size = page.viewport_size
    for name, (left, top, right, bottom) in places.items():
        assert 0 <= left < right <= size["width"], (name, places)
        assert 0 <= top < bottom <= size["height"], (name, places)
        assert (right - left) * (bottom - top) > 10_000, (name, places)
    return places


@pytest.mark.parametrize("size", SCREENS)
def test_text_tree_race_and_player_are_whole_before_during_and_after_a_run_and_nothing_jumps(tab, size):
    page = tab(size)
    names = ["text", "tree", "race", "stepper"]
    page.wait_for_selector("#tree .drawing .node")
    page.keyboard.press("Escape")  # ends the opening
    page.wait_for_selector("#race .drawing")
    settle(page)
    before = whole_places(page, names)
    assert before["tree"][3] <= before["stepper"][1], before  # the element is not covered by the player
    enter(page.locator("#length input[type=number]"), "80")
    choose(page.locator("#baseline input"), False)
    closed(page)
    settle(page)
    watch_shifts(page)
    page.locator("#generate").click()
    # a busy browser may receive all rounds at once
    wait_for_state(page, "!recorded && ['running', 'done'].includes(phase) && rounds.length > 3", 6 * SLOW)
    during = whole_places(page, names)
    page.wait_for_function("document.body.dataset.phase === 'done'")
    settle(page)
    assert whole_places(page, names) == during == before
    assert shifts(page)[0] < 0.02, shifts(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


IN_SIGHT = """(names) => [...document.querySelectorAll(names)].filter((name) => {
  const { left, right, y, height } = name.getBoundingClientRect();
  const isSeen = (x) => document.elementFromPoint(x, y + height / 2) === name;
  return isSeen(left + 1) && isSeen(right - 1);
}).map((name) => name.textContent)"""
"""The texts of such elements that are neither cut nor covered."""


def test_a_phone_shows_text_player_and_tree_or_race_with_the_prompt_below(tab):
    # on a busy machine "auto" may draft nothing, and then the trees have only the large model's own token
    page = tab(PHONE, "?length=40&baseline=0&topology=optimal&k=4", has_touch=True)
    watch_shifts(page)
    page.locator("#generate").click()
    page.wait_for_function("document.body.dataset.phase === 'done'")
    # a run that was slow, as on a busy machine, plays again in real time
    is_played = "document.querySelector('#stepper .play .word').textContent === 'play'"
    page.wait_for_function(is_played, timeout=2 * SLOW)
    settle(page)
    assert page.evaluate(IN_SIGHT, "#text .legend .token") == ["accepted", "rejected", "correction", "bonus"]
    order = whole_places(page, ["text", "stepper", "tree", "prompt"])
    assert sorted(order.values(), key=lambda place: place[1]) == list(order.values())
    page.get_by_role("button", name="Race ›").click()
    page.wait_for_function("document.querySelector('#race.block').getBoundingClientRect().left >= 0")
    assert whole_places(page, ["text", "stepper", "race", "prompt"])["race"][1] == order["tree"][1]
    page.get_by_role("button", name="‹ Tree").click()
    page.wait_for_function("document.querySelector('#tree.block').getBoundingClientRect().left >= 0")
    page.locator("#tree .drawing .node:not(.last)").first.tap()  # that token has no child index
    expect(page.locator("#tree .inspected")).to_contain_text("child index")
    assert shifts(page)[0] < 0.02, shifts(page)
    page.evaluate("scrollTo(0, 1000)")
    page.wait_for_function("scrollY > 100")
    page.locator("#generate").click()
    page.wait_for_function("document.querySelector('#text.block').getBoundingClientRect().top >= 0")


ROOM = """() => {
  const guesses = document.querySelector(".slow .checked");
  const before = [...guesses.previousSibling.getClientRects()].at(-1);
  return guesses.getClientRects()[0].left - before.right;
}"""
"""The pixels between the checked guesses and the text before them."""


def test_the_opening_tells_a_line_slowly_plays_both_bars_and_ends_with_two_next_steps(tab):
    page = tab((1280, 720), is_new=True)
    expect(page.locator("#claim")).to_have_text(re.compile("A small model guesses ahead, a large one checks"))
    assert page.locator("#claim p").evaluate("claim => getComputedStyle(claim).fontSize") == "22px"
    for words in ("guesses ahead: six tokens", "checks all", "large model writes", "guesses"):
        shows(page, ".slow .caption", words)
        if words == "checks all":
            assert page.evaluate(ROOM) >= 8  # the frame of the guesses is this far outside of them
    expect(page.locator("#race")).to_be_hidden()
    assert page.evaluate("document.body.dataset.phase") == "idle"
    page.wait_for_selector("[data-lanes]")
    expect(page.locator("#stepper .play .word")).to_have_text("play")
    shown = state(page)
    assert not shown["veiled"]
    assert shown["selected"] == {name: shown["recorded"][name] for name in ("round", "step")}
    expect(page.locator(".lane .count").first).to_have_text("64 calls")
    expect(page.locator(".account .equal")).to_have_text("64 of 64 tokens equal ✓")
    expect(page.locator(".account .sum")).to_have_text(re.compile(SPEED))
    expect(page.locator("#result .gain")).to_have_text(re.compile(r"\d times as fast, the same 64 tokens$"))
    expect(page.locator(".lane .calls .tick[d^=M]")).to_have_count(2)
    expect(page.locator("#result .guess")).to_have_attribute("href", "?tab=draft")
    fetched = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    assert any(address.endswith("traces/story.json") for address in fetched)
    assert not any("/call/" in address for address in fetched), "a recorded run asks no model"
    page.get_by_role("button", name="Try your own").click()
    expect(page.locator("#prompt textarea")).to_be_focused()


def test_any_key_ends_the_opening_and_the_race_opens_on_request_and_stays_open(tab):
    page = tab((1280, 720), is_new=True)
    page.wait_for_selector("[data-stage=line]")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Try your own")).to_be_visible()
    expect(page.locator("#statistics")).to_be_hidden()
    story = page.locator("#text .story")
    story.evaluate("(element) => void (element.scrollTop += 40)")
    page.locator("#text .tokens .token.current").click()
    story.evaluate("(element) => void (element.scrollTop -= 8)")  # as the story does for a word at its edge
    page.get_by_role("button", name="Why this word?").click()
    expect(page.locator("#race .figure")).to_be_visible()
    expect(page.get_by_text("the shortest bar wins")).to_be_visible()
    page.get_by_label("More").check(force=True)
    expect(page.locator("#method")).to_be_visible()
    page.goto(page.url.partition("?")[0])
    page.wait_for_selector("[data-stage=line]")
    page.keyboard.press("Escape")
    page.locator("#text .tokens .token.current").click()
    expect(page.locator("#race .figure")).to_be_visible()
    expect(page.locator("#method")).to_be_visible()


def test_keys_open_the_race_and_keep_their_place_when_a_button_is_disabled(tab):
    page = tab((1280, 720), is_new=True)
    page.wait_for_selector("[data-stage=line]")
    page.keyboard.press("Escape")
    page.locator("#text .story").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#race .figure")).to_be_hidden()
    page.keyboard.press("Enter")
    expect(page.locator("#race .figure")).to_be_visible()
    page.route("**/call/v2/*", lambda _: None)  # the run does not end by itself
    for pressed, focused in (
        ("#stepper .first", "#stepper .forward"),
        ("#generate", "#stop"),
        ("#stop", "#generate"),
    ):
        page.locator(pressed).focus()
        page.keyboard.press("Enter")
        expect(page.locator(focused)).to_be_focused()


SPEED = r"([Tt]imes as fast|as fast as plain decoding here|too busy to measure).*"


def test_generate_gives_the_text_of_the_opening_and_plays_it(tab):
    page = tab((1280, 720))
    text = "".join(round["text"] for round in state(page)["rounds"])
    status = page.locator("#feed .run-status")
    expect(status).to_contain_text("reads the large model from memory once")  # the story that plays
    page.wait_for_function("!document.body.hasAttribute('data-loading')")
    page.route("**/call/v2/*", lambda _: None)  # the request is still in progress
    page.locator("#generate").click()
    page.wait_for_selector("body[data-phase=waiting]")  # set in the frame that writes the words
    assert status.text_content() == "Waiting for the model …"
    assert status.is_visible()
    page.unroute("**/call/v2/*")  # this sends the request on
    wait_for_state(page, "recorded === null && rounds.length > 0 && veiled")
    assert state(page)["selected"]["round"] == 0
    page.wait_for_function("document.body.dataset.phase === 'done'")
    # by then a slow machine has played the run to its end, and no button is left to press
    page.locator("button.skip").evaluate("(skip) => skip.click()")
    assert not state(page)["veiled"]
    expect(page.locator(".account .sum")).to_have_text(re.compile(SPEED))
    expect(page.locator(".account .equal")).to_have_text("64 of 64 tokens equal ✓")
    assert "".join(page.locator("#text .tokens .token:not(.rejected)").all_text_contents()) == text


def test_a_run_without_a_speed_says_why_and_is_measured_again_with_its_own_settings(tab):
    page = tab((1280, 720), "?length=24&topology=sequence&k=2", is_new=True)
    generate(page)
    run = state(page)
    for i, timing in enumerate(run["timings"]):  # the repeats are far apart
        timing["run"] = [seconds * (1 + i) for seconds in timing["run"]]
    receive(page, {"phase": "baseline", "rounds": run["baseline"], "timings": run["timings"]}, DONE)
    page.get_by_role("button", name="Skip").click()
    expect(page.locator("#result .same")).to_contain_text("this machine is too busy to measure it")
    page.locator(".open-more").click()
    enter(page.locator("#length input[type=number]"), "8")
    pick(page.locator("#topology select"), "batch")
    closed(page)
    page.get_by_role("button", name="Measure again").click()
    wait_for_state(page, "run !== 'given 1'")
    expect(page.locator("#result .measure")).to_be_hidden()
    page.wait_for_function("document.body.dataset.phase === 'done'")
    assert state(page)["setup"] == run["setup"]


def test_a_run_that_has_begun_shows_nothing_of_the_one_before(tab):
    page = tab((1280, 720), reduced_motion="reduce")
    page.evaluate("specdec.store.receiveAll([JSON.stringify({ phase: 'running', rounds: [] })])")
    hidden = "part => !document.querySelector(part).checkVisibility({ visibilityProperty: true })"
    for part in ("#tree .drawing", "#race .drawing", "#text .calls", ".account .equal"):
        page.wait_for_function(hidden, arg=part)
    assert page.locator(".plain-text").text_content() == ""


STALE = """async () => {
  const { store } = window.specdec;
  const { rounds } = store.state;
  const lengths = rounds.map(({ tokens }) => tokens.length);
  const at = (length) => rounds[lengths.indexOf(length)].number;
  store.select(at(Math.max(...lengths)));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const drawn = [...document.querySelectorAll("#race .step, #race .row, #tree .node")];
  store.select(at(Math.min(...lengths)));
  for (const element of drawn) element.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
  return [drawn.length, Math.max(...lengths) > Math.min(...lengths)];
}"""
"""Point at all parts of the drawings of a long round, while a short round is selected but not yet drawn."""


def heard(page):
    """Rejected tokens are heard as rejected, and tree and race can be walked by the ear."""
    shown = state(page)
    entry, round = shown["recorded"], shown["rounds"][shown["recorded"]["round"]]
    page.locator("#race ol li").first.wait_for(state="attached")
    rejected = [node["text"].strip() for node in round["nodes"] if node["status"] == "rejected"]
    text = page.locator("#text .story").aria_snapshot()
    assert f'img "rejected: {rejected[-1]}"' in text
    tree = page.locator("#tree").aria_snapshot()
    walked = tree.split('list "The draft tree as a list"')[1]
    assert walked.count("listitem: ") >= len(round["nodes"])
    for status in ("accepted", "rejected", "not used"):
        assert f": {status}, child index" in walked
    race = page.locator("#race").aria_snapshot().split('list "The race as a list"')[1]
    winner = round["tokens"][entry["step"]]["text"].strip()
    assert race.count("arrives in the small model's race at") >= 2  # the number of bars that fit
    assert winner in race


def test_the_opening_run_can_be_heard_walked_and_pointed_at_and_is_laid_out_once_a_round(tab):
    page = tab((1280, 720), reduced_motion="reduce")
    fetched = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    assert len(fetched) < 10
    assert len(fetched) == len(set(fetched))  # each file once
    ours = [re.sub("^v[0-9a-f]{12}/", "", name.split("/files/")[-1]) for name in fetched if "/files/" in name]
    assert [name for name in ours if name.endswith(".js")] == ["bundle/main.js"]
    assert [name for name in ours if name.endswith(".css")] == ["made/page.css"]
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")

    def layouts():
        metrics = devtools.send("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "LayoutCount")

    before = layouts()
    for number in range(1, 11):
        page.evaluate("number => window.specdec.store.seek(number)", number)
        settle(page)
    assert layouts() - before <= 12  # ten rounds, and two of something else; not one for each panel
    page.get_by_role("button", name="Show it").click()
    heard(page)
    place = "(({ rounds, selected }) => [selected.round, rounds.length - 1])(window.specdec.store.state)"
    featured, last = page.evaluate(place)
    assert featured != last
    # the run is at its featured round already
    expect(page.get_by_role("button", name="Show it")).to_be_hidden()
    for to_the_end in (
        lambda: page.keyboard.press("End"),
        page.get_by_role("button", name="Newest round").click,
    ):
        to_the_end()
        assert page.evaluate(place) == [last, last]
        page.get_by_role("button", name="Show it").click()
        assert page.evaluate(place) == [featured, last]
    node = page.locator("#tree .drawing .node.unvisited, #tree .drawing .node.accepted").first
    node.click()  # a pressed node keeps its note
    expect(page.locator("#tree .inspected")).to_contain_text("child index")
    number, is_shorter = page.evaluate(STALE)  # the fixture fails if a script fails
    assert number > 5
    assert is_shorter


def test_a_recorded_run_sets_its_prompt_and_method_and_a_change_is_marked(tab):
    page = tab((1280, 720), reduced_motion="reduce")
    prompt = json.loads((traces.FOLDER / "early-rejection.json").read_text())["prompt"]
    page.locator("#replay .choose").select_option("early-rejection")
    expect(page.locator("#prompt textarea")).to_have_value(prompt)
    expect(page.locator("#method input[value=gsd]")).to_be_checked()
    page.wait_for_url("**/?trace=early-rejection")
    expect(page.locator("body[data-changed]")).to_have_count(0)
    page.locator("#method input[value=ersd]").check(force=True)
    expect(page.locator(".look")).to_have_text(
        "You changed method. The shown run had the earlier settings. "
        "Press Generate for a run with the new ones."
    )
    expect(page.locator("body[data-changed]")).to_have_count(1)
    page.get_by_text("Settings", exact=True).click()
    for name in ("length", "seed"):
        page.locator(f"#{name} input[type=number]").fill("")
    expect(page.locator(".look")).to_have_text("Correct length, seed in Settings before you press Generate.")


def test_whoever_touches_what_is_shown_pauses_it(tab):
    page = tab((1280, 720), "?trace=long-run", reduced_motion="reduce")
    word = "#stepper .play .word"
    page.keyboard.press("Home")
    for touched in ("#text .tokens .token.accepted", "#tree .drawing .node", "#race .step", "#stepper input"):
        page.locator("#stepper .play").click()
        expect(page.locator(word)).to_have_text("pause")
        wait_for_state(page, "selected.round >= 2")
        page.locator(touched).first.click()
        expect(page.locator(word)).to_have_text("play")
    round_number = state(page)["selected"]["round"]
    page.wait_for_timeout(1200)
    assert state(page)["selected"]["round"] == round_number


def test_a_link_offers_its_run_and_a_reload_keeps_the_visitors_run(tab):
    page = tab((1280, 720), "?length=6&topology=sequence&k=2&baseline=0")
    expect(page.locator(".look")).to_have_text(re.compile("The settings of this link"))
    page.wait_for_selector("#tree .drawing .node")
    expect(page.locator("#stepper .play .word")).to_have_text("play")  # a recorded run at rest
    expect(page.locator("#prompt textarea")).to_have_value(state(page)["setup"]["prompt"])
    assert not state(page)["veiled"]
    page.get_by_role("button", name="Run it").click()
    page.wait_for_function("document.body.dataset.phase === 'done'")
    assert state(page)["setup"]["max_new_tokens"] == 6
    expect(page.get_by_role("button", name="Run it")).to_be_hidden()
    expect(page.locator(".account .sum")).to_contain_text("Plain decoding was not measured")
    choose(page.locator("#baseline input"))
    generate(page)
    text = page.locator("#text .tokens").text_content()
    baseline = state(page)["baseline"]
    for round in baseline:
        round["seconds"]["evaluate"] = 0  # so the run's own lane is the longer one
    receive(page, {"phase": "baseline", "rounds": baseline}, DONE)
    lane = page.locator(".lane.with .calls .call")
    settle(page)
    blocks = lane.get_attribute("d")
    page.reload()
    ready(page)
    assert page.locator("#text .tokens").text_content() == text
    expect(lane).to_have_attribute("d", blocks)
    assert len(state(page)["baseline"]) == 6
    receive(page, DONE, note="long " * 500_000)
    page.reload()
    expect(page.locator(".look")).to_contain_text("Your last run was too long to be kept")
    go(page, page.url.split("?")[0])  # the page is opened anew
    assert state(page)["recorded"]["name"] == "story"


ENDED = "Your run ended when the page was loaded again."


def reload_in_a_run(page, button):
    page.get_by_role("button", name=button).click()
    wait_for_state(page, "phase === 'running'")
    page.reload()
    expect(page.locator("#generate")).to_be_enabled()


def test_a_reload_that_ends_a_run_says_so_and_prints_no_error(tab):
    page, printed = tab((1280, 720), "?length=200&topology=sequence&k=1&baseline=0"), []
    page.on("console", lambda message: printed.append(message.text) if message.type == "error" else None)
    reload_in_a_run(page, "Run it")
    expect(page.locator(".look")).to_have_text(ENDED)
    page.reload()  # the message is shown only once
    expect(page.locator(".look")).to_contain_text("The settings of this link")
    page.get_by_role("button", name="Run it").click()
    page.wait_for_function("document.body.dataset.phase === 'done'")
    page.reload()
    expect(page.locator(".run-status")).to_contain_text("This is your last run")
    reload_in_a_run(page, "Generate")
    expect(page.locator(".run-status")).to_have_text(f"{ENDED} Your previous run is shown.")
    assert printed == []


def test_a_reload_that_ends_a_run_of_the_usual_settings_says_so_too(tab):
    page = tab((1280, 720), reduced_motion="reduce")
    reload_in_a_run(page, "Generate")
    expect(page.locator(".look")).to_have_text(ENDED)
    page.get_by_role("button", name="Run it").click()
    page.wait_for_function("document.body.dataset.phase === 'done'")


def test_focus_is_seen_on_whatever_the_tab_key_meets(tab):
    page = tab((1280, 720), reduced_motion="reduce")
    page.locator("#projector button").first.focus()
    condition = """() => {
      const marked = (element) => {
        const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element);
        return (outlineStyle !== "none" && parseFloat(outlineWidth) >= 2) || boxShadow !== "none";
      };
      const { activeElement: element } = document;
      return [element, element.parentElement, element.closest("label")].some((at) => at && marked(at));
    }"""
    for _ in range(34):
        page.keyboard.press("Tab")
        page.wait_for_function(condition)  # Gradio's shadows appear slowly


def test_a_refused_run_leaves_the_old_result_marked_and_its_message_goes_with_the_value(tab):
    page = tab((1280, 720), "?length=8&baseline=0", reduced_motion="reduce")
    generate(page)
    prompt, seed = (page.locator(field).input_value() for field in ("#prompt textarea", "#seed input"))
    for field, wrong, right, message in (
        ("#top-k input", "-5", "0", "top-k = -5"),
        ("#seed input", "-1", seed, "seed = -1"),
        ("#prompt textarea", "the " * 600, prompt, "the prompt has 602 tokens"),
    ):
        enter(page.locator(field), wrong)
        expect(page.locator("body[data-changed]")).to_have_count(1)
        generate(page, until="error")
        expect(page.locator("#feed .run-error")).to_contain_text(message)
        assert "Traceback" not in page.locator("body").inner_text()
        expect(page.locator(f"{field.split()[0]} .wrong")).to_contain_text(message)
        expect(page.locator(field)).to_have_value(wrong)
        expect(page.locator("body[data-changed]")).to_have_count(1)
        enter(page.locator(field), right)
        expect(page.locator("#feed .run-error")).to_be_hidden()
        expect(page.locator("body[data-changed]")).to_have_count(0)


def test_a_change_during_a_run_is_marked_and_a_run_stopped_in_plain_decoding_is_complete(tab):
    page = tab((1280, 720), reduced_motion="reduce")
    receive(page, baseline=True)
    page.locator("#method input[value=gsd]").check(force=True)
    status = page.locator(".run-status")
    expect(status).to_have_text("Generating: 64 tokens in 16 rounds. You changed method for the next run.")
    expect(page.locator("body[data-changed]")).to_have_count(1)
    page.locator("#method input[value=ersd]").check(force=True)
    expect(page.locator("#generate")).to_be_disabled()
    receive(page, {"phase": "baseline"}, baseline=True, chat=True)
    expect(page.get_by_label("New chat")).to_be_visible()
    for control in ("#generate", "#stop", ".chips button", ".turns input"):
        for each in page.locator(control).all():
            expect(each).to_be_enabled()
    page.locator("#stop").click()
    expect(page.locator(".run-status")).to_contain_text("Done: 64 tokens in")
    expect(page.locator(".account .sum")).to_contain_text("Plain decoding was stopped after 0 tokens")
    expect(page.locator("#generate")).to_be_enabled()
    receive(page, DONE, baseline=True, chat=True)
    enter(page.locator("#prompt textarea"), "  ")
    expect(page.locator("body[data-changed]")).to_have_count(0)  # the conversation continues
    generate(page, until="error")  # a refused question leaves the last answer marked
    expect(page.locator("#feed .run-error")).to_contain_text("The prompt is empty")
    expect(page.locator("body[data-changed]")).to_have_count(1)
    enter(page.locator("#prompt textarea"), "And then?")
    expect(page.locator("body[data-changed]")).to_have_count(0)


def test_on_a_tablet_the_player_holds_all_its_parts_and_the_drawer_leaves_its_own_button_free(tab):
    page = tab((820, 1180))
    page.wait_for_selector("#stepper .skip:enabled")
    right = "selector => document.querySelector(selector).getBoundingClientRect().right"
    assert page.evaluate(right, ".live-figure span") <= page.evaluate(right, "#stepper nav")
    button = page.locator(".open-settings")
    button.click()
    expect(page.locator("#settings")).to_be_visible()
    button.click()
    expect(page.locator("#settings")).to_be_hidden()
    button.click()
    page.keyboard.press("Escape")
    expect(page.locator("#settings")).to_be_hidden()


@pytest.mark.parametrize("size", [(844, 390), (640, 360)])
def test_on_a_low_window_the_settings_follow_their_button_and_scroll_with_the_page(tab, size):
    page = tab(size)
    button, drawer = page.locator(".open-settings"), page.locator("#settings")
    button.click()
    assert drawer.evaluate("drawer => drawer.scrollHeight <= drawer.clientHeight + 1")
    end = button.bounding_box()["y"] + button.bounding_box()["height"]
    assert 0 <= drawer.bounding_box()["y"] - end < 20


def test_a_phone_has_no_empty_row_and_during_a_run_the_menu_hides_what_lies_below_it(tab):
    page = tab(PHONE, reduced_motion="reduce")
    expect(page.locator(".account .equal")).to_be_visible()
    receive(page, baseline=True)
    expect(page.locator(".account .equal")).to_be_hidden()  # no tokens are compared yet
    expect(page.locator("#replay .choose")).to_be_disabled()
    expect(page.locator("#replay .choose")).to_have_css("opacity", "1")
    rows, row = page.locator("#tabs > .tab-wrapper"), page.locator("#tabs .places").bounding_box()["height"]
    assert rows.bounding_box()["height"] == 2 * row
    for place in ("Guess", "Will it pay?"):
        to(page, place)
        assert rows.bounding_box()["height"] == row, place


ACCOUNT = (
    "About as fast as plain decoding here (1.0 to 1.3){}: a call with guesses yields 3.08 tokens "
    "and takes 3.2 times as long."
)
LONGEST = {
    "story": (ACCOUNT.format(""), ["draft", "accepted", "correction", "bonus"]),
    "parting-gsd": (
        ACCOUNT.format(", a text of the same distribution"),
        ["draft", "accepted", "residual", "bonus"],
    ),
}
"""The longest sentence about a run's speed, and kinds of decisions, by the recorded run."""


LENGTHENED = """async ([kind, account]) => {
  const { store } = window.specdec;
  const frame = () => new Promise(requestAnimationFrame);
  const text = JSON.stringify(store.state.rounds, (key, value) =>
    key === "text" ? " incomprehensibilities" : value);
  Object.assign(store.state, { rounds: JSON.parse(text) });
  for (const { number, tokens } of store.state.rounds) {
    const step = kind === "draft" ? 0 : tokens.findIndex((token) => token.kind === kind);
    if (step < 0) continue;
    if (kind === "draft") store.seek(number, 0);
    else store.select(number, step);
    await frame().then(frame).then(frame);
    document.querySelector(".account .sum").textContent = account;
    return document.querySelector("#race .verdict").textContent;
  }
}"""
"""Shows a decision of this kind with a long token and a long account. Returns the race's sentence."""


@pytest.mark.parametrize("trace", LONGEST)
def test_no_sentence_is_cut_for_a_long_token(tab, trace):
    page = tab(SCREENS[0], f"?trace={trace}", reduced_motion="reduce")
    account, kinds = LONGEST[trace]
    for size in (*SCREENS, PHONE):
        resize(page, size)
        settle(page)
        for kind in kinds:
            words = "tokens guessed: " if kind == "draft" else kind
            assert words in page.evaluate(LENGTHENED, [kind, account])
            assert page.evaluate(CUT) == [], (size, kind)


def test_what_a_run_gained_is_whole_on_a_low_window(tab):
    page = tab((1100, 700), "?trace=early-rejection", is_new=True)
    page.keyboard.press("End")
    for size in ((1100, 700), (1024, 768), (1366, 640), PHONE):
        resize(page, size)
        settle(page)
        panel = "([panel]) => [panel.checkVisibility(), panel.scrollHeight - panel.clientHeight]"
        assert page.locator("#result").evaluate_all(panel) == [True, 0], size


def test_a_check_that_is_begun_before_its_script_has_come_begins_then(tab):
    page = tab((1280, 720))
    routes = []
    page.route("**/losslessness/panel.js", lambda route: routes.append(route))
    with page.expect_request("**/losslessness/panel.js"):
        to(page, "Understand", "Losslessness")
    page.locator("#lossless-run").click()
    page.wait_for_timeout(500)
    routes.pop().continue_()
    page.unroute("**/losslessness/panel.js")
    page.wait_for_function("document.body.dataset.check === 'running'")


def test_the_story_shows_whole_lines(tab):
    for size, query in [*((size, "") for size in (*SCREENS, PHONE)), (SCREENS[1], "&projector=1")]:
        page = tab(size, f"?trace=opening{query}", reduced_motion="reduce")
        page.keyboard.press("End")
        settle(page)
        line, top, height = page.evaluate(
            """() => {
              const story = document.querySelector("#text .story");
              return [parseFloat(getComputedStyle(story).lineHeight), story.scrollTop, story.clientHeight];
            }"""
        )
        assert top > 0, size
        lines = top / line
        assert lines == pytest.approx(round(lines), abs=0.01), size  # an enlarged page rounds scrollTop
        assert height % line in (0, 8), size


FORCED = """() => {
  const styleOf = (selector) => getComputedStyle(document.querySelector(selector));
  return {
    text: styleOf("#prompt textarea").color,
    keys: ["call", "guess", "tick"].map((name) => styleOf(`#text .key .${name}`).backgroundColor),
    places: ["true", "false"].map((is) => styleOf(`.places [aria-selected="${is}"]`).backgroundColor),
  };
}"""


def test_forced_colours_leave_keys_apart_the_open_place_marked_and_one_text_in_the_prompt(tab):
    page = tab(SCREENS[0], "?trace=opening", forced_colors="active")
    page.wait_for_selector("[data-asked] #prompt")
    looks = page.evaluate(FORCED)
    assert looks["text"] == "rgba(0, 0, 0, 0)"  # a sentence stands in its place
    assert len(set(looks["keys"])) == 3
    assert len(set(looks["places"])) == 2
