"""The laboratories of races, trees, experiments and codecs, and the place "Will it pay?", in the browser."""

import re

import pytest
from playwright.sync_api import expect

from components.experiments import views
from tests import conftest
from tests.conftest import generate, ready, shows, state, to

OWN = "<img src=x onerror=window.hacked=1>"


@pytest.fixture
def race_lab(open_tab):
    return open_tab("race")


@pytest.fixture
def tree_lab(open_tab):
    return open_tab("trees")


def probabilities(page, side):
    texts = page.locator(f"#race_lab .probability.{side} output").all_inner_texts()
    return [float(text) for text in texts]


def choose(page, lab, preset):
    page.locator(f"#{lab} select").select_option(label=preset)


def test_the_address_follows_the_tab(open_tab):
    page = open_tab("trees", "&kept=1")
    to(page, "Race lab")
    page.wait_for_url("**/?tab=race&kept=1")
    to(page, "Watch")
    page.wait_for_url("**/?kept=1")
    page.go_back()
    page.wait_for_url("**/?tab=race&kept=1")
    page.wait_for_selector("#race_lab .lane", state="visible")
    page.go_forward()
    page.wait_for_selector("#generate", state="visible")
    page.wait_for_url("**/?kept=1")


def test_sliders_keep_sums_and_measured_races_and_the_laboratory_its_state_behind_another_tab(race_lab):
    shows(race_lab, "#race_lab .outcome", "of 10,000 first drafts")
    urls = []

    def note(request):
        urls.extend([request.url] if "/ask/" in request.url else [])

    race_lab.on("request", note)
    # names of tokens are shown as text, not as HTML, and a new one keeps the measured races
    race_lab.locator("#race_lab .token-name").first.fill(OWN)
    shows(race_lab, "#race_lab .lane .name", "<img")
    expect(race_lab.locator("#race_lab select")).to_have_value("own")
    assert race_lab.locator("#race_lab img").count() == 0
    assert race_lab.evaluate("window.hacked") is None
    race_lab.wait_for_timeout(300)
    race_lab.remove_listener("request", note)
    assert urls == []
    race_lab.get_by_role("slider", name="target P of mat").fill("0.7")
    # the token floor: .15 of the .65 outside mat; now .3 are outside
    shows(race_lab, "#race_lab .probability.p output", "0.069")
    assert probabilities(race_lab, "p") == pytest.approx([0.069, 0.7, 0.092, 0.092, 0.046], abs=0.0011)
    assert probabilities(race_lab, "q") == [0.182, 0.408, 0.124, 0.164, 0.122]
    race_lab.get_by_role("button", name="Add a token").click()
    expect(race_lab.locator("#race_lab .lane")).to_have_count(6)
    to(race_lab, "Watch")
    race_lab.wait_for_selector("#race_lab", state="hidden")
    to(race_lab, "Understand")  # the place opens at the view that it showed last
    race_lab.wait_for_selector("#race_lab .lane")
    expect(race_lab.locator("#race_lab .lane")).to_have_count(6)


def test_a_ring_moves_by_key_and_by_mouse_and_its_token_may_go_meanwhile(race_lab):
    shows(race_lab, "#race_lab .verdict", "“⁨mat⁩” arrives first in both races: same winner, accepted")
    race_lab.get_by_role("slider", name="e of mat").focus()
    race_lab.keyboard.press("End")
    shows(race_lab, "#race_lab .verdict", "“⁨table⁩” arrives first in both races")
    ring = race_lab.get_by_role("slider", name="e of table").locator(".ring").bounding_box()
    x, y = ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2
    before = float(race_lab.get_by_role("slider", name="e of table").get_attribute("aria-valuenow"))
    race_lab.mouse.move(x, y)
    race_lab.mouse.down()
    race_lab.mouse.move(x + 60, y, steps=4)
    race_lab.mouse.up()
    race_lab.wait_for_function(
        "before => document.querySelector('#race_lab [aria-label=\"e of table\"]').ariaValueNow > before",
        arg=before,
    )
    # the last token goes while its ring is dragged: afterwards no element may have its number
    ring = race_lab.get_by_role("slider", name="e of sofa").locator(".ring").bounding_box()
    x, y = ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2
    race_lab.mouse.move(x, y)
    race_lab.mouse.down()
    race_lab.evaluate("document.querySelector('#race_lab [aria-label=\"Remove sofa\"]').click()")
    race_lab.mouse.move(x + 40, y, steps=4)  # the test fails if a script fails
    race_lab.mouse.up()
    expect(race_lab.locator("#race_lab .lane")).to_have_count(4)


