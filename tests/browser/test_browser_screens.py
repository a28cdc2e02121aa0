"""Every tab fits one screen with its main content, at common window sizes and as slides. At rest, during a
run and after it, axe finds no serious fault, and each term has its explanation."""

import pytest
from playwright.sync_api import expect

from specdec.methods import METHODS
from tests.conftest import (
    OPENED,
    PHONE,
    RUNS,
    closed,
    enter,
    go,
    hidden_tokens,
    pointed_at,
    resize,
    serious_findings,
    settle,
    state,
    to,
    wait_for_state,
)

SIZES = [(2560, 1300), (1920, 1080), (1440, 900), (1280, 720), (1024, 768), (820, 1180)]
SLIDES = [(1280, 720), (1920, 1080)]
SMALL = [(640, 360), (1100, 800)]
"""A laptop's window of 1280 x 720 at a zoom of 200%, and the frame of a Space."""
NAMES = {
    "live": ["Watch", "Decode"],
    "compare": ["Watch", "Compare"],
    "draft": ["Guess"],
    "race": ["Understand", "Race lab"],
    "trees": ["Understand", "Tree lab"],
    "losslessness": ["Understand", "Losslessness"],
    "lessons": ["Understand", "Lessons"],
    "payoff": ["Will it pay?"],
    "experiments": ["Paper", "Experiments"],
    "codecs": ["Paper", "Codecs"],
}
"""The selected tabs of a view."""
SHOWN = {
    "compare": "#compare .column .story",
    "draft": "#be_draft .play",
    "race": "#race_lab .lanes",
    "trees": "#tree_lab .canvas",
    "losslessness": "#lossless .bars-area",
    "experiments": "#experiments_lab .plot .figure",
    "codecs": "#codec_lab .received",
    "payoff": "#payoff .head",
}
"""The main content of a tab."""
FITS_A_PHONE = """() => {
  const tab = document.querySelector("#tabs > [role=tabpanel]:not([hidden])");
  const right = (part) => part.getBoundingClientRect().right;
  const size = (text) => parseFloat(getComputedStyle(text).fontSize);
  return document.documentElement.scrollWidth <= innerWidth
    && [...tab.querySelectorAll(".card, select, button")].every((part) => right(part) <= innerWidth)
    && [...tab.querySelectorAll(":is(.lanes, .growth, #lossless) text")].every((text) => size(text) >= 12);
}"""
"""Nothing is wider than a phone's screen, and the words of drawings have at least 12 pixels."""
IS_WITHIN_THE_WINDOW = """() => {
  const FIELDS = "button, input, select, textarea";
  const scrolls = (part) =>
    part && (/auto|scroll/.test(getComputedStyle(part).overflowX) || scrolls(part.parentElement));
  const all = (parts) =>
    [...document.querySelectorAll(`#tabs :is(${parts})`)].filter((part) => part.checkVisibility());
  const right = (part) => part.getBoundingClientRect().right;
  const isBelow = (part) => part.getBoundingClientRect().top >= innerHeight;
  const isInside = (part) => part.getBoundingClientRect().left >= -1 && right(part) <= innerWidth + 1;
  return document.documentElement.scrollWidth <= innerWidth
    && all(`.card, .panel, ${FIELDS}`)
      .every((part) => scrolls(part) || isInside(part) || (part.closest(".graph") && isBelow(part)))
    && all(".drawing, .main-svg")
      .filter((part) => !isBelow(part))
      .every((part) => right(part) <= right(part.closest(".card, .panel")) + 1);
}"""
"""Nothing is wider than the window, except content that scrolls in a frame of its own, and no drawing is
wider than its panel. A drawing below the window is drawn again only when it is seen; until then it has the
old width, and so have the buttons that Plotly puts into it (`.graph`)."""
SMALLEST = 11
"""Pixels of the smallest letters of a drawing on a projector's screen."""


def settled(page, selector):
    """Top and bottom of the first such element, once it no longer moves."""
    part, last = page.locator(selector).first, None
    while (place := part.bounding_box()) != last:
        last = place
        page.wait_for_timeout(200)
    return place["y"], place["y"] + place["height"]


def chosen(page):
    """The names of the selected tabs."""
    return page.locator("#tabs > .tab-wrapper [aria-selected=true]:visible").all_text_contents()


