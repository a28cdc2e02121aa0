"""The lecturer's side: opens a room beside the lessons, and shows the room above every tab."""

from __future__ import annotations

from typing import Annotated

import segno
from pydantic import Field

from components.classroom import student
from components.classroom.web import Hall
from components.page import frame, questions
from specdec.pair import Pair

_TAB = """
<details class="teach"><summary>Teach</summary>
<section aria-labelledby="teach-title">
  <div class="closed">
    <h2 id="teach-title">With a class</h2>
    <p>Students answer on their own phones, without names or accounts. Each browser counts as one student.
    You choose the question and show the right answer with the class's answers beside it.</p>
    <button type="button" class="open" disabled>Open a room</button>
  </div>
  <div class="opened" hidden>
    <h2>Your class</h2>
    <p><strong class="code"></strong> <span class="here" role="status"></span></p>
    <div class="acts">
      <button type="button" class="code-shown">Show the code</button>
      <button type="button" class="draft">Be the draft</button>
      <button type="button" class="clear" title="Sends all students away; they can join again"
        >Clear the room</button>
      <button type="button" class="end">Close the room</button>
    </div>
  </div>
  <p class="message error-box" role="alert" hidden></p>
</section></details>
"""

_BAR = """
<dialog class="class-join" aria-labelledby="class-join-title">
  <button type="button" class="close" aria-label="Close">×</button>
  <div class="qr" role="img" aria-label="QR code of the link"></div>
  <div class="how">
    <h2 id="class-join-title">Join the class</h2>
    <p>Scan the code, or open</p>
    <p class="link"></p>
    <p>and enter</p>
    <p class="code"></p>
    <p class="here" role="status"></p>
    <p class="note local" hidden>This address works on this machine only. Start the server with
      <code>--host 0.0.0.0</code> and open the page at the address that it prints for others.</p>
  </div>
</dialog>
<dialog class="class-draft" aria-labelledby="class-draft-title">
  <button type="button" class="close" aria-label="Close">×</button>
  <header><h2 id="class-draft-title">You are the draft</h2><p class="room"></p></header>
  <p class="lead">The target checks your most frequent guesses as one tree.
    <span class="token accepted">Amber</span> tokens are yours, <span class="token correction">blue</span>
    ones the target's. Your guesses don't change the text.</p>
  <form class="begin">
    <label>The text begins
      <input type="text" maxlength="400" value="Once upon a time, there was a little"></label>
    <button type="submit">Begin</button>
  </form>
  <div class="drafting" hidden>
    <p class="text" aria-live="polite"></p>
    <div class="asking"><p class="answered" role="status"></p>
      <button type="button" class="verify">Let the target check</button>
      <button type="button" class="next-round">Next word</button></div>
    <div class="result"></div>
    <div class="scores" hidden></div>
  </div>
  <p class="message error-box" role="alert" hidden></p>
</dialog>
"""


class _Link(questions.Question):
    link: Annotated[str, Field(pattern=r"^https?://[\x21-\x7e]{1,280}$")]


@questions.answers
def qr(asked: _Link) -> questions.Answer:
    """A link as a QR code: the width in modules, and the dark modules as an SVG path."""
    code = segno.make(asked.link, error="m", micro=False)
    dark = [(x, y) for y, row in enumerate(code.matrix) for x, module in enumerate(row) if module]
    return {"size": len(code.matrix), "path": "".join(f"M{x} {y}h1v1h-1z" for x, y in dark)}


def bar(pair: Pair) -> frame.Part:
    """The join code for the projector, and the class as the draft."""
    Hall(pair).open_routes(student.page)
    return frame.panel("class_bar", _BAR, functions=[qr])


def panel() -> frame.Part:
    """The part of the lessons' tab in which the lecturer opens and closes a room."""
    return frame.panel("classroom", _TAB)