def test_the_laboratory_opens_with_ten_thousand_races_and_others_end_beside_the_exact_values(race_lab):
    shows(race_lab, "#race_lab .outcome", "of 10,000 first drafts")
    assert "race.many" not in race_lab.url
    choose(race_lab, "race_lab", "Identical, P = Q")
    shows(race_lab, "#race_lab .ersd-exact", "100.0%")
    race_lab.get_by_role("button", name="Run 10,000 races").click()
    shows(race_lab, "#race_lab .outcome", "ERSD accepted 100.0% (100.0% to 100.0%) of 10,000 first drafts")
    graphs = ["#race_lab .convergence .graph", "#race_lab .by-index .graph"]
    for graph in graphs:
        race_lab.locator(graph).scroll_into_view_if_needed()
        race_lab.wait_for_function(
            "graph => document.querySelector(graph).data?.at(-1)?.x?.length", arg=graph
        )
    # the curves are drawn to their end, however slow the machine is
    race_lab.wait_for_function(
        "graph => document.querySelector(graph).data[6].x.at(-1) === 10000", arg=graphs[0]
    )
    choose(race_lab, "race_lab", "Disjoint support")  # the measured races belong to other distributions
    shows(race_lab, "#race_lab .gsd-measured", "not measured yet")


def test_the_tree_grows_to_384_nodes_and_no_further_and_shows_paths_and_decisions(tree_lab):
    number = tree_lab.locator("#tree_lab .grow input[type=number]")
    number.fill("999")
    number.press("Enter")
    expect(number).to_have_value("384")
    shows(tree_lab, "#tree_lab [role=status].verdict", "k = 384:")
    tree_lab.wait_for_function("document.querySelectorAll('#tree_lab .node').length === 385")
    number.fill("2")
    number.press("Enter")
    tree_lab.wait_for_function("document.querySelectorAll('#tree_lab .node').length === 3")
    tree_lab.locator("#tree_lab .node.newest").hover()
    shows(tree_lab, "#tree_lab .inspected", "Path (0, 0): accepted with probability 0.551")
    tree_lab.get_by_role("button", name="Play").click()
    tree_lab.wait_for_function("document.querySelectorAll('#tree_lab .node').length > 5")
    tree_lab.get_by_role("button", name="Pause").click()
    tree_lab.get_by_role("button", name="Play").click()
    number.click()
    number.fill("5")  # typed while the tree plays
    number.press("Enter")
    shows(tree_lab, "#tree_lab [role=status].verdict", "k = 5:")
    tree_lab.wait_for_timeout(600)  # two steps of the animation
    expect(number).to_have_value("5")
    expect(tree_lab.get_by_role("button", name="Play")).to_be_visible()
    # GSD's decisions are those of the paper's figure: each node accepts or rejects, each way ends in a sample
    choose(tree_lab, "tree_lab", "Always the first")
    number.fill("4")
    number.press("Enter")
    shows(tree_lab, "#tree_lab [role=status].verdict", "k = 4: the best tree yields 5 tokens")
    tree_lab.get_by_role("checkbox", name="GSD's decisions").check()
    tree_lab.wait_for_function("document.querySelectorAll('#tree_lab g .terminal').length === 5")