IGNORES_THE_SIZE = """() => {
  const isText = (node) => node.nodeType === Node.TEXT_NODE && node.data.trim();
  const hasText = (part) => part.checkVisibility() && [...part.childNodes].some(isText);
  const parts = [...document.querySelectorAll("body :not(svg *)")].filter(hasText);
  const sizes = () => parts.map((part) => parseFloat(getComputedStyle(part).fontSize));
  const before = sizes();
  document.documentElement.style.fontSize = "200%";
  const after = sizes();
  return parts.filter((_, i) => after[i] !== 2 * before[i]).map(({ textContent }) => textContent);
}"""


@pytest.mark.parametrize("tab", ["race", "codecs"])
def test_texts_outside_drawings_follow_the_browser_s_text_size(open_tab, tab):
    assert open_tab(tab).evaluate(IGNORES_THE_SIZE) == []


@pytest.mark.parametrize("tab", OPENED)
def test_a_tab_fits_every_window_and_is_whole_in_the_first_screen(open_tab, tab):
    page, selector = open_tab(tab), SHOWN.get(tab)
    expect(page.locator(f"#tab-{tab}")).to_be_visible()
    assert chosen(page) == NAMES[tab]
    for size in SIZES:
        resize(page, size)
        page.wait_for_function(IS_WITHIN_THE_WINDOW)
        if tab == "live":
            prompt, button = (page.locator(part).bounding_box() for part in ("#prompt", "#generate"))
            middles = [box["y"] + box["height"] / 2 for box in (prompt, button)]
            assert middles[0] == pytest.approx(middles[1], abs=4), size
        if not selector:
            continue
        top, bottom = settled(page, selector)
        assert 0 <= top < bottom <= size[1], (size, top, bottom)
        assert bottom - top >= (60 if tab == "payoff" else 80), (size, top, bottom)
    if tab in ("experiments", "codecs"):  # plotly draws their figures again only while they are visible
        open_tab(tab, size=PHONE)
    for size in (*SMALL, PHONE):
        resize(page, size)
        page.wait_for_function(IS_WITHIN_THE_WINDOW)
    assert hidden_tokens(page) == []
    if tab == "draft":
        expect(page.get_by_role("heading", name="Type the next word")).to_be_in_viewport(ratio=1)
    if selector:
        top, _ = settled(page, selector)
        assert 0 <= top <= 0.65 * PHONE[1], top
        if tab not in ("experiments", "codecs"):
            page.wait_for_function(FITS_A_PHONE)
        assert serious_findings(page, "#tabs") == []


CUT = """() => {
  const PARTS = ["#claim p", "#shown_pair p", ".chips button", "#page .legend:not(.key)", ".account",
    ".look-line", ".look", ".race-marks", "#figures .note", "#figures .verdict"];
  const isSeen = (part) => part.checkVisibility();
  const room = (part) => part.clientHeight + Number(part.closest(".look-line") !== null); // for its letters
  const words = [...document.querySelectorAll(PARTS)].filter((part) =>
    isSeen(part) && (part.scrollWidth > part.clientWidth || part.scrollHeight > room(part)));
  const field = document.querySelector("#prompt .control");
  const { content, font } = getComputedStyle(field, "::after");
  const pen = Object.assign(document.createElement("canvas").getContext("2d"), { font });
  const invitation = pen.measureText(content.slice(1, -1)).width;
  const outside = [...document.querySelectorAll("#race .drawing text")].filter((text) => {
    const [own, all] = [text, text.ownerSVGElement].map((part) => part.getBoundingClientRect());
    return isSeen(text) && (own.top < all.top - 2 || own.left < all.left - 2 || own.bottom > all.bottom + 2);
  });
  return [
    ...[...words, ...outside].map((part) => `${part.getAttribute("class")}: ${part.textContent}`),
    ...(invitation > field.clientWidth - 24 ? [content] : []),
  ];
}"""
"""What is cut of the words in Decode's panels."""
COVERED = """() => {
  const PARTS = ["#figures", "#stepper", "#prompt", "#method", "#drawer", "#replay .choose"];
  const box = (part) => document.querySelector(part).getBoundingClientRect();
  const [figures, player, prompt, ...row] = PARTS.map(box);
  if (innerWidth > 640) return figures.bottom - player.top;
  const over = row.flatMap((one) => row.map((other) => (one.x < other.x ? one.right - other.x : 0)));
  return Math.max(figures.bottom - prompt.top, ...over);
}"""
"""Pixels of tree and race that lie below the player; on a phone also of controls that lie below others."""
LOW = [(1024, 720), (1100, 700), (1270, 640), (1366, 640)]


