"""A lecturer and two students, each in a browser of their own."""

import re

import pytest
from playwright.sync_api import expect

from components.lessons import panel as lessons
from tests.conftest import PHONE, go, ready, resize, serious_findings, settle

ASKED = next(lesson for lesson in lessons.lessons() if lesson["id"] == "acceptance")["questions"][0]
RIGHT = round(ASKED["answer"])
GUESS = RIGHT - 11


def with_room(page):
    """The page on which a lecturer has opened a room. Its code is visible."""
    ready(page)
    page.get_by_role("link", name="Teach").click()
    expect(page.locator(".teach .local")).to_contain_text("Phones can't open this page")
    page.get_by_role("button", name="Open a room").click()
    page.wait_for_selector(".class-join[open] .qr svg")
    return page


@pytest.fixture
def lecturer(blank, url):
    """A lecturer with an open room, whose code is visible."""
    page = with_room(go(blank, f"{url}/"))
    yield page
    if page.locator("dialog[open]").count():
        page.keyboard.press("Escape")


def code_of(lecturer):
    return lecturer.locator(".class-join .code").inner_text().replace(" ", "")


def closed(lecturer):
    """Close the code, and open the lesson about acceptance."""
    lecturer.locator(".class-join .close").click()
    lecturer.get_by_role("button", name="Start: How often is a draft accepted?").click()


def onward(lecturer):
    lecturer.locator(".lesson .next").click()


@pytest.fixture
def phone(someone, url):
    """Open the page of a class, by its code, on another student's phone."""
    return lambda code, **options: someone(f"{url}/class?room={code}", PHONE, **options)


@pytest.fixture
def student(lecturer, phone):
    """A student in the lecturer's room, whose page shows the first question of the lesson about
    acceptance."""
    page = phone(code_of(lecturer))
    closed(lecturer)
    onward(lecturer)
    led_to(page, 2)
    return page


def led_to(student, step):
    expect(student.locator(".lesson .place")).to_have_text(re.compile(f"Step {step} of"))


def predict(student, value=GUESS):
    student.locator(".number input").fill(str(value))
    student.get_by_role("button", name="Send").click()
    expect(student.locator(".outcome")).to_contain_text(f"Sent: {value}%")


def test_a_class_follows_answers_and_sees_what_it_answered(lecturer, someone, phone, url):
    code = code_of(lecturer)
    typing, scanning = someone(f"{url}/class", PHONE), phone(code, color_scheme="dark")
    typing.get_by_label("The class's code").fill(f"{code[:4].lower()} {code[4:].lower()}")
    typing.get_by_role("button", name="Join").click()
    for student in (typing, scanning):
        expect(student.locator("h2")).to_have_text("You are in")
    expect(lecturer.locator(".class-join .here")).to_have_text("2 students are here")
    assert serious_findings(lecturer, "dialog") == []
    closed(lecturer)
    led_to(typing, 1)
    onward(lecturer)
    for student in (typing, scanning):
        led_to(student, 2)
        assert serious_findings(student) == []
    expect(lecturer.locator(".class .answered")).to_have_text("0 of 2 have answered")
    # the page that shows the answer
    expect(typing.get_by_role("link", name="Open in the full page")).to_be_hidden()
    predict(typing)
    predict(scanning, RIGHT)
    expect(lecturer.locator(".class .answered")).to_have_text("2 of 2 have answered")
    assert lecturer.locator("[data-predict]").count() == 1  # the page does not show the answer yet
    assert lecturer.locator(".class .numbers").count() == 0
    lecturer.keyboard.press("PageDown")  # a clicker's key does the same as the button
    for page in (lecturer, typing, scanning):
        expect(page.locator(".numbers .answer")).to_have_text(f"✓ {RIGHT}%")
        expect(page.locator(".drawn .sum")).to_have_text(
            f"1 of 2 answers right, at most {ASKED['close']} points off"
        )
        assert serious_findings(page, "main" if page is not lecturer else "#lesson") == []
    # nothing is hidden, because the page shows the answer
    expect(lecturer.locator("[data-predict]")).to_have_count(0)
    expect(lecturer.locator("#race_lab .tiles.lesson-look")).to_be_visible()
    expect(typing.get_by_role("link", name="Open in the full page")).to_be_visible()
    expect(typing.locator(".outcome")).to_contain_text(f"you said {GUESS}%, the answer is {RIGHT}%")
    for student in (typing, scanning):
        assert student.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_lecture_begins_at_the_code_and_outlasts_the_projector(lecturer):
    begin = lecturer.locator(".class-join .begin")
    begin.click()
    expect(lecturer.locator(".lesson .place")).to_contain_text("Lesson 0, step 1 of 5 · minute 0 of 45")
    lecturer.get_by_role("button", name="Class ").click()
    expect(begin).to_be_hidden()
    lecturer.locator(".class-join .close").click()
    lecturer.get_by_role("button", name="Leave projector").click()
    expect(lecturer.locator("#projector .enter")).to_be_visible()
    lecturer.get_by_role("button", name="End the lesson").click()
    expect(lecturer.locator(".lesson")).to_be_hidden()