def test_new_rates_are_used_although_k_changes_before_their_answer(tree_lab):
    """If the best trees are not nested, the page asks the server for each k. The rates sum to at most one."""
    choose(tree_lab, "tree_lab", "Increasing")
    shows(tree_lab, "#tree_lab .how", "dynamic program")
    shows(tree_lab, "#tree_lab [role=status].verdict", "k = 12: the best tree yields 3.07 tokens")
    tree_lab.evaluate(
        """() => {
          const [rate, number] = ["#tree_lab .rate input", "#tree_lab .grow input[type=number]"]
            .map((selector) => document.querySelector(selector));
          Object.assign(rate, { value: 0 }).dispatchEvent(new Event("input", { bubbles: true }));
          Object.assign(number, { value: 13 }).dispatchEvent(new Event("change", { bubbles: true }));
        }"""
    )
    verdict = tree_lab.locator("#tree_lab [role=status].verdict")
    expect(verdict).to_contain_text("k = 13:")
    expect(verdict).not_to_contain_text("yields 3.")
    tree_lab.wait_for_function("document.querySelectorAll('#tree_lab .node').length === 14")
    choose(tree_lab, "tree_lab", "Halves")
    tree_lab.locator("#tree_lab .rate input").nth(1).fill("0.9")
    shows(tree_lab, "#tree_lab .left-over", "In 0.0% of the cases no child is accepted")
    error, results = tree_lab.locator("#tree_lab .lab-error"), tree_lab.locator("#tree_lab [data-outdated]")
    expect(error).to_be_hidden()
    expect(results).to_have_count(0)
    choose(tree_lab, "tree_lab", "Always the first")
    shows(tree_lab, "#tree_lab .gained", "a sequence 336.00 and a batch 0.00")
    tree_lab.locator("#tree_lab .rate input").first.fill("0")
    expect(error).to_contain_text("no child is ever accepted")
    expect(results).not_to_have_count(0)
    shows(tree_lab, "#tree_lab [role=status].verdict", "k = 13: the best tree yields 14 tokens")


def shortest_wins(bars):
    """Whether the bar with the winner's mark is the shortest. bars: [width, has the mark] of each."""
    widths = [float(width) for width, _ in bars]
    (winner,) = [float(width) for width, won in bars if won]
    return len(widths) > 1 and winner == min(widths)


def test_a_run_s_race_is_drawn_as_in_the_laboratory_and_opens_there_with_the_same_winners(open_tab):
    """The shortest bar has the winner's mark everywhere. On a busy machine `auto` may draft nothing."""
    race_lab = open_tab("race", "&length=32&baseline=0&topology=sequence&k=4")
    of_lab = """[...document.querySelectorAll("#race_lab .lane")].map((lane) =>
      [lane.querySelector(".bar-p").getAttribute("width"), lane.querySelector(".time-p.wins") !== null])"""
    fills = """bars => bars.map((bar) => getComputedStyle(document.querySelector(bar)).fill)"""
    assert shortest_wins(race_lab.evaluate(of_lab))
    colours = race_lab.evaluate(fills, ["#race_lab .hatch-fill", "#race_lab .bar-p"])
    to(race_lab, "Watch")
    generate(race_lab)
    of_decode = """[...document.querySelectorAll("#race .row")].map((row) => {
      const bar = row.querySelector(".bar.target");
      return [bar.getAttribute("width"), row.querySelector(".runner.target.won") !== null];
    })"""
    assert race_lab.evaluate(fills, ["#race .hatch-fill", "#race .bar.target"]) == colours
    for _ in range(3):
        assert shortest_wins(race_lab.evaluate(of_decode))
        race_lab.get_by_role("button", name="previous round").click()
        race_lab.wait_for_timeout(600)
    run = state(race_lab)
    steps = run["rounds"][run["selected"]["round"]]["steps"][: run["selected"]["step"] + 1]
    step = next(step for step in reversed(steps) if step["winner_q"] is not None)
    to(race_lab, "Understand", "Race lab")
    race_lab.wait_for_selector("#race_lab .lane")
    race_lab.get_by_role("button", name="From the run in Watch").click()
    verdict = "same winner" if step["winner_q"] == step["winner_p"] else "different winners"
    shows(race_lab, "#race_lab .preset-note", f"position {step['position']}")
    shows(race_lab, "#race_lab .verdict", verdict)
    to(race_lab, "Tree lab")
    race_lab.wait_for_selector("#tree_lab .node")
    race_lab.locator("#tree_lab .from-run").click()
    shows(race_lab, "#tree_lab .preset-note", "rounds of the run in Watch")