@pytest.mark.parametrize("trace", ["code", "opening", "parting-gsd"])
def test_nothing_is_cut_in_decode_and_the_player_covers_nothing(visit, trace):
    page = visit(f"?trace={trace}")
    if trace == "code":  # other chips than those of the story pair
        page.evaluate("Object.assign(document.body.dataset, { chats: '', codes: '' })")
    method = state(page)["setup"]["method"]
    offered = page.locator("#replay .look-line button:visible")
    for size in (*SIZES[:-1], (1100, 800), *LOW, PHONE):
        resize(page, size)
        for _ in range(2):
            page.locator(".open-more input").evaluate("input => input.click()")
            for key in ("Home", "End"):
                page.keyboard.press(key)
                settle(page)
                assert page.evaluate(CUT) == [], (size, key)
                assert page.evaluate(COVERED) <= 0, size
                expect(offered.filter(has_text="Show it")).to_have_count(1)
        page.locator("#method input:not(:checked)").first.evaluate("input => input.click()")
        settle(page)
        assert page.evaluate(CUT) == [], size
        expect(offered).to_have_count(0)
        page.locator(f"#method input[value={method}]").evaluate("input => input.click()")


CLIPPED = """() => [...document.querySelectorAll(".stills .line")].map((line) => {
  const { top, bottom } = line.getBoundingClientRect();
  return [...line.querySelectorAll(".token")].filter((token) => {
    const box = token.getBoundingClientRect();
    return box.top < top - 3 || box.bottom > bottom + 3;
  }).length;
})"""
"""How many tokens of each still picture are outside of it."""


@pytest.mark.parametrize("trace", ["story", "opening"])
def test_still_pictures_show_all_tokens_and_end_with_their_panel(visit, trace):
    page = visit(f"?trace={trace}")
    for size in (*SIZES, *LOW, PHONE):
        resize(page, size)
        assert page.evaluate(CLIPPED) == [0, 0, 0], size
        panel, *pictures = page.locator("#text, #text .slow, #text .stills .line").evaluate_all(
            "parts => parts.map((part) => part.getBoundingClientRect().toJSON())"
        )
        assert max(picture["right"] for picture in pictures) <= panel["right"], size
        assert max(picture["bottom"] for picture in pictures) <= panel["bottom"], size


def test_whatever_sets_a_check_is_in_the_first_screen_and_all_tabs_are_in_sight(open_tab):
    page = open_tab("losslessness", size=(1280, 720))
    top, bottom = settled(page, "#lossless-controls")
    assert 0 <= top < bottom <= 720
    for width in (360, 390, 820):
        resize(page, (width, 844))
        settled(page, "#tabs")
        boxes = [tab.bounding_box() for tab in page.get_by_role("tab").all()]
        assert len(boxes) == 5 + 4
        assert min(box["x"] for box in boxes) >= 0
        assert max(box["x"] + box["width"] for box in boxes) <= width
        assert len({box["y"] for box in boxes[:5]}) == 1


def test_the_contents_of_the_experiments_stay_in_sight(open_tab):
    page = open_tab("experiments", size=(1280, 720))
    page.locator("#experiments_lab .contents button", has_text="Findings").click()
    page.wait_for_function(
        "document.querySelector('#experiments_lab .findings').getBoundingClientRect().top < innerHeight / 2"
    )
    top, bottom = settled(page, "#experiments_lab .contents")
    assert 0 <= top < bottom <= 720


ADDRESSES = {
    "": ("live", "Watch", "Decode"),
    "?trace=wide-tree&round=7": ("live", "Watch", "Decode"),
    "?prompt=Tom&method=gsd&seed=3&length=8": ("live", "Watch", "Decode"),
    "?tab=nonsense": ("live", "Watch", "Decode"),
    "?lesson=trees": ("trees", "Understand", "Tree lab"),
    "?lecture=45": ("lessons", "Understand", "Lessons"),
    # an address from before this view had a tab of its own
    "?tab=experiments&codec.k=3": ("codecs", "Paper", "Codecs"),
}
"""Addresses without the name of a view, the view that each opens, and the selected tabs."""