def test_a_student_leaves_follows_again_and_is_back_after_a_reload(lecturer, student):
    predict(student)
    onward(lecturer)
    led_to(student, 3)
    student.get_by_role("button", name="Back").click()
    led_to(student, 2)
    onward(lecturer)
    student.wait_for_timeout(1000)
    led_to(student, 2)  # no lecturer leads this student
    student.get_by_role("button", name="Follow again").click()
    led_to(student, 4)
    lecturer.locator(".lesson .back").click()
    lecturer.locator(".lesson .back").click()
    led_to(student, 2)
    student.reload()
    expect(student.locator(".outcome")).to_contain_text(f"Sent: {GUESS}%")
    assert student.locator(".answer").is_hidden()


def test_a_lecturers_reload_keeps_the_room_and_closing_it_ends_it_for_all(lecturer, student, url):
    code = lecturer.evaluate("JSON.parse(localStorage.getItem('specdec.class.lecturer')).room")
    predict(student)
    for address in ("", "?lesson=trees&step=3"):  # an old address does not lead the class elsewhere
        go(lecturer, f"{url}/{address}")
        expect(lecturer.locator("#lesson .place")).to_have_text("Lesson 3, step 2 of 5")
        led_to(student, 2)
    expect(lecturer.locator(".class .answered")).to_have_text("1 of 1 have answered")
    onward(lecturer)
    led_to(student, 3)
    lecturer.locator(".lesson .close").click()
    lecturer.get_by_role("button", name="Close the room").click()
    lecturer.get_by_role("button", name="Close it and delete the answers").click()
    expect(student.locator(".message")).to_contain_text("closed")
    expect(lecturer.get_by_role("button", name="Open a room")).to_be_visible()
    student.get_by_label("The class's code").fill(code)
    student.get_by_role("button", name="Join").click()
    expect(student.locator(".message")).to_contain_text("no room with this code")
    # now the student is alone again
    lecturer.get_by_role("button", name="Start: How often is a draft accepted?").click()
    onward(lecturer)
    expect(lecturer.locator("#lesson .answer")).to_be_visible()


