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
"""The name of the set-up that an address changes if it gives values but names no set-up."""
_SHAPES = {
    "best": "the best tree of each k",
    "sequence": "a sequence",
    "batch": "alternatives for one position",
}

_Rate = Annotated[float, Field(ge=0.01, le=1)]
_Calls = Annotated[float, Field(ge=0, le=4)]
_Times = Annotated[float, Field(ge=1, le=1000)]


class Asked(Question):
    """A question: the name of a set-up to start from, and values that replace those of the set-up, as in
    `specdec.payoff.changed`; None keeps the set-up's value.

    begins: whether to measure this server's pair if it was not measured yet.
    """

    preset: str
    begins: bool = True
    acceptance: _Rate | None = None
    draft_step: _Calls | None = None
    rows: Annotated[list[_Times], Field(min_length=len(ROWS), max_length=len(ROWS))] | None = None
    rest: _Calls | None = None
    texts: Annotated[int, Field(ge=1, le=MOST_TEXTS)] | None = None
    shape: Literal["best", "sequence", "batch"] | None = None


def answering(pair: Pair) -> Callable[[Any], Answer]:
    """Makes the panel's server function. pair: the pair that the page uses."""

    measurement = Measurement(pair)

    @answers
    def verdict(question: Asked) -> Answer:
        """Compute what drafting gains in a set-up. The answer has these fields.

        values: the values that were used, by the names of `Asked`. curve: rows of k, tokens per call and
        speed-up. source: where the numbers of the set-up are from. During a measurement the answer has only
        `measuring`, the progress, and the page repeats its question after a second. If the server's pair was
        not measured and `begins` is false, the answer has only `unknown`.
        """
        among("preset", question.preset, [HERE, *presets()])
        if question.preset == HERE:
            if not (question.begins or measurement.is_known):
                return {"unknown": True}
            if (result := _measured_here(measurement)) is None:
                return {"measuring": measurement.progress}
            setup, source = result
        else:
            setup, source = presets()[question.preset].setup, presets()[question.preset].source
        changes = question.model_dump(exclude={"preset", "begins"})
        setup = changed(setup, **changes)
        payoff = Payoff.of(setup)
        values = {name: getattr(setup, name) for name in changes}
        values["acceptance"] = float(setup.acceptance[0])
        return payoff._asdict() | {"values": values, "source": source, "sentences": payoff.sentences()}

    return verdict


def _measured_here(measurement: Measurement) -> tuple[SetUp, str] | None:
    """The measured set-up of this server's pair and a sentence about its source, or None while it is
    measured. ValueError if it cannot be measured.

    The function does not wait until the pair is loaded, because a download can take minutes.
    """
    pair = measurement.pair
    if not lazy.is_loaded(pair):
        raise ValueError("The models of this server are still being loaded; try again later")
    loaded_pair = lazy.present(pair)
    if not isinstance(loaded_pair, ModelPair):
        raise ValueError(
            "The models of this server run on another machine and are not measured; choose another set-up"
        )
    if loaded_pair.draft is None:
        raise ValueError(
            "This pair drafts by copying from the text, so its gain depends on the text. Watch shows the "
            "gain of a run"
        )
    if (setup := measurement.ask(loaded_pair)) is None:
        return None
    draft = short(loaded_pair.draft.name)
    return setup, (
        f"Measured on this computer, once for each pair: {short(loaded_pair.target.name)} with {draft}, ERSD "
        "at temperature 1. The acceptance is from texts after fixed prompts, and the times are from the "
        "rounds of these texts on a few trees."
    )


def panel(pair: Pair, allowed: Access | None = None, loading: Loading | None = None) -> frame.Part:
    """The panel, which `assets/payoff/panel.js` fills, beside the panel of the models. allowed: the models
    that may be loaded. loading: the load whose progress the page shows."""
    pair = lazy.shared(pair)
    payoff = frame.panel(
        "payoff",
        frame.template("payoff/panel", rows=ROWS, most_texts=MOST_TEXTS, shapes=_SHAPES),
        functions=[answering(pair)],
        presets=[[HERE, "these two models, here"], *([each.id, each.name] for each in presets().values())],
        here=HERE,
        example=_EXAMPLE,
        curve=looks.skeleton(labs.payoff()),
        plotly=assets.file_url(assets.PLOTLY),
    )
    return frame.box("pay", models.panel(pair, allowed or Access(), loading), payoff, class_="lab")