def test_every_address_opens_its_view_in_its_place(blank, url):
    for address, (view, *names) in ADDRESSES.items():
        blank.goto(f"{url}/{address}")
        expect(blank.locator(f"#tab-{view}"), address).to_be_visible()
        assert chosen(blank) == names, address
    to(blank, "Paper")
    blank.keyboard.press("Home")
    expect(blank.locator("#tab-live")).to_be_visible()
    for key, view in {"ArrowRight": "draft", "End": "codecs"}.items():
        blank.keyboard.press(key)
        expect(blank.locator(f"#tab-{view}")).to_be_visible()
    blank.keyboard.press("Tab")
    blank.keyboard.press("End")
    expect(blank.locator("#tab-paper")).to_be_visible()
    blank.get_by_role("link", name="Tree lab").first.click()
    expect(blank.locator("#tab-trees")).to_be_visible()
    go(blank, url)
    to(blank, "Understand")
    expect(blank.locator("#tab-lessons")).to_be_visible()
    to(blank, "Losslessness")
    title = blank.locator("#tab-losslessness").get_by_role("heading").first
    expect(title).to_have_text("Is the text really the same?")


FITS = """() => {
  const tab = document.querySelector("#tabs > [role=tabpanel]:not([hidden])");
  const { top, bottom } = tab.getBoundingClientRect();
  const texts = [...tab.querySelectorAll("svg text")].filter((text) => text.getClientRects().length > 0);
  const zoom = document.body.currentCSSZoom;
  const box = (part) => part.getBoundingClientRect();
  const isCut = (text) => {
    const [own, all] = [text, text.ownerSVGElement].map(box);
    return own.top < all.top - 2 || own.bottom > all.bottom + 2;
  };
  const menus = [...document.querySelectorAll("#tabs [role=tab], #projector select")];
  const seen = menus.filter((part) => part.checkVisibility()).map(box);
  return {
    cut: texts.filter(isCut).map((text) => text.textContent),
    covered: seen.some((one) => seen.some((other) => one.left < other.left && one.right > other.left + 1)),
    beyond: tab.scrollHeight - tab.clientHeight,
    page: document.documentElement.scrollHeight - innerHeight,
    inside: top >= 0 && bottom <= innerHeight + 1,
    smallest: Math.min(...texts.map((text) => parseFloat(getComputedStyle(text).fontSize) * zoom)),
  };
}"""


@pytest.mark.parametrize("tab", [*SHOWN, "lessons"])
def test_a_tab_is_one_slide_after_another_without_scrolling(open_tab, tab):
    page = open_tab(tab, "&projector=1", SLIDES[0])
    menu = page.locator("#projector .slides")
    names = menu.locator("option").all_text_contents() or [""]
    assert len(names) == len(set(names))
    for name in names:
        if len(names) > 1:
            menu.select_option(name)
        if (measure := page.get_by_role("button", name="Measure", exact=True)).is_visible():
            measure.click()
            page.locator("#payoff .sentences li").first.wait_for(timeout=120_000)
        assert hidden_tokens(page) == [], name
        for size in SLIDES:
            resize(page, size)
            settled(page, "#tabs")
            fits = page.evaluate(FITS)
            assert fits["beyond"] <= 1, (tab, name, size, fits)
            assert fits["page"] <= 0, (tab, name, size, fits)
            assert fits["inside"], (tab, name, size, fits)
            assert not fits["cut"], (tab, name, size, fits)
            assert not fits["covered"], (tab, name, size, fits)
            assert fits["smallest"] is None or fits["smallest"] >= SMALLEST, (tab, name, size, fits)


def test_a_slide_shows_the_selected_round_and_changes_runs_and_tabs(visit):
    """A projector enlarges the story's rectangle, but not the number by which it scrolls."""
    page = visit("?projector=1&trace=code", SLIDES[0])
    for number in (13, 3, 9, 0, 12):
        page.evaluate("(number) => window.specdec.store.seek(number)", number)
        settle(page)
        inside = """() => {
          const [story, round] = ["#text .story", "#text .tokens > .selected"].map((each) =>
            document.querySelector(each).getBoundingClientRect());
          return round.top >= story.top - 1 && round.top < story.bottom;
        }"""
        assert page.evaluate(inside), number
    page.locator("#replay .choose").select_option("wide-tree")
    wait_for_state(page, "recorded?.name === 'wide-tree'")
    to(page, "Understand", "Race lab")
    page.wait_for_selector("#race_lab .lane")
    page.locator("#projector .slides").select_option("10,000 races")
    page.wait_for_selector("#race_lab .tiles", state="visible")
    page.wait_for_selector("#race_lab .lanes", state="hidden")
    assert serious_findings(page) == []


