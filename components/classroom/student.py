"""The student's page. It is small enough for a whole class on one network and shows the lecturer's step."""

from __future__ import annotations

from functools import cache

from components.page import assets

_SHEETS = ("shared/colours", "shared/controls", "page/page", "lessons/style", "classroom/style")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Class · Speculative decoding</title>
{sheets}
<script type="module" src="{script}"></script>
</head>
<body class="of-student">
<div class="shell"><main class="panel student">
  <header><h1>Speculative decoding</h1><p class="code"></p></header>
  <form class="join" hidden>
    <label for="code">The class's code</label>
    <input id="code" type="text" autocomplete="off" autocapitalize="characters" spellcheck="false"
      maxlength="12" placeholder="ACDE FGHJ">
    <button type="submit">Join</button>
  </form>
  <p class="message error-box" role="alert" hidden></p>
  <section class="lesson" aria-label="The current step" hidden>
    <p class="place"></p>
    <h2 tabindex="-1"></h2>
    <div class="words"></div>
    <p class="text" hidden></p>
    <form class="answer" hidden>
      <fieldset><legend>Your prediction</legend><div class="options"></div></fieldset>
      <button type="submit" class="reveal">Send</button>
    </form>
    <form class="propose" hidden>
      <label for="proposal">What comes next?</label>
      <input id="proposal" type="text" autocomplete="off" autocapitalize="none" spellcheck="false"
        maxlength="24" placeholder="a word or a punctuation mark">
      <button type="submit" class="reveal">Send</button>
    </form>
    <div class="outcome" role="status"></div>
    <div class="drawn"></div>
    <p class="why"></p>
  </section>
  <footer hidden>
    <button type="button" class="back">Back</button>
    <button type="button" class="on">Next</button>
    <a class="whole" target="_blank" rel="noopener">Open in the full page</a>
    <button type="button" class="follow">Follow again</button>
  </footer>
  <noscript>This page needs JavaScript.</noscript>
</main></div>
</body>
</html>
"""


@cache
def page() -> bytes:
    """The page's HTML. Its links are relative, so it works under any address."""
    sheets = "\n".join(
        f'<link rel="stylesheet" href="{assets.file_url(assets.ASSETS / f"{name}.css")}">' for name in _SHEETS
    )
    script = assets.file_url(assets.ASSETS / "classroom" / "student.js")
    return _PAGE.format(sheets=sheets, script=script).encode()
