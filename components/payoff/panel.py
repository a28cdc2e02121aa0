"""Will drafting pay? Two models are loaded and measured here, or the numbers are given by hand.

The page sends the name of a set-up and the values that the visitor changed. All numbers and sentences of the
answer come from `specdec.payoff`; `assets/payoff/panel.js` shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from components.decode import models
from components.page import assets, frame
from components.page.questions import Answer, Question, answers
from components.payoff.here import Measurement
from components.payoff.presets import HERE, presets
from components.runs import lazy
from components.server.access import Access, short
from components.server.loading import Loading
from specdec.checks import among
from specdec.figures import labs, looks
from specdec.pair import ModelPair, Pair
from specdec.payoff import Payoff, SetUp, changed
from specdec.payoff.setups import ROWS

MOST_TEXTS = 256
_EXAMPLE = "smollm2"
"""The set-up to which the changed values of an address belong if the address names none."""
_SHAPES = {
    "best": "the best tree of each k",
    "sequence": "a sequence",
    "batch": "alternatives for one position",
}

_Rate = Annotated[float, Field(ge=0.01, le=1)]
_Calls = Annotated[float, Field(ge=0, le=4)]
_Times = Annotated[float, Field(ge=1, le=1000)]


class Asked(Question):
    """A set-up: a preset's name, and the values that replace those of the preset; see `payoff.changed`."""

    preset: str
    acceptance: _Rate | None = None
    draft_step: _Calls | None = None
    rows: Annotated[list[_Times], Field(min_length=len(ROWS), max_length=len(ROWS))] | None = None
    rest: _Calls | None = None
    texts: Annotated[int, Field(ge=1, le=MOST_TEXTS)] | None = None
    shape: Literal["best", "sequence", "batch"] | None = None


def answering(pair: Pair) -> Callable[[Any], Answer]:
    """The server function of the panel for the page's pair."""

    measurement = Measurement(pair)

    @answers
    def verdict(asked: Asked) -> Answer:
        """What drafting gains.

        values: the values that were used, by the names of `Asked`. curve: rows of k, tokens per call and
        speed-up. source: where the numbers of the set-up are from. During a measurement the answer has only
        `measuring`: the progress, for a visitor who has to ask again in a second.
        """
        among("preset", asked.preset, [HERE, *presets()])
        if asked.preset == HERE:
            if (found := _measured_here(measurement)) is None:
                return {"measuring": measurement.progress}
            setup, source = found
        else:
            setup, source = presets()[asked.preset].setup, presets()[asked.preset].source
        changes = asked.model_dump(exclude={"preset"})
        setup = changed(setup, **changes)
        payoff = Payoff.of(setup)
        values = {
            "acceptance": float(setup.acceptance[0]),
            "draft_step": setup.draft_step,
            "rows": setup.rows,
            "rest": setup.rest,
            "texts": setup.texts,
            "shape": setup.shape,
        }
        return payoff._asdict() | {"values": values, "source": source, "sentences": payoff.sentences()}

    return verdict


def _measured_here(measurement: Measurement) -> tuple[SetUp, str] | None:
    """This server's pair, or None while it is measured. ValueError if that is not possible.

    The function does not wait until the pair is loaded, because a download can take minutes.
    """
    pair = measurement.pair
    if not lazy.is_loaded(pair):
        raise ValueError("The models of this server are still being loaded; try again later")
    here = lazy.present(pair)
    if not isinstance(here, ModelPair):
        raise ValueError(
            "The models of this server run on another machine and are not measured; take another set-up"
        )
    if here.draft is None:
        raise ValueError(
            "Copies from the text cost almost nothing, and their gain depends on the text. Watch a run to "
            "see it"
        )
    if (setup := measurement.ask(here)) is None:
        return None
    draft = short(here.draft.name)
    return setup, (
        f"Measured on this computer, once for each pair: {short(here.target.name)} with {draft}, ERSD "
        "at temperature 1. The acceptance is from texts after fixed prompts, and the times are from the "
        "rounds of these texts on a few trees."
    )


