"""Fixtures of all tests.

Playwright compiles texts to functions in the page, which the page's own policy forbids, so tests bypass it.
`tests/browser/test_browser_policy.py` does not.

torch uses one thread, also in processes that tests start: two threads on two busy cores can be ten times
slower. All tests that drive the page share one server, and each file of them has one browser tab.
"""

import dataclasses
import json
import os
import re
import shutil
import threading
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import torch

torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when kernels are imported

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
]
DESKTOP = (1280, 900)
PHONE = (390, 844)
LONG = "topology=batch&k=64&temperature=2&length=400&seed=0&baseline=0"
"""A run of 400 tokens in 200 slow rounds, so that even a busy browser sees it while it runs."""
EXPERIENCED = """for (const name of ["specdec.more", "specdec.why"]) {
  try { localStorage.setItem(name, ""); } catch {}
}"""
"""The storage of a browser whose visitor has opened all controls and the race."""
SLOW = 60_000 if os.environ.get("CI") else 15_000
"""Milliseconds until a browser's test gives up: few on a developer's machine, to show a failure soon, and
many on the shared machines of CI."""


def pytest_collection_modifyitems(items):
    """Files with slow tests come first: at the end, the last file occupies one worker alone."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def let_closed_runs_end():
    """Wait for closed runs. Each ends after the round in progress, in the decoding thread."""
    from components.runs import queue  # the tests of the core need no package of the page

    for thread in threading.enumerate():
        if thread.name == queue.THREAD:
            thread.join(60)


@pytest.fixture(scope="module")
def pair():
    """The embedded pair, with nothing measured yet. It lies on a GPU where there is one, in the dtype that
    SPECDEC_TEST_DTYPE names."""
    import specdec

    return specdec.load_pair("stories", dtype=os.environ.get("SPECDEC_TEST_DTYPE", "auto"))


@pytest.fixture
def bounds():
    """Change the limits in force for one test."""
    from components.visitors import limits  # the tests of the core need no package of the page

    before = limits.current()
    yield lambda **changes: limits.use(dataclasses.replace(before, **changes))
    limits.use(before)


@cache
def ours(name):
    """A pair of this project by its name. If its weights are missing, the test is skipped."""
    import specdec
    from specdec import coder, smollm2

    if name == "smollm2" and smollm2.installed() is None:
        pytest.skip(f"the weights of SmolLM2 are missing: {smollm2.INSTALL}")
    if name == "coder" and coder.installed() is None:
        pytest.skip(f"the coder pair's files are missing: {coder.VARIABLE} names their folder")
    return specdec.load_pair(name)


def same_arithmetic(pair, run):
    """Skip a test of equal tokens if a bfloat16 model is computed in another way than for a recorded run.

    The number of threads does not matter.
    """
    ours, theirs = (re.sub(r", \d+ threads?$", "", each.arithmetic) for each in (pair, run))
    if ours != theirs and "bfloat16" in ours:
        pytest.skip(f"recorded with {theirs!r}, here {ours!r}")


@pytest.fixture(scope="session")
def url():
    """The address of the real app, served with the embedded pair."""
    from tests.stress.visitors import serving  # the tests of the core need no package of the page

    with serving() as (address, _):
        yield address


# Not session-wide: while it lives, no other test could start an event loop.
@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("Chromium is missing: install it or set CHROMIUM to its path")
        pytest.skip("Chromium is missing: install it or set CHROMIUM to its path")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=SLOW)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def shared_tab(browser):
    """One tab for the tests of a file. Its scripts are already compiled, so opening the page costs less than
    half."""
    context = browser.new_context(bypass_csp=True, permissions=["clipboard-read", "clipboard-write"])
    context.set_default_timeout(SLOW)
    context.add_init_script(EXPERIENCED)
    yield context.new_page()
    context.close()


@pytest.fixture
def blank(shared_tab, url):
    """The tab as a new visitor has it. After the test it checks that no other host was contacted and no
    script failed."""
    tab = shared_tab
    remembered = tab.context.new_cdp_session(tab)
    remembered.send("Storage.clearDataForOrigin", {"origin": url, "storageTypes": "cookies,local_storage"})
    remembered.detach()
    resize(tab, DESKTOP)
    tab.emulate_media(reduced_motion="reduce", color_scheme="light")  # animations have their own tests
    tab.mouse.move(0, 0)
    errors, hosts = [], set()
    listeners = {
        "pageerror": lambda error: errors.append(error.stack or str(error)),
        "request": lambda request: hosts.add(host_of(request.url)),
    }
    for event, listener in listeners.items():
        tab.on(event, listener)
    yield tab
    tab.evaluate("() => { try { sessionStorage.clear(); } catch {} }")
    tab.goto("about:blank")  # ends what the visitor began
    tab.unroute_all()
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    assert hosts <= {"127.0.0.1", ""}
    assert errors == []


RUNS = {
    "live": ("#generate", "#stop", "(({ state: { phase, message } }) => [phase, message])(specdec.store)"),
    "compare": (
        "#compare .run",
        "#compare .stop",
        "(({ phase, message }) => [phase, message])(specdec.compare?.state ?? {})",
    ),
    "losslessness": (
        "#lossless-run",
        "#lossless-stop",
        "[document.body.dataset.check, document.querySelector('.lossless-error').textContent]",
    ),
}
"""For each tab with runs: the buttons that begin and stop one, and a script for its phase and its message."""
OPENED = {
    "live": "#tree .drawing .node",
    "compare": "#compare .story .token",
    "draft": "#be_draft .prompt:not(:empty)",
    "race": "#race_lab .lane",
    "trees": "#tree_lab .node",
    "losslessness": "#lossless .outcome .bar:not([height='0.00'])",
    "experiments": "#experiments_lab .plot .figure .main-svg",
    "codecs": "#codec_lab .received .sent",
    "payoff": "#payoff .here",
    "lessons": "#lessons .lessons .card h3",
}
"""The content that each tab shows as soon as its script has begun."""


@pytest.fixture
def open_tab(blank, url):
    """Open a tab as a new visitor, and wait for its content. query: the rest of the address."""

    def opened(tab, query="", size=DESKTOP, address=url):
        resize(blank, size)
        go(blank, f"{address}/?tab={tab}{query}")
        blank.wait_for_selector(OPENED[tab], state="attached")
        return blank

    return opened


@pytest.fixture
def visit(blank, url):
    """Open the page with a query as a new visitor."""

    def opened(query="", size=DESKTOP):
        resize(blank, size)
        return go(blank, f"{url}/{query}")

    return opened


@pytest.fixture
def page(visit):
    """The opened page without the baseline, which has its own test, and with a tree: on a busy machine `auto`
    may draft nothing."""
    return visit("?baseline=0&topology=optimal&k=4")


@pytest.fixture
def someone(browser):
    """Open an address in a new browser. At the end, no script may have failed."""
    contexts, errors = [], []

    def open_page(address, size=DESKTOP, is_new=False, **settings):
        settings = {"bypass_csp": True, "viewport": viewport(size)} | settings
        contexts.append(browser.new_context(**settings))
        contexts[-1].set_default_timeout(SLOW)
        if not is_new:
            contexts[-1].add_init_script(EXPERIENCED)
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: errors.append(error.stack or str(error)))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


def viewport(size):
    """Width and height as the browser takes them."""
    return dict(zip(("width", "height"), size, strict=True))


def resize(page, size):
    page.set_viewport_size(viewport(size))


def host_of(address):
    return "" if urlsplit(address).scheme in ("data", "blob") else urlsplit(address).hostname


def go(page, address):
    """Open an address of the page, wait until it is complete, and return it."""
    page.goto(address)
    ready(page)
    return page


def ready(page):
    """Wait until a page is complete: its scripts, its setup, and the run or setup that it opens with."""
    page.wait_for_function(
        """window.specdec && document.body.dataset.phase === "idle"
          && (window.specdec.store.state.run || document.body.hasAttribute("data-linked"))"""
    )


def to(page, *names):
    """Go to a place of the page, and to one of its views, by the rows of tabs."""
    for name in names:
        page.get_by_role("tab", name=name, exact=True).click()


def settle(page):
    """Wait until everything that has changed on a page, or on that of a control, is drawn."""
    page.evaluate("async () => { for (const _ of '12') await new Promise(requestAnimationFrame); }")


def within_reach(control):
    """Open the drawer of settings if a control of the Decode tab is in it."""
    if control.evaluate("element => element.closest('#settings') !== null"):
        # a click would miss the control while the page still moves
        control.page.locator(".open-settings input").evaluate("input => input.checked || input.click()")


def enter(control, value):
    """Type a value into a field and leave it; the value must stay."""
    within_reach(control)
    settle(control)
    control.fill(value)
    control.blur()
    settle(control)
    assert control.input_value() == value


def choose(control, checked=True):
    """Set a checkbox or a radio button; the choice must stay."""
    within_reach(control)
    settle(control)
    control.set_checked(checked)
    settle(control)
    assert control.is_checked() == checked


def pick(control, option):
    """Choose an option of a menu by a part of its text; the choice must stay."""
    within_reach(control)
    [label] = [text for text in control.locator("option").all_inner_texts() if option in text]
    control.select_option(label=label)
    settle(control)
    assert option in control.evaluate("menu => menu.selectedOptions[0].textContent")


def closed(page):
    """Close the drawer of settings."""
    if page.locator(".open-settings input").count() > 0:
        page.locator(".open-settings input").uncheck(force=True)


def generate(page, until="done"):
    """Press Generate and wait until the new run, not the one before, has reached a phase."""
    page.evaluate(
        """() => {
          const passed = (window.passed = []);
          let last = window.specdec.store.state.phase;
          window.specdec.store.subscribe(({ phase }) => {
            if (phase !== last) passed.push(phase);
            last = phase;
          });
        }"""
    )
    closed(page)
    page.locator("#generate").click()
    is_drawn = "document.body.dataset.phase === window.specdec.store.state.phase"
    # the run itself takes long on a busy machine
    condition = f"until => window.passed.some((phase) => [until, 'error'].includes(phase)) && {is_drawn}"
    try:
        page.wait_for_function(condition, arg=until, timeout=6 * SLOW)
    finally:
        phases, message = page.evaluate("[window.passed, window.specdec.store.state.message]")
        print(f"the run passed the phases {phases}; its message is {message!r}")
    assert until in phases, message


def press_once(page, holds, button):
    """Press a button as soon as a script is true. The press comes from within the page, because on a busy
    machine one from outside comes too late."""
    page.evaluate(
        f"""() => {{
          const watch = new MutationObserver(() => {{
            const button = document.querySelector("{button}:enabled");
            if (!button || !({holds})) return;
            watch.disconnect();
            button.click();
          }});
          watch.observe(document.body, {{ attributes: true, childList: true, subtree: true }});
        }}"""
    )


def state(page):
    """What the store of the page holds."""
    return page.evaluate("window.specdec.store.state")


def wait_for_state(page, condition, timeout=SLOW):
    """Wait until a JavaScript condition on the fields of the store holds, such as `rounds.length > 3`."""
    fields = "{ phase, run, setup, rounds, recorded, selected, follow, veiled }"
    holds = f"(({fields}) => {condition})(window.specdec?.store.state ?? {{ rounds: [] }})"
    page.wait_for_function(holds, timeout=timeout)


def receive(page, *updates, rounds=None, **changes):
    """Let the page receive the shown run again, as one that its visitor has begun, and then these updates.

    rounds: other rounds than those that are shown. changes: other settings."""
    shown = state(page)
    rounds = shown["rounds"] if rounds is None else rounds
    first = {"phase": "running", "setup": shown["setup"] | changes, "rounds": rounds}
    texts = [json.dumps({"rounds": []} | update) for update in (first, *updates)]
    page.evaluate("texts => window.specdec.store.receiveAll(texts)", texts)


def watch_shifts(page):
    """Note from now on how far parts of the page jump. `shifts` gives the sum, and the parts."""
    page.evaluate(
        """() => {
          window.shifts = [0, []];
          new PerformanceObserver((list) => {
            for (const { value, hadRecentInput, sources } of list.getEntries()) {
              if (hadRecentInput) continue;
              window.shifts[0] += value;
              window.shifts[1].push(...sources.map(({ node }) => node?.outerHTML?.slice(0, 80)));
            }
          }).observe({ type: "layout-shift" });
        }"""
    )


def shifts(page):
    return page.evaluate("window.shifts")


def frame_code(page):
    """Copy the HTML of a frame that shows the run on another page."""
    page.locator("#replay summary").click()
    page.get_by_role("button", name="Embed").click()
    page.get_by_role("button", name="copied").wait_for()
    return page.evaluate("navigator.clipboard.readText()")


def shows(page, selector, text):
    """Wait until an element holds this text."""
    holds = "([selector, text]) => document.querySelector(selector)?.textContent.includes(text)"
    page.wait_for_function(holds, arg=[selector, text])


def serious_findings(page, context=None):
    """Serious or critical findings of axe-core on a page, or within a selector of it: rule and places.

    A colour in transition has too little contrast, so the function first waits for all transitions to end.
    Hidden tabs are left out: axe would spend half of its time on finding out that they are hidden.
    """
    from axe_playwright_python.sync_playwright import Axe

    page.wait_for_function(
        """document.getAnimations().every(({ playState, effect }) =>
          playState !== "running" || effect.getComputedTiming().endTime === Infinity)"""
    )
    part = {"include": [[context or "html"]], "exclude": [["#tabs > [role=tabpanel][hidden]"]]}
    return [
        (violation["id"], [(node["target"], node["html"]) for node in violation["nodes"]])
        for violation in Axe().run(page, part).response["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


# Puts one token of each kind into each text. If a text is visible, all these tokens must be.
_HIDDEN = """(kinds) => {
  const all = [...document.querySelectorAll(".story, .text, .tokens")];
  const texts = all.filter((text) => text instanceof HTMLElement && text.checkVisibility());
  const hidden = [];
  for (const text of texts)
    for (const kind of kinds) {
      const token = document.createElement("span");
      token.className = `token ${kind}`;
      token.textContent = "word";
      text.append(token);
      if (!token.checkVisibility()) hidden.push([text.closest("[id]").id, text.className, kind]);
      token.remove();
    }
  return hidden;
}"""


def hidden_tokens(page):
    """The kinds of tokens that are hidden in a visible text: the text's place, its classes, and the kind."""
    kinds = ["accepted", "bonus", "residual", "correction", "sampled", "rejected"]
    return page.evaluate(_HIDDEN, kinds)


