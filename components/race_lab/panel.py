"""A laboratory for one position: two distributions that the visitor sets, one race, and ten thousand races.

The exact values and the simulated races come from `specdec`, through two server functions without a model.
The race that is drawn and dragged is decided in the browser (`assets/race_lab/panel.js`).
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from components.page import assets, frame
from components.page.questions import Answer, Question, answers
from specdec import theory
from specdec.figures import drafts, labs, looks
from specdec.methods import METHODS
from specdec.race import Stream, log_exponentials
from specdec.stats import IndexAcceptance
from specdec.theory.trials import ersd_accepted_indices, gsd_accepted_indices

RACES = 10_000
FEWEST, MOST = 2, 8
"""The fewest and the most tokens in a race. A race has few, so that a visitor can set each probability."""
_CHECKPOINTS = 60
_DIGITS = 12
"""Decimal places of divergences. Further digits are rounding errors, which would show P = Q as different."""


class Pair(Question):
    """A question about one position: the probabilities p of the target and q of the draft for each token."""

    p: Annotated[list[float], Field(min_length=FEWEST, max_length=MOST)]
    q: Annotated[list[float], Field(min_length=FEWEST, max_length=MOST)]


class Simulation(Pair):
    """A request to simulate races: the probabilities p and q, and a seed. Without a seed, one is drawn."""

    seed: Annotated[int, Field(ge=0, lt=2**53)] | None = None


@answers
def exact(pair: Pair) -> Answer:
    """Compute what the theory says about p and q. The answer has these fields.

    ersd, gsd: acceptance of the first draft. apart: the probability that two races with independent noise
    have the same winner. tv, harmonic, tv_bound, kl (null if infinite): quantities that bound the acceptance.
    by_index: R(0), R(1), ... of both methods, one entry for each token. drafts: see `drafts.accepted`.
    """
    return _exact(*theory.divergences.checked_pair(pair.p, pair.q))


def _exact(p: Tensor, q: Tensor) -> Answer:
    kl = float(theory.kl_divergence(p, q))
    return {
        "tv": round(float(theory.total_variation(p, q)), _DIGITS),
        "harmonic": float(theory.harmonic_mean_similarity(p, q)),
        "tv_bound": float(theory.ersd_total_variation_bound(p, q)),
        "kl": round(kl, _DIGITS) if kl < float("inf") else None,
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

    Both methods verify the same drafts. GSD's tests use independent uniform numbers. The answer's `measured`
    holds two lists for each method. `running`: [races, rate, low, high], the acceptance of the first draft
    after so many races. `by_index`: [rate, low, high] of each child index. Intervals are Wilson's, 95%.
    """
    p, q = theory.divergences.checked_pair(simulation.p, simulation.q)
    seed = secrets.randbits(31) if simulation.seed is None else simulation.seed
    indices = accepted_indices(p, q, RACES, seed)
    counts = {name: _rates(accepted, len(p)) for name, accepted in indices.items()}
    return _exact(p, q) | {"seed": seed, "races": RACES, "measured": counts}


def accepted_indices(p: Tensor, q: Tensor, races: int, seed: int) -> dict[str, Tensor]:
    """For each method, the index of the accepted child in each race: int64 [races].

    It is len(p) if no child was accepted.
    """
    size = len(p)
    log_e = log_exponentials(seed, [0], races * size).reshape(races, size)
    noise = log_exponentials(seed, [0], races * size, stream=Stream.ACCEPT).reshape(races, size)
    uniforms = torch.exp(-noise.exp())  # exp(-e) is uniform if e is exponential
    return {
        "ersd": ersd_accepted_indices(p, q, log_e),
        "gsd": gsd_accepted_indices(p, q, log_e, uniforms),
    }


def _rates(indices: Tensor, size: int) -> dict[str, Any]:
    first = (indices == 0).long().cumsum(0).tolist()
    counts = torch.bincount(indices, minlength=size)[:size].tolist()
    return {
        "running": [[n, *_rate(first[n - 1], n)] for n in checkpoints(len(indices))],
        "by_index": [_rate(count, len(indices)) for count in counts],
    }


def _rate(accepted: int, total: int) -> list[float]:
    counts = IndexAcceptance(0, accepted, total)
    return [counts.rate, *counts.interval()]


def checkpoints(races: int) -> list[int]:
    """The numbers of races at which the running rate is shown. They are evenly spaced on a logarithmic
    axis."""
    return sorted({round(races ** (i / (_CHECKPOINTS - 1))) for i in range(_CHECKPOINTS)})


def presets() -> dict[str, dict[str, Any]]:
    """The examples of two distributions by `id`, their name in the page's address, the paper's example first.

    e: the exponential random numbers of the race; if empty, the page draws them.
    """
    entries = json.loads(Path(__file__).with_name("presets.json").read_text("utf-8"))
    return {entry["id"]: entry for entry in entries}


def panel() -> frame.Part:
    """The race laboratory: one element that `assets/race_lab/panel.js` fills."""
    return frame.panel(
        "race_lab",
        frame.template(
            "race_lab/panel",
            races=RACES,
            rules=[METHODS[name].name for name in drafts.RULES]
            + [name for name, _ in drafts.OPTIMA.values()],
        ),
        functions=[exact, simulated],
        presets=[*presets().values()],
        convergence=looks.skeleton(labs.convergence()),
        by_index=looks.skeleton(labs.by_index()),
        drafts=looks.skeleton(drafts.figure()),
        plotly=assets.file_url(assets.PLOTLY),
    )
