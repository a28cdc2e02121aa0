"""The tab "You draft": the visitor's typed words are the draft of each target call."""

from __future__ import annotations

from html import escape
from typing import Any

from components.be_draft.questions import MOST_TYPED, questions
from components.decode import text
from components.decode.controls import STORIES
from components.page import frame
from specdec.pair import Pair

LENGTH = 40
"""A story ends after this many tokens; the round in progress may add a few."""
TEMPERATURES = (0, 0.5, 1)

_OPENINGS = sorted(STORIES, key=len)
"""Openings of stories, the shortest first, because the game asks for the next word."""


def _options(choices: dict[Any, str], chosen: Any) -> str:
    return "".join(
        f'<option value="{value}"{" selected" * (value == chosen)}>{escape(words)}</option>'
        for value, words in choices.items()
    )


_STORIES = _options(dict(enumerate(_OPENINGS, 1)), 1)
_HEAT = _options({value: f"T = {value}" for value in TEMPERATURES}, 0.5)
_TEMPLATE = f"""
<div class="lab you-draft">
  <section class="card play" aria-labelledby="you-draft-title">
    <header><h2 id="you-draft-title">Type the next word</h2>
      <select class="opening" aria-label="Story">{_STORIES}</select>
      <select class="temperature" aria-label="Temperature" title="Temperature">{_HEAT}</select>
      <button type="button" class="anew">New story</button></header>
    <p class="lead">Or type the next few words: you are the draft. One {frame.term("call", "target call")}
    checks all of them, keeps the first ones that the target would have written too, and adds one token.</p>
    <div class="writing" role="region" tabindex="0" aria-label="The story so far"><span class="prompt"></span
      ><span class="tokens"></span><span class="typing" aria-hidden="true"></span></div>
    <p class="verdict" role="status"></p>
    <p class="error-box" role="alert" hidden></p>
    <form novalidate>
      <input type="text" class="typed" maxlength="{MOST_TYPED}" autocomplete="off" autocapitalize="off"
        spellcheck="false" enterkeyhint="send" aria-label="What comes next?" placeholder="Next words">
      <button type="submit" class="primary propose">Target alone</button>
      <button type="button" class="finish" disabled>The end</button>
    </form>
    {text.legend("residual")}
  </section>

  <section class="card score" aria-labelledby="you-draft-score">
    <h2 id="you-draft-score">You, the small model and n-grams</h2>
    <table><thead><tr><td></td><th scope="col">you</th><th scope="col">small model</th>
      <th scope="col">{frame.term("n-grams")}</th></tr></thead><tbody></tbody></table>
    <p class="note">Each drafts as many tokens as you typed, at the same places. Above temperature 0 the small
      model has an advantage: it uses the target’s random numbers, which you can’t know. N-grams repeat
      earlier parts of the story.</p>
  </section>

  <section class="card same" aria-labelledby="you-draft-same">
    <h2 id="you-draft-same">The text without your guesses</h2>
    <p class="outcome" role="status"></p>
    <p class="plain"></p>
  </section>
</div>
"""


def panel(pair: Pair) -> frame.Part:
    """The game. `assets/be_draft/panel.js` runs it in the browser."""
    return frame.panel(
        "be_draft",
        _TEMPLATE,
        functions=[*questions(pair)],
        openings=_OPENINGS,
        temperatures=[*TEMPERATURES],
        length=LENGTH,
    )