def test_the_second_tab_shows_the_answer_of_the_first_and_a_question_is_asked_again(lecturer, student, url):
    twin = student.context.new_page()
    twin.goto(f"{url}/class")
    led_to(twin, 2)
    predict(student)
    twin.locator(".number input").fill(str(RIGHT))
    twin.get_by_role("button", name="Send").click()
    expect(twin.locator(".message")).to_have_text("You have answered this question already.")
    expect(twin.locator(".outcome")).to_contain_text(f"Sent: {GUESS}%")
    lecturer.get_by_role("button", name="Show the answers").click()
    expect(twin.locator(".outcome")).to_contain_text(f"you said {GUESS}%")
    expect(twin.locator(".message")).to_be_hidden()
    expect(student.locator(".numbers .answer")).to_be_visible()
    lecturer.get_by_role("button", name="Ask again").click()
    expect(lecturer.locator(".class .answered")).to_have_text("0 of 1 have answered")
    expect(lecturer.locator("[data-predict]")).to_have_count(1)  # the page hides the answer again
    expect(student.locator(".numbers")).to_have_count(0)
    predict(student, RIGHT)
    expect(lecturer.locator(".class .answered")).to_have_text("1 of 1 have answered")
    lecturer.get_by_role("button", name="Show the answers").click()
    for page in (lecturer, student):
        expect(page.locator(".drawn .sum")).to_contain_text("1 of 1 answer right")
    # who was sent away and joins again sees the step
    lecturer.get_by_role("button", name="Ask again").click()
    lecturer.locator(".lesson .close").click()
    lecturer.get_by_role("button", name="Clear the room").click()
    expect(student.locator(".message")).to_contain_text("You are not in this room any more")
    message = student.locator(".message").bounding_box()
    form = student.locator("form.join").bounding_box()
    # a phone's keyboard hides the lower part of the page
    assert message["y"] - form["y"] - form["height"] < 50
    student.get_by_role("button", name="Join").click()
    led_to(student, 2)
    expect(student.locator(".number input")).to_be_visible()


def test_two_windows_of_a_lecturer_are_at_one_step_also_one_that_was_open_before_the_room(
    someone, phone, url
):
    projector = someone(f"{url}/?projector=1")
    ready(projector)
    lecturer = projector.context.new_page()
    lecturer.goto(f"{url}/?tab=lessons")
    student = phone(code_of(with_room(lecturer)))
    closed(lecturer)
    for leads, follows in ((lecturer, projector), (projector, lecturer)):
        onward(leads)
        expect(leads.locator(".class .reveal")).to_be_visible()
        expect(follows.locator("#lesson .words")).to_have_text(leads.locator("#lesson .words").inner_text())
        leads.locator(".class .reveal").click()
        expect(follows.locator(".class .sum")).to_be_visible()
    led_to(student, 3)


def test_a_lost_connection_and_a_closed_room_are_said_within_the_lesson(lecturer, student, url):
    for page in (lecturer, student):
        page.context.set_offline(True)
    onward(lecturer)
    expect(lecturer.locator("#lesson .trouble")).to_contain_text("connection to the server is lost")
    student.locator(".number input").fill(str(GUESS))
    student.get_by_role("button", name="Send").click()
    expect(student.locator(".message")).to_contain_text("connection to the server is lost")
    for page in (lecturer, student):
        page.context.set_offline(False)
    expect(lecturer.locator("#lesson .trouble")).to_be_hidden()
    who = lecturer.evaluate("JSON.parse(localStorage.getItem('specdec.class.lecturer'))")
    headers = {"x-class-token": who["token"]}
    assert lecturer.request.post(f"{url}/class/close", data={"room": who["room"]}, headers=headers).ok
    expect(lecturer.locator("#lesson .trouble")).to_contain_text("closed")


def test_steps_that_follow_each_other_faster_than_the_server_answers_lead_on(lecturer, phone):
    student = phone(code_of(lecturer))
    closed(lecturer)
    lecturer.evaluate(
        """() => {
          window.places = [];
          const place = document.querySelector("#lesson .place");
          const note = () => window.places.push(place.textContent);
          new MutationObserver(note).observe(place, { characterData: true, childList: true, subtree: true });
        }"""
    )
    # each answer comes after the next click
    lecturer.evaluate(
        """() => {
          const { fetch } = window;
          const late = (answer) => new Promise((done) => setTimeout(() => done(answer), 700));
          window.fetch = (...asked) => fetch(...asked).then(late);
        }"""
    )
    for _ in range(3):
        onward(lecturer)
    led_to(student, 4)
    lecturer.wait_for_timeout(2500)
    assert [text[-6] for text in lecturer.evaluate("window.places")] == ["2", "3", "4"]


def be_the_draft(lecturer):
    """Close the code, and let the class be the draft."""
    lecturer.locator(".class-join .close").click()
    lecturer.get_by_role("button", name="Be the draft").click()
    lecturer.get_by_role("button", name="Begin", exact=True).click()


