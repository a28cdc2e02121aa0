"""Lessons in a browser. The page never contradicts an open question, and never reveals its answer. Also keys,
notes and printed sheets."""

import re
import time

import pytest
from playwright.sync_api import expect

from components.lessons import panel as lessons
from components.lessons.record_forwards import PASSES
from tests.conftest import PHONE, SLOW, hidden_tokens, resize, serious_findings, to

LESSONS = {lesson["id"]: lesson for lesson in lessons.lessons()}
SMALL = (1280, 720)

APART = {
    ("faster", 1): {"8": "rows that are asked for"},
    ("race", 2): {"10,000": "races"},
    ("race", 3): {"0.4": "what the model is supposed to say now"},
    ("acceptance", 3): {"1": "in formulas"},
    ("rejection", 1): {"0.061": "p of a token before its test", "0.604": "its q", "0.861": "its u"},
    ("drafter", 2): {"94.0%": "acceptance of the good draft"},
    ("lossless", 3): {},
    ("limit", 2): {"96": "the k before", "0.63": "a gain", "384": "the next k"},
    ("limit", 3): {"10": "a wish"},
    ("traversal", 1): {"42.9%": "p / q of a", "0.429": "the same"},
    ("referee", 1): {"10,000": "classes"},
}
"""Numbers that a question states and that the page does not show while the question is open, with their
meaning."""
COINCIDES = {
    ("rejection", 2): "none was accepted yet; asked is how many can be",
    ("lossless", 1): "that the answer is p itself is the point",
    ("race", 2): "that the answer is p itself is the point",
}
"""Questions whose answer is a number that the page shows for another reason."""

TELLING = {
    ("rejection", 1): ["#replay .look-line"],
    ("rejection", 2): ["#replay .look-line"],
    ("lossless", 3): ["#lossless-fault .info"],
}
"""Parts of the page that reveal the answer in words or in a text."""

SEEN = """() => {
  const panel = document.querySelector("#tabs > [role=tabpanel]:not([hidden])");
  const seen = (element) => element.checkVisibility({ visibilityProperty: true });
  const texts = [];
  const walker = document.createTreeWalker(panel, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (seen(walker.currentNode.parentElement)) texts.push(walker.currentNode.data);
  for (const element of panel.querySelectorAll("input, [aria-valuetext]")) {
    if (!seen(element) || (element.type === "radio" && !element.checked)) continue;
    texts.push(element.value ?? "", element.getAttribute("aria-valuetext") ?? "");
  }
  return texts.map((text) => text.trim()).filter(Boolean);
}"""
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?%?")


def value(text):
    """A written number, and the largest error of its rounding."""
    digits = text.rstrip("%").replace(",", "")
    scale = 0.01 if text.endswith("%") else 1
    return scale * float(digits), scale * 0.5 * 10 ** -len(digits.partition(".")[2])


def numbers(texts):
    return [number for text in texts for number in NUMBER.findall(text)]


def missing(stated, texts):
    """The stated numbers that equal none of the shown numbers, up to the rounding of both."""
    values = [*map(value, numbers(texts))]

    def is_shown(number, error):
        return any(abs(number - other) <= max(error, its) + 1e-9 for other, its in values)

    return {text for text in stated if not is_shown(*value(text))}


@pytest.fixture
def open_lesson(visit):
    """Open a step of a lesson, which is fetched when it is asked for."""

    def opened(query, size=SMALL):
        page = visit(f"?lesson={query}", size)
        expect(page.locator(".lesson .place")).to_contain_text("step")
        return page

    return opened


def look(page, set_up):
    """Wait until everything that a set-up shows is visible and no longer moves."""
    page.wait_for_selector(f"{set_up['look']}.lesson-look")
    before = None
    while (now := page.evaluate(SEEN)) != before:
        before = now
        page.wait_for_timeout(300)
    return now


