"""The page in a class: links open the same set-up, lessons show what they state, projectors show it large."""

import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import expect

from components.lessons import panel as lessons
from tests.conftest import (
    PHONE,
    choose,
    enter,
    generate,
    go,
    pick,
    ready,
    resize,
    serious_findings,
    settle,
    shows,
    state,
    to,
)

LESSONS = {lesson["id"]: lesson for lesson in lessons.lessons()}


def messages(page):
    return page.locator(".told li").all_inner_texts()


# ---------------------------------------------------------------- the set-up in the address


DECODE = {
    "prompt": "A bird, 50% & more?",
    "method": "gsd",
    "topology": "batch",
    "k": "16",
    "length": "32",
    "baseline": "0",
    "temperature": "0.7",
    "top-p": "0.5",
    "top-k": "5",
    "seed": "11",
}


CONTROLS = """(names) => Object.fromEntries(names.map((name) => {
  const controls = [...document.querySelectorAll(`#${name} :is(input, select, textarea)`)];
  const used = controls.find(({ type, checked }) => type !== "radio" || checked);
  return [name, used.type === "checkbox" ? String(Number(used.checked)) : used.value];
}))"""


def decode_controls(page):
    """The values of the Decode tab's controls, by their names in the address."""
    settle(page.locator("#seed input"))
    return page.evaluate(CONTROLS, list(DECODE))


def test_a_copied_link_opens_the_same_set_up(visit, someone):
    page = visit()
    choose(page.locator("#method").get_by_label("GSD"))
    pick(page.locator("#topology select"), "batch")
    choose(page.get_by_label("Measure plain decoding too"), False)
    for name in ("prompt", "k", "length", "temperature", "top-p", "top-k", "seed"):
        enter(page.locator(f"#{name} :is(input, textarea)").first, DECODE[name])
    page.wait_for_function("new URLSearchParams(location.search).get('seed') === '11'")
    before = decode_controls(page)
    assert before == DECODE
    page.get_by_role("button", name="Copy link to this set-up").click()
    expect(page.locator("#setup .copied")).to_have_text("Copied.")
    other = someone(page.evaluate("navigator.clipboard.readText()"))
    ready(other)
    expect(other.locator("#k input[type=number]")).to_have_value("16")
    assert decode_controls(other) == before
    assert messages(other) == []


@pytest.mark.parametrize("late", ["main.js", "traces/*.json"])
def test_what_a_visitor_sets_while_the_page_is_on_its_way_stays(someone, url, late):
    """Over a slow line, the scripts and the opening run come long after the controls are visible."""
    page, routes = someone("about:blank"), []
    page.route(f"**/{late}", lambda route: routes.append(route))
    with page.expect_request(f"**/{late}"):
        page.goto(f"{url}/?topology=batch&k=16&length=32", wait_until="commit")
    enter(page.locator("#prompt textarea"), "A bird")
    for route in routes:
        route.continue_()
    page.unroute(f"**/{late}")
    ready(page)
    expect(page.locator("#length input[type=number]")).to_have_value("32")  # the address has been read
    settle(page.locator("#length input[type=number]"))
    expect(page.locator("#prompt textarea")).to_have_value("A bird")
    page.wait_for_url("**prompt=**")
    values = dict(parse_qsl(urlsplit(page.url).query))
    assert values == {"prompt": "A bird", "topology": "batch", "k": "16", "length": "32"}


@pytest.mark.parametrize(
    ("query", "topology"), [("length=32", "auto"), ("k=3", "optimal"), ("tree=1.1.1", "optimal")]
)
def test_a_link_without_a_topology_means_auto_unless_it_gives_a_tree(visit, query, topology):
    """`optimal` was the default before `auto`, so earlier links leave it out."""
    page = visit(f"?{query}")
    expect(page.locator("#topology select")).to_have_value(topology)
    number = page.locator("#k input[type=number]")
    assert number.is_disabled() == (topology == "auto")


def test_fields_that_plain_decoding_does_not_use_are_disabled_and_not_in_the_link(visit):
    query = "?method=gsd&topology=batch&k=16&drafter=model%2Bcopies&baseline=0"
    page = visit(query)
    page.locator("#method").get_by_text("plain", exact=True).click()
    page.wait_for_function("location.search === '?method=ar'")
    for name in ("topology", "k", "drafter", "baseline"):
        expect(page.locator(f"#{name} :is(input, select)").first).to_be_disabled()
    page.locator("#method").get_by_text("GSD", exact=True).click()
    page.wait_for_function("(query) => location.search === query", arg=query)
    pick(page.locator("#drafter select"), "alone")
    page.wait_for_function("location.search === '?method=gsd&drafter=copies&baseline=0'")
    page.locator("#drafter select").select_option("model")
    pick(page.locator("#topology select"), "auto")  # a link leaves out what a topology does not use
    page.wait_for_function("location.search === '?method=gsd&baseline=0'")


