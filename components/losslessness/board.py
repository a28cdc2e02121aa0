"""The board of audited engines below the check, from the recorded audits (`assets/results/audit.json`)."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from components.losslessness.faults import CASES, FAULT_WORDS
from components.page.assets import ASSETS

_AUDITS, _REPEATS = (ASSETS / "results" / f"{name}.json" for name in ("audit", "repeats"))
_WAYS = ("repeated", "without a draft", "in a batch of 8", "in bfloat16")
_MARKS = {"no difference found": "✓", "wrong": "✗", "in doubt": "?"}


def board() -> str:
    """The card with a row for each audit, which opens to its counts. Below are known cases of such
    mistakes."""
    audits, repeats = (json.loads(results.read_text()) for results in (_AUDITS, _REPEATS))
    texts = max(row["of"] for row in repeats.values())
    rows = "".join(_row(name, audit) for name, audit in audits.items())
    cases = "".join(
        f"<li><b>{escape(FAULT_WORDS[fault][0])}</b>: {escape(words)} "
        f'<a href="{escape(url)}" target="_blank" rel="noopener">{escape(label)}</a></li>'
        for fault, label, url, words in CASES
    )
    return f"""
  <section class="card board" aria-labelledby="lossless-board-title">
    <header><h2 id="lossless-board-title">Whose sampled text is right?</h2></header>
    <p>Each engine wrote thousands of short texts of a small random model, and their counts were compared with
      the model's exact probabilities. “None found” means that the engine has no deviation of the size in the
      third column or more. Smaller deviations would go unnoticed. Open a row for its counts.</p>
    <div class="row head" aria-hidden="true"><span>engine, setting</span><span>verdict</span><span>smallest
      deviation it would find</span><span>seeds repeat</span><span>tokens per call</span></div>
    {rows}
    <h3>The same seed, the same text?</h3>
    <p>How many of {texts} texts stay the same if they are decoded again with their seed, without the draft,
    as the first of eight texts in a batch, or in bfloat16 instead of float32. A dash: not tested or not
    possible.</p>
    <div class="scroll" tabindex="0" role="region" aria-label="Texts that agree">{_agreeing(repeats)}</div>
    <h3>Mistakes of these kinds in released systems</h3>
    <ul class="cases">{cases}</ul>
  </section>"""


def _agreeing(rows: dict[str, dict[str, Any]]) -> str:
    """A table that says how many texts of a seed stay the same."""
    cells = {name: "".join(f"<td>{row.get(way, '–')}</td>" for way in _WAYS) for name, row in rows.items()}
    body = "".join(f"<tr><th scope='row'>{escape(name)}</th>{row}</tr>" for name, row in cells.items())
    heads = "".join(f"<th>{escape(way)}</th>" for way in _WAYS)
    return f"<table><thead><tr><th>engine</th>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _row(name: str, audit: dict[str, Any]) -> str:
    """One audit: a summary that opens to its details."""
    trial, verdict = audit["trials"][0], audit["verdict"]
    again, tried = audit["reproduced"]
    per_call = audit["tokens_per_call"]
    cells = (
        name,
        f"{_MARKS[verdict]} {'none found' if verdict == 'no difference found' else verdict}",
        f"{trial['evidence'][0]['would_find']:.3f}",
        f"{again} of {tried}",
        "–" if per_call is None else f"{per_call:.2f}",
    )
    summary = "".join(f"<span>{escape(cell)}</span>" for cell in cells)
    versions = ", ".join(f"{package} {version}" for package, version in audit["versions"].items())
    least = ", again ".join(
        f"{min(each['p_value'] for each in run['evidence']):.1g}" for run in audit["trials"]
    )
    counts = "".join(
        f"<tr><th scope='row'>{escape(each['outcome'])}</th><td>{each['probability']:.4f}</td>"
        f"<td>{each['seen'] / each['of']:.4f}</td><td>{each['seen']:,} of {each['of']:,}</td></tr>"
        for each in sorted(trial["deviations"], key=lambda each: -each["probability"])
    )
    return f"""
    <details class="engine {"wrong" if verdict == "wrong" else ""}"><summary class="row">{summary}</summary>
      <p>Rule: {escape(audit["rule"])}. {escape(versions)}, {escape(audit["date"])};
        {escape(audit["model"])}. Smallest p-value {least}; {trial["impossible"]:,} of {trial["decodes"]:,}
        texts hold an impossible token.</p>
      <div class="scroll" tabindex="0" role="region" aria-label="Counts of {escape(name)}"><table>
        <caption>First two tokens whose counts are furthest from their probability</caption>
        <thead><tr><th>tokens</th><th>exact</th><th>written</th><th>texts</th></tr></thead>
        <tbody>{counts}</tbody></table></div>
    </details>"""
