"""A laboratory for one position: two distributions that the visitor sets, one race, and ten thousand races.

The exact values and the simulated races come from `specdec`, through two server functions without a model.
The race that is drawn and dragged is decided in the browser (`assets/race_lab/panel.js`).
"""

from __future__ import annotations

import secrets
from dataclasses import asdict
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from components.page import assets, frame
from components.page.paper import reference
from components.page.questions import Answer, Question, answers
from components.race_lab.presets import presets
from specdec import theory
from specdec.figures import drafts, labs, looks
from specdec.methods import METHODS
from specdec.race import Stream, log_exponentials
from specdec.stats import IndexAcceptance
from specdec.theory.trials import ersd_accepted_indices, gsd_accepted_indices

RACES = 10_000
FEWEST, MOST = 2, 8
"""Least and most tokens in a race. They are few, so that a visitor can set each probability."""
_CHECKPOINTS = 60


class Pair(Question):
    """The target's and the draft's probabilities of each token."""

    p: Annotated[list[float], Field(min_length=FEWEST, max_length=MOST)]
    q: Annotated[list[float], Field(min_length=FEWEST, max_length=MOST)]


class Simulation(Pair):
    """The probabilities and the seed of the races. Without a seed, one is drawn."""

    seed: Annotated[int, Field(ge=0, lt=2**53)] | None = None


@answers
def exact(pair: Pair) -> Answer:
    """What the theory says about p and q.

    ersd, gsd: acceptance of the first draft. apart: how often two races with independent noise agree. tv,
    harmonic, tv_bound, kl (null if infinite): quantities that bound the acceptance. by_index: R(0), R(1), ...
    of both methods, one entry for each token. drafts: see `drafts.accepted`.
    """
    return _exact(*theory.divergences.checked_pair(pair.p, pair.q))


def _exact(p: Tensor, q: Tensor) -> Answer:
    kl = float(theory.kl_divergence(p, q))
    return {
        "tv": float(theory.total_variation(p, q)),
        "harmonic": float(theory.harmonic_mean_similarity(p, q)),
        "tv_bound": float(theory.ersd_total_variation_bound(p, q)),
        "kl": kl if kl < float("inf") else None,
        "ersd": float(theory.ersd_acceptance(p, q)),
        "gsd": float(theory.gsd_acceptance(p, q)),
        "apart": float(p @ q),
        "by_index": {
            "ersd": theory.ersd_acceptance_by_index(p, q, len(p)).tolist(),
            "gsd": theory.gsd_acceptance_by_index(p, q, len(p)).tolist(),
        },
        "drafts": drafts.accepted(p, q),
    }


@answers
def simulated(simulation: Simulation) -> Answer:
    """Simulate 10,000 races under p and q with both methods, to compare them with the values of `exact`.

    Both methods verify the same drafts. GSD's tests use independent uniform numbers. measured has for each
    method `running`, rows [races, rate, low, high] of the first draft's acceptance, and `by_index`, the same
    rows for each child index. Intervals are Wilson's, 95%.
    """
    p, q = theory.divergences.checked_pair(simulation.p, simulation.q)
    seed = secrets.randbits(31) if simulation.seed is None else simulation.seed
    indices = accepted_indices(p, q, RACES, seed)
    measured = {name: _counted(accepted, len(p)) for name, accepted in indices.items()}
    return _exact(p, q) | {"seed": seed, "races": RACES, "measured": measured}


def accepted_indices(p: Tensor, q: Tensor, races: int, seed: int) -> dict[str, Tensor]:
    """The index of the accepted child in each race, by method: int64 [races], with len(p) where no child was
    accepted."""
    size = len(p)
    log_e = log_exponentials(seed, [0], races * size).reshape(races, size)
    noise = log_exponentials(seed, [0], races * size, stream=Stream.ACCEPT).reshape(races, size)
    uniforms = torch.exp(-noise.exp())  # exp(-e) is uniform if e is exponential
    return {
        "ersd": ersd_accepted_indices(p, q, log_e),
        "gsd": gsd_accepted_indices(p, q, log_e, uniforms),
    }