def test_the_button_of_the_next_word_is_in_sight_with_many_guesses(lecturer, url):
    room = code_of(lecturer)
    resize(lecturer, (1024, 768))
    be_the_draft(lecturer)
    expect(lecturer.locator(".class-draft .answered")).to_contain_text("have guessed")
    for word in ("girl", "boy", "dog", "cat", "bird", "bear", "mouse", "W" * 24):
        token = lecturer.request.post(f"{url}/class/join", data={"room": room}).json()["token"]
        proposal = {"room": room, "number": 1, "text": word}
        headers = {"x-class-token": token}
        assert lecturer.request.post(f"{url}/class/propose", data=proposal, headers=headers).ok
    lecturer.get_by_role("button", name="Let the large model check").click()
    expect(lecturer.locator(".class-draft .proposals .what")).to_have_count(8)
    expect(lecturer.get_by_role("button", name="Next word")).to_be_in_viewport(ratio=1)


def guess(student, word):
    student.get_by_label("What comes next?").fill(word)
    student.get_by_role("button", name="Send").click()
    expect(student.locator(".outcome")).to_contain_text(f"Sent: “{word}”")


def test_a_class_is_the_draft_word_after_word_late_phones_too(lecturer, phone):
    room = code_of(lecturer)
    students = [phone(room)]
    be_the_draft(lecturer)
    for words in (["girl"], ["and", "<i>who</i>"], ["she", "named"]):
        if len(students) < len(words):
            students.append(phone(room))
        for student, word in zip(students, words, strict=True):
            guess(student, word)
        expect(lecturer.locator(".class-draft .answered")).to_contain_text("have guessed")
        lecturer.get_by_role("button", name="Let the large model check").click()
        for page in (lecturer, *students):
            expect(page.locator(".proposals .what")).to_have_text(words, ignore_case=True)
            expect(page.locator(".text .token").first).to_be_visible()
            expect(page.locator(".scores dt")).to_have_text(["the class", "the small model"])
        if "she" in words:
            assert serious_findings(lecturer, "dialog") == []
            assert serious_findings(students[0]) == []
        lecturer.get_by_role("button", name="Next word").click()
    # A guess does not count for a word if the server answers it only when the class is at that word.
    late, answers = students[1], []
    late.route("**/class/propose", lambda route: answers.append((route, route.fetch())))
    late.get_by_label("What comes next?").fill("a")
    with late.expect_request("**/class/propose"):
        late.get_by_role("button", name="Send").click()
    guess(students[0], "the")
    lecturer.get_by_role("button", name="Let the large model check").click()
    expect(lecturer.locator(".class-draft .proposals .what").first).to_be_visible()
    lecturer.get_by_role("button", name="Next word").click()
    expect(late.get_by_label("What comes next?")).to_have_value("")  # the next word has come
    [(route, answer)] = answers
    assert answer.ok
    route.fulfill(response=answer)
    late.unroute("**/class/propose")
    guess(late, "big")
    lecturer.get_by_role("button", name="End this text").click()
    expect(late.get_by_role("heading", name="You are in")).to_be_visible()
    expect(lecturer.get_by_role("button", name="Begin", exact=True)).to_be_visible()
    late.get_by_role("button", name="Leave").click()
    expect(late.get_by_label("The class's code")).to_be_visible()


WIDTHS = """(name) => {
  const range = document.createRange();
  range.selectNodeContents(document.querySelector(`.class-join .${name}`));
  const { left, top, right, bottom } = range.getBoundingClientRect();
  return [left, top, right, bottom];
}"""


def test_the_code_fits_any_projector_whatever_its_letters(lecturer, url):
    for query in ("?", "?projector=1&"):
        go(lecturer, f"{url}/{query}tab=lessons")
        lecturer.get_by_role("button", name="Show the code").click()
        lecturer.wait_for_selector(".class-join[open] .qr svg")
        lecturer.locator(".class-join .code").evaluate("code => (code.textContent = 'WMWM MWMW')")
        for width, height in ((1024, 768), (1280, 720), (1440, 900), (390, 844)):
            resize(lecturer, (width, height))
            settle(lecturer)
            for name in ("qr", "link", "code"):
                left, top, right, bottom = lecturer.evaluate(WIDTHS, name)
                assert 0 <= left < right <= width, (query, width, name, left, right)
                assert 0 <= top < bottom <= height, (query, width, name, top, bottom)