def test_the_page_neither_contradicts_nor_answers_an_open_question_and_nothing_overlaps(open_lesson):
    """All lessons one after the other, as a student goes through them."""
    page = open_lesson("faster")
    for lesson in LESSONS.values():
        look(page, lesson["open"])
        fits(page, SMALL, lesson["id"])
        for step, question in enumerate(lesson["questions"], start=1):
            page.locator(".lesson .next").click()
            expect(page.locator(".lesson .words")).to_have_text(question["ask"])
            place, end = (lesson["id"], step), time.monotonic() + SLOW / 1000
            # numbers of a formula, or how much longer a call takes: the page does not show them
            stated = set(numbers([re.sub(r"R\(\d\)|\bk\b = |[\d.]+ times as long", "", question["ask"])]))
            stated -= set(APART.get(place, ()))
            while missing(stated, texts := look(page, question["before"])):  # a slow server answers later
                assert time.monotonic() < end, f"{place}: not on the page: {missing(stated, texts)}"
            check_names(page, place, question["ask"])
            given_away(place, lesson, question, texts)
            assert hidden_tokens(page) == [], place
            assert "data-predict" in page.evaluate("document.body.getAttributeNames()")
            for selector in TELLING.get(place, ()):
                assert page.locator(selector).count() == 1, selector
                assert page.locator(selector).is_hidden(), selector
            fits(page, SMALL, place)
        page.locator(".lesson .next").click()
        fits(page, SMALL, f"the end of {lesson['id']}")
        page.locator(".lesson .next").click()
    page.wait_for_selector("#lessons .lessons .card")


def fits(page, size, place):
    """Nothing is cut off, nothing is wider than the page, and beside a lesson nothing overlaps."""
    end = time.monotonic() + 5
    while page.evaluate(CUT) and time.monotonic() < end:  # drawings follow the window later
        page.wait_for_timeout(50)
    assert page.evaluate(CUT) == [], place
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0], place
    assert size == PHONE or page.evaluate(UNDER) == [], place


def test_a_phone_shows_every_step_whole(open_lesson):
    page = open_lesson("faster")
    resize(page, PHONE)
    for lesson in LESSONS.values():
        page.wait_for_selector(f"{lesson['open']['look']}.lesson-look")
        for step in range(len(lesson["questions"]) + 2):
            fits(page, PHONE, f"{lesson['id']}, step {step}")
            page.locator(".lesson .next").click()


def test_at_a_zoom_of_400_percent_the_window_scrolls_to_the_buttons_of_a_lesson(open_lesson):
    page = open_lesson("race", (320, 256))
    page.wait_for_selector(f"{LESSONS['race']['open']['look']}.lesson-look")
    button = page.locator(".lesson .next")
    button.scroll_into_view_if_needed()
    expect(button).to_be_in_viewport(ratio=1)


def check_names(page, place, ask):
    """If a question names a value of the page, the page shows that value."""
    rows = page.evaluate(
        """() => [...document.querySelectorAll("#race_lab .token-row")].map((row, i) => ({
          name: row.querySelector(".token-name").value,
          p: Number(row.querySelector(".p output").textContent),
          q: Number(row.querySelector(".q output").textContent),
          e: Number(document.querySelectorAll("#race_lab .handle")[i]?.getAttribute("aria-valuenow")) }))"""
    )
    for name, p, e in re.findall(r"(\w+) has p = (\d+\.\d+) and (?:draws )?e = (\d+\.?\d*)\b", ask):
        [row] = [row for row in rows if row["name"] == name]
        assert (row["p"], row["e"]) == (float(p), float(e)), place
    if "race" in {place[0]} or rows:
        columns = [[round(100 * row[side]) for row in rows] for side in "pq"]
        for series in re.findall(r"\d+%(?:, \d+%)* and \d+%", ask):
            assert [int(part) for part in re.findall(r"\d+", series)] in columns, f"{place}: {series}"
    if place[0] in ("trees", "limit"):
        rates = page.locator("#tree_lab .rate output").all_inner_texts()
        for index, rate in re.findall(r"R\((\d)\) = (?:R\(1\) = )?([\d.]+\d)", ask):
            assert abs(float(rates[int(index)]) - float(rate)) <= 0.005, place
        for k in re.findall(r"k = (\d+)", ask if place[0] == "trees" else ""):
            assert page.locator("#tree_lab .grow input[type=number]").input_value() == k, place


def says(text, answer):
    """Whether a number on the page is the answer, exactly or rounded to about three digits."""
    number, error = value(text)
    return abs(number - answer) <= (error if error < 0.02 * answer else 1e-9)


