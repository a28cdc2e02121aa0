"""The game "You draft" as a visitor plays it: by keyboard, on a phone, to the end of the story."""

import pytest
from playwright.sync_api import expect

import specdec
from tests.browser.test_browser_screens import FITS
from tests.conftest import PHONE, go, serious_findings, to

HOSTILE = "<img src=x onerror=window.hacked=1> ${window.hacked=2}\u202e"


@pytest.fixture
def story(open_tab):
    return lambda *arguments: open_tab("draft", *arguments)


@pytest.fixture(scope="module")
def alone():
    """Texts of the tokens that the target writes if nothing is drafted."""
    pair = specdec.load_pair("stories", device="cpu")
    run = specdec.generate(
        pair, "The hungry dog looked for", method="ar", seed=19, temperature=0.5, max_new_tokens=41
    )
    return [round.text for round in run.rounds]


def propose(page, text):
    """Type with the keyboard alone and wait for the target's answer."""
    rounds = page.locator("#be_draft .round").count()
    page.wait_for_timeout(0 if text else 300)  # a second Enter that comes at once is ignored
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    expect(page.locator("#be_draft .round")).to_have_count(rounds + 1)
    expect(page.locator("#be_draft .writing")).to_have_attribute("aria-busy", "false")


def written(page):
    return page.locator("#be_draft .tokens .round").evaluate_all(
        """(rounds) => rounds.map((round) => {
          const copy = round.cloneNode(true);
          for (const lost of copy.querySelectorAll(".lost")) lost.remove();
          return copy.textContent;
        }).join("")"""
    )


def test_a_story_is_played_to_its_end_by_keyboard_and_is_the_target_s_own(story, alone):
    page = story()  # the field has the focus
    line = page.locator("#be_draft .pair-line")
    expect(line).to_have_text("Story models 15M checks, 0.7M guesses · this server, now")
    propose(page, "".join(alone[:2]).strip())
    expect(page.locator("#be_draft .verdict")).to_contain_text(": 3 tokens from one call")
    propose(page, " zebras sing")
    expect(page.locator("#be_draft .verdict")).to_contain_text("rejected: the large model writes")
    lost = page.locator("#be_draft .lost [role=img]")
    assert lost.first.get_attribute("aria-label") == "rejected: ␣z"  # "zebras" is no token of this model
    assert lost.nth(1).get_attribute("aria-label") == "not used: e"
    page.wait_for_timeout(300)  # a press at once is ignored
    page.get_by_role("button", name="No guess").click()
    expect(page.locator("#be_draft .verdict")).to_contain_text("alone: one call, one token")
    expect(page.locator("#be_draft .typed")).to_be_focused()
    while page.locator("#be_draft .typed").is_enabled():
        propose(page, "the")
    expect(page.locator("#be_draft .plain")).not_to_be_empty()
    expect(page.locator("#be_draft .outcome")).to_contain_text("The same text, letter by letter")
    text = written(page)
    assert text == "".join(alone)[: len(text)]
    assert page.locator("#be_draft .plain").inner_text() == f"The hungry dog looked for{text}"
    cells = page.locator("#be_draft .score tbody tr").first.locator("td").all_inner_texts()
    assert [" of " in cell for cell in cells[:2]] == [True, True]
    page.get_by_role("button", name="New story").click()
    expect(page.locator("#be_draft .typed")).to_be_focused()
    page.wait_for_url("**story.seed=**")
    expect(page.locator("#be_draft .round")).to_have_count(0)


def test_the_field_takes_the_focus_unless_a_touch_keyboard_or_the_tabs_need_it(story, someone, url):
    page = go(story(), f"{url}/")
    to(page, "Guess")
    expect(page.locator("#be_draft .typed")).to_be_focused()
    page.get_by_role("tab", name="Guess").focus()
    for key, name in (("ArrowRight", "Understand"), ("ArrowLeft", "Guess")):
        page.keyboard.press(key)
        expect(page.get_by_role("tab", name=name)).to_be_focused()
    phone = someone(f"{url}/?tab=draft", has_touch=True, is_mobile=True)
    phone.wait_for_selector("#be_draft .writing .prompt:not(:empty)")
    expect(phone.locator("#be_draft .typed")).not_to_be_focused()