TWICE = """() => {
  const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
  return ids.filter((id, i) => id !== "" && ids.indexOf(id) !== i);
}"""
BEGUN = ["waiting", "choosing", "running", "baseline"]


METHOD_NAMES = [entry.name for entry in METHODS.values()]
TERMS = {
    "live": [
        *METHOD_NAMES,
        *("topology", "k", "plain", "call", "block efficiency", "acceptance", "child index"),
        *("accepted", "rejected", "correction", "bonus", "race", "arrival", "path"),
    ],
    "compare": [
        *METHOD_NAMES[1:3],
        *("plain", "topology", "k", "block efficiency", "relative speed", "residual"),
    ],
    "draft": ["call", "n-grams", "accepted", "rejected", "correction", "bonus"],
    "race": ["race", "arrival", "GSD", "ERSD", "residual", "TV"],
    "trees": ["acceptance", "child index", "k", "entropy", "block efficiency"],
    "losslessness": [*METHOD_NAMES, "topology", "k", "χ²", "p-value", "call", "distribution", "watermark"],
    "experiments": ["k", "call"],
    "codecs": ["distribution", "index", "entropy", "D_KL", "Elias γ"],
    "payoff": ["k", "block efficiency", "acceptance", "call", "topology"],
    "lessons": ["ERSD", "GSD", "acceptance", "residual", "path", "k"],
}
"""The explained terms of each tab, by their names in `assets/shared/glossary.js`."""


def fine(page):
    """axe finds nothing serious, no id is there twice, and no term lacks its dotted line. Returns the
    explained terms."""
    assert serious_findings(page) == []
    assert page.evaluate(TWICE) == []
    explained, plain = pointed_at(page)
    assert plain == []
    return set(explained)


@pytest.mark.parametrize("tab", OPENED)
def test_a_tab_at_rest_in_both_themes_while_it_runs_and_when_it_is_done(open_tab, tab):
    page = open_tab(tab, "&payoff.preset=gpu&lossless.decodes=500")
    if tab == "payoff":
        page.wait_for_selector("#payoff .sentences li", state="attached")
    if tab == "live":
        page.wait_for_function("document.querySelector('#stepper .play .word').textContent === 'play'")
    if tab == "trees":  # the entropy is shown once the server has answered
        page.wait_for_selector("#tree_lab [data-term=entropy]", state="visible")
    explained = fine(page)
    page.emulate_media(color_scheme="dark")
    assert serious_findings(page) == []
    if tab == "live":
        page.locator("#method .more").click()
        page.locator(".open-settings input").check(force=True)
        page.get_by_text("All statistics").click()
        page.wait_for_selector("#k input", state="visible")
        explained |= set(pointed_at(page)[0])
        enter(page.locator("#length input[type=number]"), "16")
        closed(page)
    assert set(TERMS[tab]) <= explained
    page.emulate_media(color_scheme="light")
    if tab == "compare":
        page.locator("#compare [name=length]").fill("12")
    if tab in RUNS:
        begun_and_done(page, *RUNS[tab])
    if tab == "draft":
        page.locator("#be_draft input.typed").fill("and")
        page.keyboard.press("Enter")
        page.wait_for_selector("#be_draft .writing .token")
        fine(page)


def begun_and_done(page, button, _, state):
    phase = f"{state}[0]"
    page.evaluate(  # a short run may end before the test looks
        f"""() => new MutationObserver(() => {{ window.began ||= {BEGUN}.includes({phase}); }})
          .observe(document.documentElement, {{ attributes: true, subtree: true }})"""
    )
    page.locator(button).click()
    page.wait_for_function("window.began")
    assert serious_findings(page) == []
    page.wait_for_function(f"{phase} === 'done'")
    expect(page.locator(button)).to_be_enabled()  # the button gets its colour back then
    fine(page)


def test_a_sentence_comes_by_focus_and_goes_by_escape(open_tab):
    page = open_tab("trees")
    term, note = page.locator("#tree_lab [data-term=k]"), page.locator(".term-note")
    term.focus()
    note.wait_for(state="visible")
    assert "target call" in note.text_content()
    assert term.get_attribute("aria-describedby") == "term-note"
    page.keyboard.press("Escape")
    note.wait_for(state="hidden")
    assert term.get_attribute("aria-describedby") is None
    term.hover()
    note.hover()  # the pointer may move onto the sentence
    expect(note).to_be_visible()