def _row_field(rows: int) -> str:
    return f'<label>{rows} <input type="number" name="rows" min="1" max="1000" step="any"></label>'


def _slider(name: str, words: str, most: float, least: float = 0.0) -> str:
    return f"""<label class="rate"><span>{words}</span>
      <input type="range" name="{name}" min="{least}" max="{most}" step="any"><output></output></label>"""


_SHAPE_OPTIONS = "".join(f'<option value="{name}">{words}</option>' for name, words in _SHAPES.items())
_TABLE = frame.table(
    "The fastest tree of each k",
    *(frame.term("k"), frame.term("block efficiency", "tokens per target call"), "times plain decoding"),
)
_TEMPLATE = f"""
<div class="lab payoff">
  <section class="card head" data-slide="Verdict" aria-labelledby="payoff-title">
    <h2 class="here" id="payoff-title" aria-live="polite">On this computer, with these two models: …</h2>
    <p class="note names"></p>
    <p class="buttons"><button type="button" class="measure primary" disabled>Measure</button>
      <button type="button" class="cancel" hidden>Cancel</button><progress hidden></progress>
      <span class="left"></span></p>
    <p class="error-box" role="alert" hidden></p>
  </section>

  <section class="card drawn" data-slide="Verdict" aria-labelledby="payoff-verdict">
    <header><h2 id="payoff-verdict">Verdict</h2></header>
    <div class="outcome">
    <p class="note source" aria-live="polite"></p>
    <dl class="tiles">
      <div><dt>times plain decoding</dt><dd class="speed-up">–</dd></div>
      <div><dt>best {frame.term("k")}</dt><dd class="drafted">–</dd></div>
      <div><dt>{frame.term("block efficiency", "tokens per target call")}</dt><dd class="tokens">–</dd></div>
      <div><dt>breaks even if accepted</dt><dd class="least">–</dd><dd class="note dearest"></dd></div>
    </dl>
    <ol class="sentences" aria-live="polite"></ol>
    <div class="legend"></div>
    <div class="plot curve" role="group"
      aria-label="Tokens per call and speed-up against k. A table follows."></div>
    <details><summary>As a table</summary>{_TABLE}</details></div>
  </section>

  <section class="card distributions" data-slide="Verdict" aria-labelledby="payoff-setup-title">
    <header><h2 id="payoff-setup-title">With other numbers</h2></header>
    <div class="presets"><label>Numbers of <select class="preset"></select></label></div>
    <div class="values">
    {_slider("acceptance", frame.term("acceptance") + " of the first drafted token", 1, 0.01)}
    {_slider("draft_step", "a draft step, in " + frame.term("call", "target calls"), 1.5)}
    {_slider("rest", "other work of a round, in target calls", 1)}
    <fieldset class="rows"><legend>a target call over several rows, times one row</legend>
      {"".join(map(_row_field, ROWS))}</fieldset>
    <div class="presets"><label>texts at once
        <input type="number" name="texts" min="1" max="{MOST_TEXTS}" step="1"></label>
      <label>{frame.term("topology")} <select name="shape">{_SHAPE_OPTIONS}</select></label></div>
    <p class="note">A row is one token that a call reads. Rows of several texts cost as much as the same
    number of rows of one text. Beyond the largest number in this list, each further row costs as much as the
    last ones. The other work was measured with four drafted tokens in a sequence.</p></div>
  </section>
</div>
"""


def panel(pair: Pair, allowed: Access | None = None, loading: Loading | None = None) -> frame.Part:
    """The panel, which `assets/payoff/panel.js` fills, beside the panel of the models. allowed: the models
    that may be loaded. loading: the load whose progress the page shows."""
    pair = lazy.shared(pair)
    payoff = frame.panel(
        "payoff",
        _TEMPLATE,
        functions=[answering(pair)],
        presets=[[HERE, "these two models, here"], *([each.id, each.name] for each in presets().values())],
        here=HERE,
        example=_EXAMPLE,
        curve=looks.skeleton(labs.payoff()),
        plotly=assets.file_url(assets.PLOTLY),
    )
    return frame.box("pay", models.panel(pair, allowed or Access(), loading), payoff, class_="lab")