def given_away(place, lesson, question, texts):
    if "choices" in question:
        right = question["choices"][question["answer"]]
        pattern = re.compile(rf"\b{re.escape(right)}\b")
        assert " " not in right or not any(pattern.search(text) for text in texts), place
        assert not any("★" in text and text != "★" for text in texts if place == ("race", 1)), place
    elif place not in COINCIDES:
        share, answer = question.get("percent"), question["answer"] / (100 if question.get("percent") else 1)
        figures = [text for text in numbers(texts) if not share or re.search(r"[.%]", text)]
        assert not [text for text in figures if says(text, answer)], place


def test_a_clicker_goes_through_a_lesson_and_the_summary_leads_back(open_lesson):
    page = open_lesson("faster")
    steps = []
    for _ in range(7):
        page.keyboard.press("PageDown")
        steps.append(
            (page.locator(".lesson .place").inner_text()[-6], page.locator(".lesson .verdict").count())
        )
    assert steps == [("2", 0), ("2", 1), ("3", 0), ("3", 1), ("4", 0), ("4", 1), ("5", 0)]
    expect(page.locator(".lesson .results li")).to_have_count(3)
    expect(page.locator(".lesson .words")).to_contain_text("You predicted no answer")
    expect(page.locator(".lesson .results li").nth(2)).to_contain_text("Question 3: the answer is")
    page.get_by_role("button", name="Look again at question 2").click()
    expect(page.locator(".lesson .verdict")).to_contain_text("The answer is")
    page.keyboard.press("PageUp")
    expect(page.locator(".lesson .place")).to_have_text("Lesson 0, step 2 of 5")
    page.get_by_role("slider", name="Your prediction").focus()
    page.keyboard.press("PageDown")  # moves the slider there
    expect(page.locator(".lesson .verdict")).to_have_count(0)


def test_the_focus_follows_an_answer_and_returns_to_the_list_at_the_end(open_lesson):
    page = open_lesson("race&step=2")
    page.locator(".lesson .options input").first.focus()
    page.keyboard.press("ArrowRight")
    for pressed, focused in (("[type=submit]", ".lesson .next"), (".close", "#start-race")):
        page.locator(f".lesson {pressed}").focus()
        page.keyboard.press("Enter")
        expect(page.locator(focused)).to_be_focused()


def test_beside_a_summary_the_page_still_shows_the_last_answer(open_lesson):
    page = open_lesson("race&step=4")
    shares = page.locator("#race_lab .token-row .p output")
    page.keyboard.press("PageDown")
    texts = look(page, LESSONS["race"]["questions"][2]["after"]) and shares.all_inner_texts()
    page.keyboard.press("PageDown")
    expect(page.locator(".lesson .place")).to_contain_text("step 5")
    look(page, LESSONS["race"]["questions"][2]["after"])
    assert shares.all_inner_texts() == texts
    expect(page.locator("#race_lab .verdict").first).to_be_visible()  # no question is open


def test_one_next_leads_through_the_lecture_and_its_place_stays_after_a_reload(visit):
    page = visit("?tab=lessons", SMALL)
    page.locator("summary", has_text="Teach").click()
    page.get_by_role("button", name="Begin the lecture").click()
    expect(page.locator("body")).to_have_attribute("data-projector", "")
    place, following = page.locator(".lesson .place"), page.locator(".lesson .next")
    expect(place).to_have_text("Lesson 0, step 1 of 5 · minute 0 of 45")
    for _ in range(7):  # three answers, and four steps
        following.click()
    expect(place).to_have_text("Lesson 0, step 5 of 5 · minute 9 of 45")
    following.click()
    expect(place).to_have_text("Lesson 1, step 1 of 5 · minute 9 of 45")
    expect(page).to_have_url(re.compile(r"lecture=45&lesson=race"))
    page.goto(page.url.replace("lesson=race", "lesson=noise&step=5"))
    expect(place).to_have_text("Lesson 2, step 5 of 5 · minute 23 of 45")
    following.click()
    # lesson 3 is not part of the lecture
    expect(place).to_have_text("Lesson 4, step 1 of 5 · minute 23 of 45")
    page.goto(page.url.replace("lesson=rejection", "lesson=lossless&step=5"))
    following.get_by_text("End of the lecture").click()
    expect(page.locator("#lessons .lecture .route li")).to_have_count(6)
    expect(page).not_to_have_url(re.compile("lecture"))


