"""The statistics of a run: tokens per target call, acceptance by child index, and measured speed."""

from __future__ import annotations

from typing import Any

from components.page import frame
from components.runs import lazy, run
from components.server.standalone import alone


def _tile(title: str, name: str) -> str:
    note = f'<dd class="note {name}-note"></dd>'
    return f'<div><dt>{title}</dt><dd class="{name}">–</dd>{note}</div>'


def _table(name: str, caption: str, *columns: str) -> str:
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    return f"""<table class="{name}"><caption>{caption}</caption>
      <thead><tr>{head}</tr></thead><tbody></tbody></table>"""


_OPTIMUM = f"accepted, of the {frame.term('optimum')}"
_ACCEPTANCE = f"{frame.term('acceptance', 'Acceptance')} by {frame.term('child index')}"
_CANDIDATES = "The fastest tree of each k, measured on this machine; ★ has the most tokens per second"
_EFFICIENCY = frame.term("block efficiency", "tokens per call of the large model")
_TEMPLATE = f"""
<section aria-labelledby="statistics-title">
  <h2 id="statistics-title" class="visually-hidden">Statistics</h2>
  <div class="main-figure">
    <p><b class="efficiency">–</b> {_EFFICIENCY}</p>
    <div class="against" role="img" aria-label="Against one token per target call"><i></i></div>
    <p class="note"><span class="efficiency-note"></span> <a href="?lesson=faster">Why is it faster?</a></p>
  </div>
  <details class="all"><summary>All statistics</summary>
    <dl class="tiles">
      {_tile("tokens per second, this run", "speed")}
      {_tile(f"tokens per second, {frame.term('plain')}", "baseline")}
      {_tile(_OPTIMUM, "optimum")}
    </dl>
    <div class="columns">
      {_table("acceptance", _ACCEPTANCE, "index", "accepted", "share")}
      {_table("sources", "Where the tokens came from", "kind", "tokens", "share")}
      {_table("seconds", "Where the time went", "stage", "per round", "share")}
    </div>
    <ul class="models"></ul>
    <details class="choice" hidden><summary></summary>
      <div class="figure" role="img"></div>
      {_table("candidates", _CANDIDATES, "k", "tokens", "draft ms", "target ms", "rest ms", "tokens/s")}
    </details>
  </details>
</section>
"""


def panel(pair: Any = None) -> frame.Part:
    """The statistics panel. If a pair is loaded, the panel names its models before the first run."""
    known = pair is not None and lazy.is_loaded(pair)
    return frame.panel("statistics", _TEMPLATE, models=run.models(pair) if known else [])


if __name__ == "__main__":
    alone(panel)