def test_a_copied_link_says_when_it_may_give_another_text(visit):
    page = visit("?method=gsd")
    copied = page.locator("#setup .copied")
    button = page.get_by_role("button", name="Copy link to this set-up")
    button.click()
    expect(copied).to_have_text(re.compile("GSD may write another text, because auto chooses the trees anew"))
    pick(page.locator("#topology select"), "sequence")
    page.wait_for_function("location.search === '?method=gsd&topology=sequence'")
    button.click()
    expect(copied).to_have_text("Copied.")
    pick(page.locator("#topology select"), "auto")
    choose(page.locator("#method").get_by_label("ERSD"))
    page.wait_for_function("location.search === ''")
    button.click()
    expect(copied).to_have_text("Copied.")


def test_a_link_holds_the_tree_that_was_measured(visit, someone):
    """GSD's text depends on the tree. A link without the tree would give another text on another server."""
    page = visit("?method=gsd&topology=optimal&length=12&temperature=0.7&top-p=0.9&baseline=0")
    generate(page)
    page.wait_for_function("new URLSearchParams(location.search).has('tree')")
    tree, text = state(page)["setup"]["tree"], page.locator("#text .tokens").text_content()
    assert f"tree={tree}" in page.url
    other = someone(page.url.replace(f"tree={tree}", "tree=1.1.1"))
    ready(other)
    generate(other)
    assert len(state(other)["setup"]["paths"]) == 3
    go(other, page.url)
    generate(other)
    assert other.locator("#text .tokens").text_content() == text
    enter(page.locator("#k input[type=number]"), "3")  # the tree was measured for another k
    page.wait_for_function("!new URLSearchParams(location.search).has('tree')")


def test_a_prompt_that_no_link_can_hold_is_left_out_and_breaks_nothing(visit):
    page = visit("?length=8&topology=sequence")
    generate(page)
    text = page.locator("#text .tokens").text_content()
    enter(page.locator("#prompt textarea"), "word " * 20_000)
    generate(page, until="error")
    page.get_by_role("button", name="Copy link to this set-up").click()
    expect(page.locator("#setup .copied")).to_contain_text("does not contain prompt")
    assert page.evaluate("navigator.clipboard.readText()").endswith("/?topology=sequence&length=8")
    page.locator("#generate").click()  # the server is asked again, with the page's address
    shows(page, ".run-error", "100,000 characters")
    assert page.locator("#text .tokens").text_content() == text  # the refused run never began
    enter(page.locator("#prompt textarea"), "A bird")
    generate(page)


def test_laboratories_and_runs_open_where_they_were_left(visit, someone):
    page = visit("?tab=trees&trees.k=40&trees.preset=coin&trace=wide-tree&round=7&decision=2")
    shows(page, "#tree_lab [role=status].verdict", "k = 40")
    expect(page.locator("#tree_lab select")).to_have_value("coin")
    expect(page.locator("#stepper output")).to_have_text(re.compile(r"^round 7 of \d+, step 2 of "))
    number = page.locator("#tree_lab .grow input[type=number]")
    number.fill("20")
    number.press("Enter")
    page.wait_for_url(re.compile(r"trees\.k=20"))
    for part in ("trace=wide-tree", "round=7", "decision=2", "trees.preset=coin"):
        assert part in page.url
    to(page, "Race lab")
    page.wait_for_selector("#race_lab .lane")
    page.get_by_role("button", name="Draw a new race").click()
    page.wait_for_url(re.compile(r"race\.seed=\d+"))
    rings = "[...document.querySelectorAll('#race_lab .handle')].map((ring) => ring.ariaValueNow).join()"
    places = page.evaluate(rings)
    assert places
    other = someone(page.url)
    other.wait_for_function(f"drawn => {rings} === drawn", arg=places)


def test_what_does_not_fit_is_named_and_the_default_is_used(visit):
    hostile = "<img src=x onerror=window.hacked=1>"
    query = f"?k=900&method={hostile}&temprature=1&round=2.5&race.p=0.5,0.6&race.q=0.5,0.5"
    page = visit(f"{query}&lesson=all&lecture=999&tree=1.x&tab=race")
    page.wait_for_selector("#race_lab .lane")
    messages = page.locator(".told")
    for part in (
        "k = “\u2068900\u2069” in the address is not valid: give a whole number from 1 to 64; 6 is used",
        "give one of ersd, gsd, ar, traversal, specinfer, spectr; ersd is used instead",
        "“\u2068temprature\u2069” in the address is not a setting of this page",
        "race.p = “0.5,0.6” adds up to 1.1",
        "lesson = “\u2068all\u2069” in the address is not valid: give one of faster, race, ",
        "lecture = “\u2068999\u2069” in the address is not valid: give ",
        "tree = “\u20681.x\u2069” in the address is not valid: give the number of children of each node",
        "round = “\u20682.5\u2069” in the address is not valid: give a whole number of at least 1",
    ):
        expect(messages).to_contain_text(part)
    assert messages.bounding_box()["height"] <= 176
    assert page.locator("#setup img").count() == 0
    assert page.evaluate("window.hacked") is None
    to(page, "Watch")
    expect(page.locator("#k input[type=number]")).to_have_value("6")
    page.get_by_role("button", name="Dismiss").click()
    expect(messages).to_be_hidden()