LINES_OF_15 = """(count) => {
  count.textContent = "15"; // beside a choice of two lines
  const range = document.createRange();
  range.selectNodeContents(count);
  return range.getClientRects().length;
}"""


TABS_FIT = """() => {
  const row = document.querySelector('#tabs .tab-container[role="tablist"]');
  return row.scrollWidth <= row.clientWidth;
}"""
ANSWERS_IN_THE_UPPER_HALF = """() => {
  const body = document.querySelector("#lesson .body").getBoundingClientRect();
  const first = document.querySelector(".class .what").getBoundingClientRect();
  return body.top <= first.top && first.top < body.top + body.height / 2;
}"""


def test_a_projector_shows_all_of_the_tabs_the_answers_and_the_slide(lecturer, url):
    for size in ((1024, 768), (1920, 1080)):
        resize(lecturer, size)
        go(lecturer, f"{url}/?projector=1&lesson=faster&step=4")
        lecturer.wait_for_function(TABS_FIT)
        lecturer.locator(".class .reveal").click()
        expect(lecturer.locator(".class .sum")).to_have_text("Nobody has answered")
        lecturer.wait_for_function(ANSWERS_IN_THE_UPPER_HALF)
        assert lecturer.locator(".class .count").first.evaluate(LINES_OF_15) == 1, size
        lecturer.locator(".class .again").click()


def slide(page, url, place):
    resize(page, (1280, 720))
    return go(page, f"{url}/?projector=1&{place}")


def test_a_slide_begins_at_its_top(blank, url):
    page = slide(blank, url, "lesson=trees")
    expect(page.locator("#tree_lab .lesson-look")).to_be_visible()
    tab = page.locator(".tabitem:has(#tree_lab)")
    tab.evaluate("slide => { slide.style.paddingBottom = '900px'; slide.scrollTop = 400; }")
    page.keyboard.press("PageDown")
    expect(page.locator("#tree_lab .rates.lesson-look")).to_be_visible()
    assert tab.evaluate("slide => slide.scrollTop") == 0


def test_a_projector_brings_the_slide_that_shows_the_answer(blank, url):
    page = slide(blank, url, "lesson=acceptance&step=2")
    expect(page.locator("#race_lab .tokens")).to_be_visible()
    expect(page.locator("#race_lab .tiles")).to_be_hidden()
    page.locator("#lesson .number input").fill(str(GUESS))
    page.get_by_role("button", name="Reveal").click()
    expect(page.locator("#race_lab .tiles")).to_be_visible()
    page.locator("#lesson .back").click()
    expect(page.locator("#race_lab .tokens")).to_be_visible()


BELOW = "body => body.scrollHeight - body.clientHeight - body.scrollTop"


def test_an_explanation_fits_the_projector_and_a_longer_one_is_scrolled_before_the_next_step(lecturer, url):
    slide(lecturer, url, "lesson=faster&step=2")
    body, place = lecturer.locator("#lesson .body"), lecturer.locator("#lesson .place")
    lecturer.locator(".class .reveal").click()
    expect(lecturer.locator(".class .sum")).to_be_visible()
    assert body.evaluate(BELOW) <= 1
    assert body.evaluate("body => body.scrollTop") == 0  # the question is visible too
    body.evaluate("body => body.append('word '.repeat(150))")
    lecturer.keyboard.press("PageDown")
    assert body.evaluate("body => body.scrollTop") > 0
    expect(place).to_contain_text("step 2")
    body.evaluate("body => body.scrollTo(0, body.scrollHeight)")
    lecturer.keyboard.press("PageDown")
    expect(place).to_contain_text("step 3")
    lecturer.evaluate("document.querySelector('#lesson .body').lastChild.remove()")
