"""A text is shown whole: no token of it is hidden, whatever the mode, the tab and the method."""

import pytest

from tests.browser.test_browser_states import REST
from tests.conftest import go

TABS = [tab for tab in REST if tab not in ("experiments", "payoff")]  # which have no such texts
MODES = {
    "page": ("", (1280, 900), TABS),
    "phone": ("", (390, 844), TABS),
    "projector": ("&projector=1", (1280, 720), TABS),
    "lesson": ("&projector=1&lesson=acceptance&step=2", (1280, 720), ["race"]),
}
# One token of each kind is put into each text there is; of a text that is in sight all must be in sight.
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