BEGUN = "['waiting', 'running', 'done'].includes(document.body.dataset.check)"


@pytest.mark.parametrize(("lesson", "step"), [("lossless", 3), ("referee", 2)])
def test_the_answer_of_a_check_runs_the_check_and_nothing_of_it_stays(lesson, step, open_lesson):
    page = open_lesson(f"{lesson}&step={step + 1}")
    expect(page.get_by_label("Break the verifier on purpose")).to_be_checked()
    assert not page.evaluate(BEGUN)
    fault = LESSONS[lesson]["questions"][step - 1]["after"]["parts"]["lossless"]["fault"]
    chosen = page.locator(f"#lossless-fault input[value={fault}]")
    if "fault" in LESSONS[lesson]["questions"][step - 1]["before"]["parts"].get("lossless", {}):
        expect(chosen).to_be_checked()  # the question's own set-up is shown before it is answered
    page.keyboard.press("PageDown")
    page.wait_for_function(BEGUN)
    expect(chosen).to_be_checked()
    page.evaluate("document.querySelector('#lossless-stop').click()")  # a fast check has ended by now
    page.wait_for_function("['stopped', 'done'].includes(document.body.dataset.check)")
    for _ in range(step):
        page.locator(".lesson .back").click()
    if lesson == "referee":  # the beginning of the sentence is about the recorded check
        expect(page.locator("#lossless .verdict")).to_contain_text("This is a recorded check")
    page.get_by_role("button", name="End the lesson").click()
    page.wait_for_selector(".lessons .card")
    to(page, "Losslessness")  # nothing that the lesson set stays
    expect(page.get_by_label("Break the verifier on purpose")).not_to_be_checked()
    to(page, "Lessons")
    expect(page.locator("#lessons .board")).to_be_hidden()


def test_lesson_6_shows_the_texts_that_it_compares(open_lesson):
    page = open_lesson("drafter&step=4")
    texts = page.locator("#lessons .board .text")
    expect(texts.nth(2)).to_be_hidden()
    page.keyboard.press("PageDown")
    expect(texts.nth(2)).to_be_visible()
    gsd, ersd, alone = texts.all_inner_texts()
    assert gsd != ersd == alone


def test_beside_how_fast_a_run_was_the_lesson_says_why(visit):
    page = visit("?trace=wide-tree", SMALL)
    page.evaluate("window.isTheSamePage = true")
    for link in ("#text .account .sum", "#statistics .main-figure a"):
        to(page, "Watch")
        page.locator(link).click()
        expect(page.locator("#lesson h2")).to_have_text(LESSONS["faster"]["title"])
        expect(page.locator("#lessons .board")).to_be_visible()
        page.get_by_role("button", name="End the lesson").click()
    assert page.evaluate("window.isTheSamePage")


def test_lesson_0_leads_to_a_measurement_of_this_computer(open_lesson):
    page = open_lesson("faster&step=2")
    expect(page.locator("#lessons .board")).to_be_visible()
    link = page.get_by_role("link", name="Measure this computer")
    expect(link).to_be_hidden()  # the measurement would reveal the answer
    page.keyboard.press("PageDown")
    expect(page.locator("#lessons .board .note")).to_contain_text(f"the fastest of {PASSES} passes")
    answer = {"measuring": {"share": 0.5, "left": 1}}  # other tests need a server that measured nothing
    page.route("**/ask/payoff/verdict", lambda route: route.fulfill(json=answer))
    routes = []
    page.route("**/payoff/panel.js", lambda route: routes.append(route))  # the view opens slowly
    link.evaluate("link => link.href = `${link.getAttribute('href')}&payoff.acceptance=0.5`")
    link.click()
    expect(page).to_have_url(re.compile("tab=payoff"))
    page.wait_for_timeout(1000)  # by now the address was written once without the view's values
    routes[0].continue_()
    expect(page).to_have_url(re.compile("payoff.preset=here"))
    page.get_by_role("button", name="Show it again").click()
    expect(page.locator("#lessons .board")).to_be_visible()
    for _ in range(2):  # to the answer of the next step, whose board is not measured
        page.keyboard.press("PageDown")
    expect(page.locator("#lessons .board")).to_contain_text("The run that this page opens with")
    expect(link).to_be_hidden()