def _counted(indices: Tensor, size: int) -> dict[str, Any]:
    first = (indices == 0).long().cumsum(0).tolist()
    counts = torch.bincount(indices, minlength=size)[:size].tolist()
    return {
        "running": [[n, *_rate(first[n - 1], n)] for n in checkpoints(len(indices))],
        "by_index": [_rate(count, len(indices)) for count in counts],
    }


def _rate(accepted: int, offered: int) -> list[float]:
    counted = IndexAcceptance(0, accepted, offered)
    return [counted.rate, *counted.interval()]


def checkpoints(races: int) -> list[int]:
    """The numbers of races at which the running rate is shown. They are evenly spaced on a logarithmic
    axis."""
    return sorted({round(races ** (i / (_CHECKPOINTS - 1))) for i in range(_CHECKPOINTS)})


_RACE_TABLE = frame.table("The race, token by token", "token", "p", "q", "e", "e / q", "e / p")
_RESIDUAL_TABLE = frame.table(
    f"After a rejection: the {frame.term('residual')}", "token", "p", "q", "max(p − q, 0)", "residual"
)
_INDEX_TABLE = frame.table(
    "Acceptance by child index, measured with 95% intervals",
    *("index", "ERSD, exact", "ERSD, measured", "GSD, exact", "GSD, measured"),
)

_DRAFTS_TABLE = frame.table(
    "One of n drafts accepted, exact",
    *("n", *(METHODS[name].name for name in drafts.RULES), *(name for name, _ in drafts.OPTIMA.values())),
)