def test_a_turn_lasts_only_while_the_game_is_in_sight(story):
    page = story()
    to(page, "Paper")
    page.wait_for_timeout(4000)
    to(page, "Guess")
    propose(page, "the")
    row = page.locator("#be_draft .score tbody tr", has_text="time to draft")
    number, unit = row.locator("td").first.inner_text().split()
    assert 0 <= float(number) < {"s": 3, "ms": 1000}[unit]


def test_while_the_target_works_no_second_guess_is_taken_and_a_new_story_waits_for_no_old_answer(story):
    page = story()
    propose(page, "a")
    page.evaluate(  # a press within the same moment as the answer
        """() => {
          const form = document.querySelector("#be_draft form");
          new MutationObserver(() => form.requestSubmit()).observe(
            document.querySelector("#be_draft .tokens"), { childList: true });
        }"""
    )
    propose(page, "the")
    page.wait_for_timeout(500)
    expect(page.locator("#be_draft .round")).to_have_count(2)
    routes = []
    page.route("**/ask/be_draft/*", lambda route: routes.append(route))  # this question is never answered
    page.keyboard.type("dog")
    page.keyboard.press("Enter")
    expect(page.locator("#be_draft .writing")).to_have_attribute("aria-busy", "true")
    expect(page.locator("#be_draft .verdict")).to_have_text("The large model is working …")
    expect(page.locator("#be_draft .propose")).to_be_disabled()
    page.keyboard.press("Enter")
    page.wait_for_timeout(200)
    assert len(routes) == 1
    page.unroute("**/ask/be_draft/*")
    page.locator("#be_draft .temperature").select_option("0")
    expect(page.locator("#be_draft .round")).to_have_count(0)
    page.locator("#be_draft .typed").fill("something")
    page.get_by_role("button", name="Propose").click()
    expect(page.locator("#be_draft .round")).to_have_count(1)
    expect(page.locator("#be_draft .propose")).to_be_enabled()


def test_a_link_opens_its_story_which_is_ended_early_and_is_one_slide(story):
    page = story("&projector=1&story.opening=3&story.temperature=0&story.seed=5", (1280, 720))
    for text in ("a treat for his", "a very long name and a long tail", ""):
        propose(page, text)
    page.get_by_role("button", name="The end").click()
    expect(page.locator("#be_draft .plain")).not_to_be_empty()
    expect(page.locator("#be_draft .outcome")).to_contain_text("with you it needed 3")
    assert "story.opening=3" in page.url
    assert page.locator("#be_draft .plain").inner_text().startswith("Tom had a red ball.")
    page.wait_for_function(f"({FITS})().beyond <= 1")


def test_what_is_typed_is_text_and_what_does_not_fit_is_said(story):
    page = story()
    page.locator("#be_draft .typed").fill(HOSTILE)
    expect(page.locator("#be_draft .typing .word")).to_contain_text("<img src=x")
    page.keyboard.press("Enter")
    expect(page.locator("#be_draft .error-box")).to_contain_text("at most 12 are allowed")
    expect(page.locator("#be_draft .typed")).to_have_value(HOSTILE)  # the typed words are not lost
    page.locator("#be_draft .typed").fill("<b>")
    page.locator("#be_draft .typed").focus()
    propose(page, "")
    expect(page.locator("#be_draft .error-box")).to_be_hidden()
    assert page.locator("#be_draft img, #be_draft .writing b").count() == 0
    assert page.evaluate("window.hacked") is None


def test_on_a_phone_text_and_field_are_in_one_screen_and_axe_finds_nothing(story):
    page = story("&__theme=dark", PHONE)
    for text in ("a big ball and a red one", "", "the park"):
        propose(page, text)
        page.wait_for_function("document.documentElement.scrollWidth <= 390")
        place = page.locator("#be_draft form").bounding_box()
        # the field stays above the phone's keyboard after scrolling
        assert place["y"] + place["height"] <= 600
    assert serious_findings(page, "#be_draft") == []