# Points at everything that is visible. It records the definitions that appear, and the terms without a dotted
# line.
_POINT = """async () => {
  const loaded = performance.getEntriesByType("resource").map(({ name }) => name);
  const { MODULES } = await import(loaded.find((name) => name.endsWith("/main.js")));
  const { TERMS } = MODULES["shared/glossary.js"];
  const terms = new Map(Object.entries(TERMS).map(([term, sentence]) => [sentence, term]));
  const note = document.querySelector(".term-note");
  const tab = document.querySelector("#tabs > [role=tabpanel]:not([hidden])");
  const [found, plain] = [new Set(), new Set()];
  const marked = [...tab.querySelectorAll("[data-term]")]; // first: others change what is said
  for (const element of new Set([...marked, ...tab.querySelectorAll("*")])) {
    if (element.children.length > 0 && !element.matches("[data-term]")) continue;
    if (!element.checkVisibility()) continue;
    element.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
    if (note.hidden) continue;
    const term = terms.get(note.textContent);
    found.add(term);
    const lines = [];
    for (let at = element; at !== tab; at = at.parentElement)
      lines.push(getComputedStyle(at).textDecorationLine);
    if (lines.every((line) => line === "none") && !element.matches("input, select, option")) plain.add(term);
  }
  return [[...found], [...plain]];
}"""


def pointed_at(page):
    """The explained terms that are visible on the open tab, and those of them without a dotted line."""
    return page.evaluate(_POINT)