def drawn(page, selector):
    """Scroll to a figure and wait until its curves are drawn."""
    page.locator(selector).first.scroll_into_view_if_needed()
    page.wait_for_function("figure => document.querySelector(figure).querySelector('svg')", arg=selector)


def range_of(page, figure):
    return page.evaluate("f => document.querySelector(f)._fullLayout.yaxis.range", figure)


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080)])
def test_the_label_of_a_mark_is_shown_where_the_pointer_is(open_tab, size):
    lab = open_tab("experiments", size=size)
    figure = "#experiments_lab .plot .graph"
    drawn(lab, figure)
    marks = lab.locator(f"{figure} .scatterlayer .trace .points path")
    mark = marks.nth(3)
    box = mark.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    lab.mouse.move(x - 3, y)
    lab.mouse.move(x, y)
    label = lab.locator(".hoverlayer .hovertext path").first
    expect(label).to_be_visible()
    left, right = (box := label.bounding_box())["x"], box["x"] + box["width"]
    assert min(abs(left - x), abs(right - x)) <= 15  # beside the mark
    assert box["y"] <= y <= box["y"] + box["height"]


def test_figures_that_were_never_scrolled_to_are_printed(open_tab):
    page = open_tab("experiments", size=(640, 480))
    drawn(page, "#experiments_lab .plot .graph")
    page.pdf()
    assert page.locator("#experiments_lab .plot:not(:has(.main-svg))").count() == 0


def test_results_are_drawn_for_both_methods_and_keep_zoom_and_hidden_curves(open_tab):
    lab, view, figure = open_tab("experiments"), views.shipped(), "#experiments_lab .plot .graph"
    shows(lab, "#experiments_lab .about", view["about"].partition(":")[0])
    figures = [each for each in view["figures"] if each.get("method") in (None, "ersd")]
    expect(lab.locator("#experiments_lab .plot")).to_have_count(len(figures))
    expect(lab.locator("#experiments_lab .findings tbody tr")).to_have_count(len(view["findings"]))
    drawn(lab, figure)
    shows(lab, "#experiments_lab .plot .sentence", "ERSD, tokens")
    lab.locator("#experiments_lab .plot summary").first.click()
    rows = lab.locator("#experiments_lab .plot table").first.locator("tbody tr")
    expect(rows).to_have_count(len(figures[0]["table"]["rows"]))
    full_range = range_of(lab, figure)
    lab.evaluate(
        "f => window.Plotly.relayout(document.querySelector(f), {'yaxis.range[0]': 1, 'yaxis.range[1]': 2})",
        figure,
    )
    curve = lab.locator("#experiments_lab .curve", has_text="batch").first
    for hidden in (2, 0):  # each press draws the zoomed figure again
        curve.click()
        lab.wait_for_function(
            "([f, n]) => document.querySelector(f).data.filter((it) => it.visible === false).length === n",
            arg=[figure, hidden],
        )
    assert range_of(lab, figure) == [1, 2]
    lab.evaluate("f => document.querySelector(f).emit('plotly_doubleclick')", figure)
    lab.wait_for_function("f => document.querySelector(f)._fullLayout.yaxis.range[1] !== 2", arg=figure)
    assert range_of(lab, figure) == pytest.approx(full_range)
    curve.click()
    expect(curve).to_have_attribute("aria-pressed", "false")
    lab.get_by_role("radio", name="GSD").check()
    shows(lab, "#experiments_lab .plot .sentence", "GSD, tokens")
    expect(curve).to_have_attribute("aria-pressed", "true")
    lab.get_by_role("radio", name="ERSD").check()
    expect(curve).to_have_attribute("aria-pressed", "false")
    curve.click()
    expect(curve).to_have_attribute("aria-pressed", "true")


