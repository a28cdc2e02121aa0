"""The paper's experiments on the page: its figures and findings, from the shipped results or a visitor's.

The panel asks the server for views: plain data that `assets/js/experiments_lab.js` draws.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from components import experiment_figures as figures
from components import experiment_files as files
from components import experiment_words as words
from components import page, paper, routes, summaries
from components.figures import skeleton
from components.questions import Answer, Question, answers

NO_RESULTS = (
    "This copy has no shipped results. Run python -m specdec.experiments, then open its results file here."
)
_NOT_WHOLE = "The experiment was not finished: these are its numbers so far."
_MARKS = "Marks: measured, with 95% intervals. Dotted lines: predicted from R. Grey lines: upper bounds."

_RESULTS = f"{routes.API}/results"
"""Where a visitor's file is sent: `components.summaries` asks `opened` about it in another process."""

View = dict[str, Any]

_TEMPLATE = f"""
<section aria-labelledby="experiments-title">
  <header>
    <h2 id="experiments-title">Experiments</h2>
    <div class="choices" role="radiogroup" aria-label="Method"></div>
    <label class="file">Own results <input type="file" accept=".json,.jsonl"></label>
    <button type="button" class="step shipped" hidden>Shipped results</button>
  </header>
  <p class="lead">Tokens per target call, measured beside theory: how much each way of drafting gains from
    more drafted tokens k. The figures are those of the paper, {paper.reference("Section 5")}.</p>
  <p class="about"></p>
  <p class="message" role="alert" hidden></p>
  <div class="plots"></div>
  <div class="findings" hidden>
    <h3>The paper's findings, checked against these numbers</h3>
    <table>
      <caption>Intervals are 95%, clustered by prompt.</caption>
      <thead><tr><th scope="col">verdict</th><th scope="col">finding</th><th scope="col">numbers</th>
        <th scope="col">paper</th></tr></thead>
      <tbody></tbody>
    </table>
  </div>
</section>
"""


def panel() -> gr.HTML:
    """The laboratory; it needs no model and fetches its first view when it is shown."""
    routes.add(_RESULTS, "results", summaries.answer)
    return page.panel(
        "experiments_lab",
        _TEMPLATE,
        server_functions=[shipped],
        plotly=page.file_url(page.PLOTLY),
        opened=_RESULTS.removeprefix("/"),
    )


class File(Question):
    """A file that a visitor chose. name: only to speak of it."""

    name: str = "file"
    text: str


@answers
def shipped(_: Any) -> Answer:
    """The view of the committed results, or an error where there are none."""
    summary = files.shipped()
    if summary is None:
        raise ValueError(NO_RESULTS)
    return view(summary)


@answers
def opened(file: File) -> Answer:
    """The view of a visitor's file; what does not fit in it is told with its name."""
    try:
        return view(files.read(file.text))
    except ValueError as error:
        raise ValueError(f"{file.name:.80}: {error}") from None


def view(summary: words.Summary) -> View:
    """Everything that is shown of one summary."""
    methods = [method for method in figures.METHODS if method in summary["acceptance"]]
    of_method = [figure(summary, method) for method in methods for figure in (_tokens, _increments)]
    return {
        "about": words.title(summary),
        "note": "" if summary["complete"] else _NOT_WHOLE,
        "methods": [[method, figures.METHODS[method][0]] for method in methods],
        "figures": [*of_method, _acceptance(summary), *([_difference(summary)] if len(methods) > 1 else [])],
        "findings": words.findings(summary),
    }


def _tokens(summary: words.Summary, method: str) -> View:
    return {
        "id": "tokens",
        "method": method,
        "title": "Tokens per target call against k",
        "place": "Paper: Figure 3; bounds of Lemma 4.2, Theorem 4.1 in the table",
        "sentence": words.about_tokens(summary, method),
        "key": _MARKS,
        "figure": skeleton(figures.tokens_against_k(summary, method)),
        "table": words.tokens_table(summary, method),
    }


def _increments(summary: words.Summary, method: str) -> View:
    return {
        "id": "increments",
        "method": method,
        "title": "What one more drafted token adds",
        "place": "Paper: Figure 4; bound of Lemma 4.2 with m fixed",
        "sentence": words.about_increments(summary, method),
        "key": f"{_MARKS} What is 0 or less has no place on a logarithmic axis: see the table.",
        "figure": skeleton(figures.increments_against_k(summary, method)),
        "table": words.increments_table(summary, method),
    }


def _acceptance(summary: words.Summary) -> View:
    return {
        "id": "acceptance",
        "method": None,
        "title": "Acceptance by child index, R",
        "place": "Paper: Figure 4, batch; R of Section 4, Equation 3; Lemma 3.1 for index 0",
        "sentence": words.about_acceptance(summary),
        "key": "Marks: counted in batch runs, with 95% intervals. Lines: R as used. "
        "Dotted lines: computed from the models' laws.",
        "figure": skeleton(figures.acceptance_by_index(summary)),
        "table": words.acceptance_table(summary),
    }


def _difference(summary: words.Summary) -> View:
    return {
        "id": "difference",
        "method": None,
        "title": "GSD minus ERSD",
        "place": "Paper: Section 5 and Lemma 3.1, in words",
        "sentence": words.about_difference(summary),
        "key": "Above 0, GSD yields more; on the same prompts and seeds, with 95% intervals.",
        "figure": skeleton(figures.gsd_minus_ersd(summary)),
        "table": words.difference_table(summary),
    }


if __name__ == "__main__":
    with gr.Blocks(title="Experiments") as blocks:
        panel()
    page.launch(blocks)