def test_on_a_phone_messages_about_a_link_leave_the_message_about_a_run_visible(visit):
    page = visit("?k=900&temprature=1&length=many", PHONE)
    enter(page.locator("#prompt textarea"), " ")
    generate(page, until="error")
    error = page.locator("#feed .run-error")
    expect(error).to_be_visible()
    box = page.locator(".told").bounding_box()
    assert box["y"] + box["height"] <= error.bounding_box()["y"]


# ---------------------------------------------------------------- lessons


def predict(page, question):
    """Answer like a student who is nearly right: the choice, or the slider's nearest step."""
    expect(page.locator(".lesson .answer .reveal")).to_be_disabled()
    if "choices" in question:
        page.get_by_role("radio", name=question["choices"][question["answer"]]).check()
    else:
        least, _, step = question["range"]
        page.get_by_role("slider", name="Your prediction").fill(
            f"{round((question['answer'] - least) / step) * step + least:g}"
        )
    page.locator(".lesson .answer .reveal").click()
    page.wait_for_function("document.querySelector('.lesson .verdict')?.textContent.startsWith('✓ Right')")


SHOWN = {
    "acceptance": [
        ("#race_lab .gsd-exact", "60.0%"),
        ("#race_lab .ersd-exact", "55.5%"),
        ("#race_lab .gsd-exact", "58.6%"),
    ],
    "rejection": [
        ("#race .verdict", "rejected"),
        ("#tree .verdict", "yields 1 token"),
        ("#race_lab .residual", "0.75"),
    ],
    "trees": [("#tree_lab [role=status].verdict", f"yields {n} tokens") for n in ("2", "2.44", "3.65")],
}
"""The numbers on the page after a question is answered. They are those that the lesson states."""


def walk(page, name):
    """Go through a lesson as a student: predict, reveal, look. The page itself must show the stated
    numbers."""
    lesson = LESSONS[name]
    page.wait_for_selector(f"{lesson['open']['look']}.lesson-look")
    for question, (selector, text) in zip(lesson["questions"], SHOWN[name], strict=True):
        page.locator(".lesson .next").click()
        predict(page, question)
        shows(page, selector, text)
        page.wait_for_selector(f"{question['after']['look']}.lesson-look")
        expect(page.locator(".lesson .outcome")).to_have_text(re.compile(re.escape(question["why"]) + "$"))
    page.locator(".lesson .next").click()
    expect(page.locator(".lesson .words")).to_contain_text("You predicted 3 of 3 right")


def test_lessons_are_predicted_and_the_page_itself_shows_the_answers(visit):
    page = visit(f"?lesson={next(iter(SHOWN))}")
    for name in SHOWN:  # the lessons follow one another
        expect(page.locator(".lesson h2")).to_have_text(LESSONS[name]["title"])
        walk(page, name)
        page.get_by_role("button", name="Next lesson").click()
    assert messages(page) == []
    page.get_by_role("button", name="End the lesson").click()
    page.wait_for_selector(".lessons .card")
    page.reload()  # the answers are kept in the browser
    cards = page.locator(".lessons .card")
    expect(cards).to_have_count(len(LESSONS))
    for number, name in enumerate(LESSONS):
        card = expect(cards.nth(number))
        says = card.to_contain_text if name in SHOWN else card.not_to_contain_text
        says("3 of 3 questions answered")


# ---------------------------------------------------------------- the projector


def test_a_projector_shows_the_run_large_and_whole(visit):
    page = visit("?projector=1&trace=wide-tree&round=7&decision=2", (1280, 720))
    page.wait_for_selector("#controls", state="hidden")
    page.keyboard.press("Escape")
    page.wait_for_selector("#controls", state="visible")
    expect(page).not_to_have_url(re.compile("projector"))
    page.get_by_role("button", name="Projector mode", exact=True).click()
    page.wait_for_selector("#controls", state="hidden")
    expect(page).to_have_url(re.compile("projector=1"))
    for selector in ("#replay .save", "#statistics", "#setup", "#drawer", "#prompt"):
        assert page.locator(f"{selector}:visible").count() == 0
    for size in ((1920, 1080), (1280, 720)):
        resize(page, size)
        page.wait_for_function("document.documentElement.scrollHeight === innerHeight")
        for name in ("text", "tree", "race", "stepper"):
            expect(page.locator(f"#{name}.block")).to_be_in_viewport(ratio=1)
        # a line of the story, which the last row must be able to read
        line = "document.querySelector('#text .tokens .token.accepted').getBoundingClientRect().height"
        page.wait_for_function(f"{line} > innerHeight / 32")
    page.keyboard.press("ArrowRight")
    shows(page, "#stepper output", "step 3 of ")
    assert serious_findings(page) == []
    page.get_by_role("button", name="Leave projector").click()
    page.wait_for_selector("#controls")
    expect(page).not_to_have_url(re.compile("projector"))