def test_bob_gets_the_sentence_and_own_distributions_and_words_are_coded_too(open_tab):
    codecs = open_tab("codecs")
    tokens = codecs.locator("#codec_lab .received .sent")
    expect(tokens).to_have_count(32)
    expect(codecs.locator("#codec_lab .received .other")).to_have_count(0)
    tokens.nth(2).click()
    shows(codecs, "#codec_lab .message-of-one", "Token 3.")
    shows(codecs, "#codec_lab .distributions-plot .sentence", "D_KL")
    expect(codecs.locator("#codec_lab .editor tbody tr")).to_have_count(13)
    codecs.get_by_role("button", name="New shared randomness").click()
    shows(codecs, "#codec_lab .note.seed", "differ from the recorded text")
    codecs.locator("#codec_lab .codec").select_option("poisson_functional")
    shows(codecs, "#codec_lab .message-of-one", "winner of the race under P")
    word = codecs.locator("#codec_lab .word")
    for typed, place, words in (
        ("abc", ".about-word", "3 letters became"),
        ("xyz", ".word-message", "the word has 'x'"),
    ):
        word.fill(typed)
        word.press("Tab")
        shows(codecs, f"#codec_lab {place}", words)


def test_a_distribution_is_edited_and_a_mistake_in_it_is_named(open_tab):
    codecs = open_tab("codecs")
    q, message = codecs.get_by_label("Q of b"), "#codec_lab .distributions-message"
    q.fill("-1")
    q.press("Tab")
    shows(codecs, message, "q, entry 2 = -1: should be greater than or equal to 0")
    q.fill("0.99")
    q.press("Tab")
    shows(codecs, "#codec_lab .distributions-plot .sentence", "D_KL[P‖Q] = 0.")
    expect(codecs.locator(message)).to_be_hidden()


@pytest.fixture
def open_payoff(blank, url):
    def open_panel(query="&payoff.preset=gpu"):
        blank.goto(f"{url}/?tab=payoff{query}")
        ready(blank)
        expect(blank.locator("#payoff .sentences li")).to_have_count(3)
        return blank

    return open_panel


def speed_up(page):
    return float(page.locator("#payoff .speed-up").text_content().rstrip("×"))


def test_an_example_fills_the_fields_and_own_values_change_the_verdict_and_the_address(open_payoff):
    page = open_payoff()
    page.locator("#payoff select.preset").select_option("gpu")
    expect(page.locator("#payoff .source")).to_contain_text("Computed, not measured")
    expect(page.locator("#payoff [name=texts]")).to_have_value("64")
    expect(page.locator("#payoff tbody tr")).to_have_count(33)
    best = page.locator("#payoff tbody tr", has_text="★").text_content()
    assert f"{speed_up(page):.2f}" in best
    assert page.locator("#payoff .drafted").text_content() in best
    page.wait_for_selector("#payoff .plot .main-svg", state="attached")
    before = speed_up(page)
    page.locator("#payoff [name=acceptance]").fill("0.95")
    expect(page.locator("#payoff .source")).to_contain_text("Changed from")
    assert speed_up(page) > before
    page.locator("#payoff [name=rows]").nth(3).fill("7")
    page.locator("#payoff [name=shape]").select_option("sequence")
    page.wait_for_url("**payoff.shape=sequence**")
    expect(page.locator("#payoff .drawn")).to_have_attribute("aria-busy", "false")
    words = page.locator("#payoff .sentences li").all_text_contents()
    reopened = open_payoff(page.url.partition("tab=payoff")[2])
    expect(reopened.locator("#payoff [name=rows]").nth(3)).to_have_value("7")
    expect(reopened.locator("#payoff .sentences li")).to_have_text(words)


