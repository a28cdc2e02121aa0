"""The laboratories of races and trees in the browser."""

import pytest
from playwright.sync_api import expect

from tests.conftest import generate, shows, to

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


def test_the_address_opens_a_tab_and_follows_it(blank, url):
    page = blank
    page.goto(f"{url}/?tab=trees&kept=1")
    page.wait_for_selector("#tree_lab .node")
    expect(page.get_by_role("tab", name="Tree lab")).to_have_attribute("aria-selected", "true")
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
    page.goto(f"{url}/?tab=nonsense")
    page.wait_for_selector("#generate", state="visible")


def test_sliders_keep_sums_and_measured_races_and_the_laboratory_its_state_behind_another_tab(race_lab):
    shows(race_lab, "#race_lab .outcome", "of 10,000 first drafts")
    asked = []

    def note(request):
        asked.extend([request.url] if "/ask/" in request.url else [])

    race_lab.on("request", note)
    # names of tokens are shown as text, not as HTML, and a new one keeps the measured races
    race_lab.locator("#race_lab .token-name").first.fill(OWN)
    shows(race_lab, "#race_lab .lane .name", "<img")
    expect(race_lab.locator("#race_lab select")).to_have_value("own")
    assert race_lab.locator("#race_lab img").count() == 0
    assert race_lab.evaluate("window.hacked") is None
    race_lab.wait_for_timeout(300)
    race_lab.remove_listener("request", note)
    assert asked == []
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
    plots = [".convergence", ".by-index"]
    for plot in plots:
        race_lab.locator(f"#race_lab {plot}").scroll_into_view_if_needed()
        race_lab.wait_for_function(
            "plot => document.querySelector('#race_lab ' + plot).data?.at(-1).x.length", arg=plot
        )
    # the curves are drawn to their end, however slow the machine is
    race_lab.wait_for_function("document.querySelector('#race_lab .convergence').data[6].x.at(-1) === 10000")
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
    expect(tree_lab.locator("#tree_lab .lab-error")).to_be_hidden()


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
    step = race_lab.evaluate(
        "(() => { const { rounds, selected } = window.specdec.store.state;"
        " const before = rounds[selected.round].steps.slice(0, selected.step + 1);"
        " return before.findLast(({ winner_q: winner }) => winner !== null); })()"
    )
    to(race_lab, "Understand", "Race lab")
    race_lab.wait_for_selector("#race_lab .lane")
    race_lab.get_by_role("button", name="From the run in Watch").click()
    verdict = "same winner" if step["winner_q"] == step["winner_p"] else "different winners"
    shows(race_lab, "#race_lab .preset-note", f"position {step['position']}")
    shows(race_lab, "#race_lab .verdict", verdict)
    for side in ("p", "q"):
        assert sum(probabilities(race_lab, side)) == pytest.approx(1, abs=0.005)
    to(race_lab, "Tree lab")
    race_lab.wait_for_selector("#tree_lab .node")
    race_lab.locator("#tree_lab .from-run").click()
    shows(race_lab, "#tree_lab .preset-note", "rounds of the run in Watch")
