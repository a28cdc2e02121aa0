"""A text is shown completely: no token of it is hidden, in every mode, tab and method."""

import pytest

from tests.browser.test_browser_states import REST
from tests.conftest import go

TABS = [tab for tab in REST if tab not in ("experiments", "payoff")]  # tabs that have no such texts
MODES = {
    "page": ("", (1280, 900), TABS),
    "phone": ("", (390, 844), TABS),
    "projector": ("&projector=1", (1280, 720), TABS),
    "lesson": ("&projector=1&lesson=acceptance&step=2", (1280, 720), ["race"]),
}
# Puts one token of each kind into each text. If a text is visible, all these tokens must be.
HIDDEN = """(kinds) => {
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
  return [texts.length, hidden];
}"""
KINDS = ["accepted", "bonus", "residual", "correction", "sampled", "rejected"]


@pytest.mark.parametrize("mode", MODES)
def test_no_token_of_a_text_is_hidden(blank, url, mode):
    query, (width, height), tabs = MODES[mode]
    blank.set_viewport_size({"width": width, "height": height})
    texts = 0
    for tab in tabs:
        go(blank, f"{url}/?tab={tab}{query}")
        blank.wait_for_selector(REST[tab], state="attached")
        count, hidden = blank.evaluate(HIDDEN, KINDS)
        assert hidden == [], tab
        texts += count
    assert texts >= len(tabs) / 2