def test_wrong_values_are_named_and_the_verdict_stays(open_payoff):
    page = open_payoff("&payoff.preset=gpu&payoff.texts=9999")
    expect(page.locator(".told")).to_contain_text("give a whole number from 1 to 256")
    before, error = speed_up(page), page.locator("#payoff .error-box")
    page.locator("#payoff [name=texts]").fill("0")
    expect(page.locator("#payoff .presets:has([name=texts]) + .error-box")).to_be_visible()
    expect(error).to_contain_text("texts = 0: should be greater than or equal to 1")
    assert speed_up(page) == before
    page.locator("#payoff [name=texts]").fill("64")
    expect(error).to_be_hidden()
    page.locator("#payoff [name=rows]").first.fill("0.5")
    expect(page.locator("#payoff .rows + .error-box")).to_be_visible()
    expect(error).to_contain_text("rows, entry 1 = 0.5")
    page.locator("#payoff select.preset").select_option("paper")
    expect(error).to_be_hidden()
    expect(page.locator("#payoff [name=rows]").first).to_have_value("1")


def test_this_servers_pair_is_measured_only_when_measure_is_pressed(open_payoff):
    page = open_payoff()
    page.goto(f"{page.url.partition('?')[0]}?tab=payoff&payoff.preset=here")
    expect(page.locator("#payoff .here")).to_contain_text("with these two models: not measured yet.")
    measure = page.get_by_role("button", name="Measure", exact=True)
    expect(measure).to_be_visible()
    page.wait_for_url(lambda address: "preset" not in address)
    measure.click()
    expect(page.locator("#payoff .left")).to_have_text(re.compile(r"about \d+ s left|Measuring"))
    page.locator("#payoff .cancel").click()
    expect(page.locator("#payoff .drawn")).to_be_hidden()
    page.goto(f"{page.url}&payoff.preset=here&payoff.texts=2")
    measure.click()
    source = page.locator("#payoff .source")
    expect(source).to_contain_text(
        "Changed from: Measured on this computer, once for each pair: stories/target with stories/draft",
        timeout=120_000,
    )
    expect(page.locator("#payoff .here")).to_have_text(re.compile(r"models: (\d\.\d\d times plain|no gain)"))
    page.goto(page.url.partition("&")[0])
    expect(source).to_contain_text("stories/target with stories/draft")  # it is measured already
    for field in page.locator("#payoff [name=rows]").all():
        field.fill(field.input_value())
    expect(source).to_contain_text("Changed from")
    expect(page.locator("#payoff .here")).to_contain_text(f"{speed_up(page):.2f} times plain decoding")


def test_the_speed_of_the_run_just_made_is_said_and_a_link_changes_an_example(page, url):
    """A link of the page opens the place without a reload, so the run stays."""
    conftest.choose(page.locator("#baseline input"))
    generate(page)
    link = "Object.assign(document.createElement('a'), {href: '?tab=payoff&payoff.acceptance=0.5'})"
    page.evaluate(f"document.body.appendChild({link}).click()")
    expect(page.locator("#payoff .here")).to_contain_text(re.compile(r"\d\.\d.* in your last run"))
    expect(page.locator("#payoff [name=acceptance]")).to_have_value("0.5")
    expect(page.locator("#payoff .source")).to_contain_text("Changed from: Measured on")
    page.locator("#payoff select.preset").select_option("here")
    page.locator("#payoff .measure").dispatch_event("click")  # hidden if another test has measured the pair
    both = re.compile(r"Your last run was .*\d\.\d.*; the gain depends on text and temperature\.")
    expect(page.locator("#payoff .names")).to_have_text(both, timeout=120_000)
