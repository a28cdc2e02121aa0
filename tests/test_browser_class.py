"""A class in a browser: links open the same set-up, lessons show what they say, projectors show it large."""

from __future__ import annotations

import re

import pytest
from conftest import serious_findings

from components import lessons

pytestmark = pytest.mark.browser

LESSONS = {lesson["id"]: lesson for lesson in lessons.lessons()}


@pytest.fixture
def visit(browser, url):
    """Opens an address in a browser of its own, which may copy; nothing in it may fail."""
    opened, errors = [], []

    def open_page(query="", **options):
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], **options)
        context.set_default_timeout(60_000)
        opened.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(query if query.startswith("http") else f"{url}/{query}")
        page.wait_for_function("window.specdec?.setup && document.body.dataset.phase === 'idle'")
        return page

    yield open_page
    for context in opened:
        context.close()
    assert errors == []


def messages(page):
    return page.locator("#setup .told li").all_inner_texts()


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


def decode_controls(page):
    """What a visitor sees in the Decode tab's controls, by their names in the address."""
    if page.locator("#seed").count() == 0:
        page.get_by_role("button", name="Sampling and seed").click()
    page.wait_for_selector("#seed input")
    number = lambda label: page.get_by_label(f"number input for {label}").input_value()  # noqa: E731
    return {
        "prompt": page.locator("#prompt textarea").input_value(),
        "method": page.locator("#method input:checked").get_attribute("value"),
        "topology": page.locator("#topology input").input_value().split(":")[0],
        "k": page.locator("#k input[type=number]").input_value(),
        "length": page.locator("#length input[type=number]").input_value(),
        "baseline": str(int(page.get_by_label("Measure the autoregressive baseline too").is_checked())),
        "temperature": number("Temperature"),
        "top-p": number("Top-p"),
        "top-k": page.locator("#top-k input").input_value(),
        "seed": page.locator("#seed input").input_value(),
    }


def test_a_copied_link_opens_the_same_set_up(visit):
    page = visit()
    page.locator("#prompt textarea").fill(DECODE["prompt"])
    page.get_by_label("GSD", exact=True).first.check()
    for name in ("k", "length"):
        page.locator(f"#{name} input[type=number]").fill(DECODE[name])
        page.locator(f"#{name} input[type=number]").blur()
    page.locator("#topology input").click()
    page.get_by_role("option", name="batch").click()
    page.get_by_label("Measure the autoregressive baseline too").uncheck()
    page.get_by_role("button", name="Sampling and seed").click()
    for label in ("Temperature", "Top-p"):
        page.get_by_label(f"number input for {label}").fill(DECODE[label.lower()])
        page.get_by_label(f"number input for {label}").blur()
    for name in ("top-k", "seed"):
        page.locator(f"#{name} input").fill(DECODE[name])
        page.locator(f"#{name} input").blur()
    page.wait_for_function("new URLSearchParams(location.search).get('seed') === '11'")
    before = decode_controls(page)
    assert before == DECODE
    page.get_by_role("button", name="Copy link to this set-up").click()
    page.wait_for_function("document.querySelector('#setup .copied').textContent === 'Copied.'")
    other = visit(page.evaluate("navigator.clipboard.readText()"))
    other.wait_for_function("document.querySelector('#k input[type=number]').value === '16'")
    assert decode_controls(other) == before
    assert messages(other) == []


def test_a_prompt_that_no_link_can_hold_is_left_out_and_breaks_nothing(visit):
    page = visit("?length=8")
    page.locator("#generate").click()
    page.wait_for_function("document.body.dataset.phase === 'done'")
    text = page.locator("#text .tokens").text_content()
    page.locator("#prompt textarea").fill("word " * 20_000)
    page.locator("#generate").click()
    page.wait_for_function("document.body.dataset.phase === 'error'")
    page.get_by_role("button", name="Copy link to this set-up").click()
    page.wait_for_function("document.querySelector('#setup .copied').textContent.includes('Without prompt')")
    assert page.evaluate("navigator.clipboard.readText()").endswith("/?length=8")
    page.locator("#generate").click()  # the server is asked again, with the page's address
    page.wait_for_function("document.querySelector('.run-error').textContent.includes('100,000 characters')")
    assert page.locator("#text .tokens").text_content() == text  # what was refused never began
    page.locator("#prompt textarea").fill("A bird")
    page.locator("#generate").click()
    page.wait_for_function("document.body.dataset.phase === 'done'")