_TEMPLATE = f"""
<div class="lab race">
  <section class="card drawn" data-slide="One race" aria-labelledby="lab-race-title">
    <header><h2 id="lab-race-title">One {frame.term("race")}, run twice</h2>
      <button type="button" class="reroll">Draw a new race</button></header>
    <p>Each token has one random number e, the same for both models. It {frame.term("arrival", "arrives")} at
    e&nbsp;/&nbsp;q under the draft and at e&nbsp;/&nbsp;p under the target, so likelier tokens tend to
    arrive earlier.
      Drag a ring to change its e. {reference("Paper, Figure 2 and Algorithm 2")}.</p>
    <p class="verdict" aria-live="polite"></p>
    <svg class="lanes" role="group" aria-label="Arrival times"></svg>
    <footer>
      <ul class="legend keys" aria-label="Marks">
        <li><i class="ring">○</i>e, shared</li>
        <li><i class="swatch draft"></i>e / q, draft</li>
        <li><i class="swatch target"></i>e / p, target</li>
        <li><i class="winner draft">◆</i>first of the draft</li>
        <li><i class="winner target">★</i>first of the target</li>
      </ul>
      <details class="race-table"><summary>As a table</summary>{_RACE_TABLE}</details>
    </footer>
  </section>

  <section class="card distributions" data-slide="One race" aria-labelledby="lab-distributions-title">
    <header><h2 id="lab-distributions-title">Two distributions</h2></header>
    <p>P is the target's distribution of the next token, Q is the draft's. If you move a slider, the other
    probabilities of that distribution are scaled, so that their sum stays 1.
    {reference("Paper, Section 3")}.</p>
    <div class="presets"><label>Example <select></select></label>
      <button type="button" class="from-run" disabled>From the Decode tab</button></div>
    <p class="note preset-note" aria-live="polite"></p>
    <div class="tokens"></div>
    <div class="buttons"><button type="button" class="add">Add a token</button></div>
    <p class="error-box lab-error" role="alert" hidden></p>
  </section>

  <section class="card gsd" data-slide="One race" aria-labelledby="lab-gsd-title">
    <header><h2 id="lab-gsd-title">{frame.term("GSD")} on the same draft</h2>
      <button type="button" class="reroll-u">Draw a new u</button></header>
    <p>Greedy speculative decoding takes the same drafted token but tests it with a random number u of its
      own: accepted when u &lt; p / q. {reference("Paper, Algorithm 1")}.</p>
    <p class="verdict" aria-live="polite"></p>
    <div class="test"><div class="zone" aria-hidden="true"><span class="accept"></span></div>
      <label>u <input type="range" min="0" max="1" step="0.001"><output></output></label></div>
    <div class="residual">{_RESIDUAL_TABLE}</div>
  </section>

  <section class="card many wide" data-slide="{RACES:,} races" aria-labelledby="lab-many-title">
    <header><h2 id="lab-many-title">{RACES:,} races</h2>
      <button type="button" class="run-many primary">Run {RACES:,} races</button></header>
    <p>The share of races in which the first draft is accepted approaches its exact value, which lies between
      its bounds. GSD accepts the first draft at least as often as ERSD; ERSD accepts the next children more
      often.
      {reference("Paper, Lemma 3.1 with equations 1 and 2")}; the other lower bound,
      (1 − TV) / (1 + TV), is not in the paper.</p>
    <dl class="tiles">
      <div><dt>{frame.term("ERSD")}, exact</dt>
        <dd class="ersd-exact">–</dd><dd class="note ersd-measured"></dd></div>
      <div><dt>GSD, exact = 1 − {frame.term("TV")}</dt>
        <dd class="gsd-exact">–</dd><dd class="note gsd-measured"></dd></div>
      <div><dt>lower bounds of ERSD</dt><dd class="bounds">–</dd><dd class="note bounds-note"></dd></div>
      <div class="apart-tile"><dt>without shared e: Σ p q</dt><dd class="apart">–</dd>
        <dd class="note">two races with independent random numbers</dd></div>
    </dl>
    <p class="outcome" role="status"></p>
    <div class="pair">
      <figure><figcaption>First draft accepted, by races; dashed: exact; bands: 95% intervals</figcaption>
        <div class="legend convergence-legend"></div>
        <div class="plot convergence" role="group" aria-label="Acceptance against races"></div></figure>
      <figure><figcaption>Which child is accepted, by its index in the draft's order</figcaption>
        <div class="legend by-index-legend"></div>
        <div class="plot by-index" role="group" aria-label="Acceptance by child index"></div></figure>
    </div>
    <details class="index-table"><summary>As a table</summary>{_INDEX_TABLE}</details>
  </section>

  <section class="card drafts wide" data-slide="Several drafts" aria-labelledby="lab-drafts-title">
    <header><h2 id="lab-drafts-title">Several drafts, and the {frame.term("optimum")}</h2></header>
    <p>How often one of n drafts is accepted. ERSD and GSD take the first n arrivals of the draft's race,
      without replacement; SpecInfer and SpecTr draw n times independently, and may draw a token twice. Each
      kind of draft has its own optimum, and no rule accepts more. How to close the gap between it and the
      best rule is an open problem. This is not in the paper.</p>
    <p class="outcome" role="status"></p>
    <figure><figcaption>One of n drafts accepted, exact</figcaption>
      <div class="legend"></div>
      <div class="plot" role="group" aria-label="Acceptance against the number of drafts"></div></figure>
    <details><summary>As a table</summary>{_DRAFTS_TABLE}</details>
  </section>
</div>
"""


def panel() -> frame.Part:
    """The race laboratory: one element that `assets/race_lab/panel.js` fills."""
    return frame.panel(
        "race_lab",
        _TEMPLATE,
        functions=[exact, simulated],
        presets=[asdict(preset) for preset in presets()],
        convergence=looks.skeleton(labs.convergence()),
        by_index=looks.skeleton(labs.by_index()),
        drafts=looks.skeleton(drafts.figure()),
        plotly=assets.file_url(assets.PLOTLY),
    )