def test_the_presenter_s_notes_follow_and_lead(open_lesson):
    page = open_lesson("race")
    with page.expect_popup() as popup:
        page.get_by_role("button", name="Notes", exact=True).click()
    notes = popup.value
    resize(notes, (640, 680))
    race = LESSONS["race"]
    expect(notes.locator(".say")).to_have_text(race["say"])
    expect(notes.locator(".clock")).to_contain_text("of 2 min")
    notes.get_by_role("button", name="Next").click()
    expect(page.locator(".lesson .words")).to_have_text(race["questions"][0]["ask"])
    expect(notes.locator(".answer")).to_contain_text("“floor” is first")
    notes.keyboard.press("PageDown")
    expect(page.locator(".lesson .verdict")).to_contain_text("floor")
    assert serious_findings(notes) == []
    notes.close()


def test_a_sheet_has_the_questions_on_one_page_and_the_answers_on_another(visit):
    page = visit("?tab=lessons&__theme=dark", SMALL)
    page.evaluate("window.print = () => {}")
    sheet = page.locator(".lesson-sheet")
    for lesson in LESSONS.values():
        page.get_by_role("button", name=f"Print a sheet: {lesson['title']}").click()
        page.emulate_media(media="print")
        tasks, answers = (sheet.locator(f".page{it}").inner_text() for it in (":not(.answers)", ".answers"))
        for question in lesson["questions"]:
            assert question["ask"] in tasks
            assert question["why"] not in tasks
            assert question["why"] in answers
        assert page.locator(".shell").is_hidden()
        assert page.pdf(format="A4").count(b"/Type /Page\n") == 2, lesson["id"]
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        expect(sheet).to_have_count(0)
        page.emulate_media(media="screen")


def can_be_read(page):
    """Axe finds nothing serious on both screens and in both themes."""
    for size, theme in ((SMALL, "light"), (PHONE, "dark")):
        resize(page, size)
        page.emulate_media(color_scheme=theme)
        assert serious_findings(page) == [], theme


def test_a_question_and_its_answer_can_be_read_in_both_themes(open_lesson):
    page = open_lesson("trees&step=2")
    look(page, LESSONS["trees"]["questions"][0]["before"])
    can_be_read(page)
    page.keyboard.press("PageDown")
    expect(page.locator(".lesson .verdict")).to_have_count(1)
    can_be_read(page)


UNDER = """() => {
  const bar = document.querySelector("#lesson .lesson").getBoundingClientRect();
  const open = document.querySelector("#tabs > [role=tabpanel]:not([hidden])");
  const cards = [...open.querySelectorAll(":is(.card, .block.panel)")];
  return cards.filter((card) => card.getBoundingClientRect().left < bar.right && card.checkVisibility())
    .map((card) => card.className);
}"""
"""Parts of the open tab that the lesson's bar covers."""
CUT = """() => {
  const open = document.querySelector("#tabs > [role=tabpanel]:not([hidden])");
  const cut = [];
  for (const host of [open, document.querySelector("#lesson .lesson")]) {
    const walker = document.createTreeWalker(host, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const { parentElement: element, data } = walker.currentNode;
      if (!data.trim() || !element.checkVisibility({ visibilityProperty: true })) continue;
      if (getComputedStyle(element).whiteSpace === "pre-wrap") continue; // its spaces hang over the edge
      const range = document.createRange();
      range.selectNodeContents(walker.currentNode);
      const { right, width } = range.getBoundingClientRect();
      let most = innerWidth;
      for (let around = element; around; around = around.parentElement) {
        const { overflowX, textOverflow, clipPath } = getComputedStyle(around);
        const ends = overflowX === "visible" ? Infinity : around.getBoundingClientRect().right;
        most = Math.min(most, ends);
        if (/auto|scroll/.test(overflowX) || textOverflow === "ellipsis" || clipPath !== "none") {
          most = Infinity;
          break;
        }
      }
      if (width > 0 && right > most + 1) cut.push(data.trim());
    }
  }
  return cut;
}"""
"""Words that are cut off by their box or by the page. Boxes that scroll sideways are allowed."""