def test_laboratories_and_runs_open_where_they_were_left(visit):
    page = visit("?tab=trees&trees.k=40&trees.preset=coin&trace=wide-tree&round=7&decision=2")
    page.wait_for_function(
        "document.querySelector('#tree_lab [role=status].verdict')?.textContent.startsWith('k = 40')"
    )
    assert page.locator("#tree_lab select").input_value() == "coin"
    assert page.locator("#stepper output").text_content().startswith("round 7 of 14, decision 2/")
    number = page.locator("#tree_lab .grow input[type=number]")
    number.fill("20")
    number.press("Enter")
    page.wait_for_url(re.compile(r"trees\.k=20"))
    for part in ("trace=wide-tree", "round=7", "decision=2", "trees.preset=coin"):
        assert part in page.url
    page.get_by_role("tab", name="Race lab").click()
    page.wait_for_selector("#race_lab .lane")
    page.get_by_role("button", name="Draw a new race").click()
    page.wait_for_url(re.compile(r"race\.seed=\d+"))
    drawn = page.locator("#race_lab .handle").evaluate_all("rings => rings.map((ring) => ring.ariaValueNow)")
    other = visit(page.url)
    other.wait_for_selector("#race_lab .lane")
    rings = other.locator("#race_lab .handle")
    assert rings.evaluate_all("rings => rings.map((ring) => ring.ariaValueNow)") == drawn


def test_what_does_not_fit_is_named_and_the_default_is_used(visit):
    hostile = "<img src=x onerror=window.hacked=1>"
    query = (
        f"?k=900&method={hostile}&temprature=1&round=2.5&race.p=0.5,0.6&race.q=0.5,0.5&baseline=constructor"
    )
    page = visit(f"{query}&projector=yes&lesson=all&tab=race")
    page.wait_for_selector("#race_lab .lane")
    page.wait_for_function("document.querySelectorAll('#setup .told li').length >= 8")
    told = "\n".join(messages(page))
    for part in (
        "k = “\u2068900\u2069” in the address does not fit: give a whole number from 1 to 64; 8 is used",
        "give one of ersd, gsd, ar; ersd is used instead",
        "“\u2068temprature\u2069” in the address is no setting of this page",
        "baseline = “\u2068constructor\u2069” in the address does not fit: give 1 or 0",
        "race.p = “0.5,0.6” adds up to 1.1",
        "projector = “\u2068yes\u2069” in the address does not fit: give 1.",
        "lesson = “\u2068all\u2069” in the address does not fit: give one of race, noise, ",
        "round = “\u20682.5\u2069” in the address does not fit: give a whole number of at least 1",
    ):
        assert part in told
    assert page.locator("#setup img").count() == 0
    assert page.evaluate("window.hacked") is None
    page.get_by_role("tab", name="Decode").click()
    assert page.locator("#k input[type=number]").input_value() == "8"
    page.get_by_role("button", name="Dismiss").click()
    assert page.locator("#setup .told").is_hidden()


# ---------------------------------------------------------------- lessons


def predict(page, question):
    """Answers as a student would who is nearly right: the choice, or the slider's nearest step."""
    assert page.locator(".lesson .reveal").is_disabled()
    if "choices" in question:
        page.get_by_role("radio", name=question["choices"][question["answer"]]).check()
    else:
        least, _, step = question["range"]
        page.get_by_role("slider", name="Your prediction").fill(
            f"{round((question['answer'] - least) / step) * step + least:g}"
        )
    page.locator(".lesson .reveal").click()
    page.wait_for_function("document.querySelector('.lesson .verdict')?.textContent.startsWith('✓ Right')")


SHOWN = {
    "acceptance": [
        ("#race_lab .gsd-exact", "50.0%"),
        ("#race_lab .ersd-exact", "46.3%"),
        ("#race_lab .gsd-exact", "58.6%"),
    ],
    "rejection": [
        ("#race .verdict", "rejected"),
        ("#tree .verdict", "yields 1 token"),
        ("#race_lab .residual", "0.6"),
    ],
    "trees": [("#tree_lab [role=status].verdict", f"yields {n} tokens") for n in ("2", "2.44", "3.53")],
}
"""What the page itself shows once a question is answered: the numbers that the lesson states."""


def walk(page, name):
    """Through a lesson as a student: predict, reveal, look; the page itself must show what is stated."""
    lesson = LESSONS[name]
    page.wait_for_selector(f"{lesson['open']['look']}.lesson-look")
    for question, (selector, text) in zip(lesson["questions"], SHOWN[name], strict=True):
        page.locator(".lesson .next").click()
        predict(page, question)
        page.wait_for_function(
            "([selector, text]) => document.querySelector(selector)?.textContent.includes(text)",
            arg=[selector, text],
        )
        page.wait_for_selector(f"{question['after']['look']}.lesson-look")
        assert page.locator(".lesson .outcome").inner_text().endswith(question["why"])
    page.locator(".lesson .next").click()
    assert "You predicted 3 of 3 right" in page.locator(".lesson .words").inner_text()


def test_lessons_are_predicted_and_the_page_itself_shows_the_answers(visit):
    page = visit(f"?lesson={next(iter(SHOWN))}")
    for name in SHOWN:  # each follows the one before
        assert page.locator(".lesson h2").inner_text() == LESSONS[name]["title"]
        walk(page, name)
        page.get_by_role("button", name="Next lesson").click()
    assert messages(page) == []
    page.get_by_role("button", name="Close the lesson").click()
    page.wait_for_selector(".lessons .card")
    page.reload()  # what was answered is kept in the browser
    page.wait_for_selector(".lessons .card")
    cards = dict(zip(LESSONS, page.locator(".lessons .card").all_inner_texts(), strict=True))
    assert all(("3 of 3 questions answered" in text) == (name in SHOWN) for name, text in cards.items())


def test_before_a_prediction_the_page_gives_nothing_away(visit):
    page = visit("?lesson=acceptance&step=2")
    page.wait_for_selector("#race_lab .lane")
    page.wait_for_function("document.querySelector('#race_lab .gsd-exact').textContent === '50.0%'")
    assert page.locator("#race_lab .gsd-exact").is_hidden()
    page.get_by_role("slider", name="Your prediction").fill("20")
    page.locator(".lesson .reveal").click()
    page.wait_for_selector("#race_lab .gsd-exact", state="visible")
    assert "you said 20%, it is 50%: 30 points off" in page.locator(".lesson .verdict").inner_text()


def test_a_lesson_on_a_phone_has_no_serious_findings(visit):
    page = visit("?lesson=drafter&__theme=dark", viewport={"width": 390, "height": 844})
    page.wait_for_selector("#race_lab .lane")
    page.locator(".lesson .next").click()
    predict(page, LESSONS["drafter"]["questions"][0])
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert serious_findings(page) == []
    page.get_by_role("button", name="Close the lesson").click()
    page.wait_for_selector(".lessons .card")
    assert serious_findings(page) == []


# ---------------------------------------------------------------- the projector


def test_a_projector_shows_the_run_large_and_whole(visit):
    page = visit("?projector=1&trace=wide-tree&round=7&decision=2", viewport={"width": 1280, "height": 720})
    page.wait_for_selector("#controls", state="hidden")
    page.keyboard.press("Escape")
    page.wait_for_selector("#controls", state="visible")
    assert "projector" not in page.url
    page.get_by_role("button", name="Projector mode", exact=True).click()
    page.wait_for_selector("#controls", state="hidden")
    assert "projector=1" in page.url
    for selector in ("#replay", "#statistics", "footer", "#setup", "#tabs > .tab-wrapper"):
        assert page.locator(f"{selector}:visible").count() == 0
    for width, height in ((1920, 1080), (1280, 720)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function("document.documentElement.scrollHeight === innerHeight")
        boxes = [
            page.locator(f"#{name}.block").bounding_box() for name in ("text", "tree", "race", "stepper")
        ]
        assert all(box["y"] >= 0 and box["y"] + box["height"] <= height for box in boxes)
        line = page.locator("#text .tokens .token.accepted").first.bounding_box()["height"]
        assert line > height / 32  # a line of the story: the last row reads it
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('#stepper output').textContent.includes('decision 3/')")
    assert serious_findings(page) == []
    page.get_by_role("button", name="Leave projector mode").click()
    page.wait_for_selector("#controls")
    assert "projector" not in page.url
