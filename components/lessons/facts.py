"""Every number that the lessons state, computed by the core or read from the recorded runs.

One function a lesson: its facts by the names that `assets/lessons.json` uses. A name that ends in `_list` is
a value as the page's address has it; answers to a choice are its number, from 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from components.decode import traces
from components.losslessness import run as lossless_run
from components.race_lab import panel as race_lab
from components.tree_lab import panel as tree_lab
from specdec import Generation, optimal, theory, topology
from specdec.probs import residual

Facts = dict[str, Any]
Law = Sequence[float]

_P, _Q = (0.1, 0.5, 0.4), (0.6, 0.3, 0.1)
"""Target and draft of a, b, c: far enough apart that every effect is large."""
_DRAFTS_A = (0.2, 0.9, 0.9)
"""Exponentials with which the draft of `_Q` proposes a."""
_REJECTING_U = 0.9


def _listed(values: Sequence[float]) -> str:
    return ",".join(f"{value:g}" for value in values)


def _words(law: Sequence[float]) -> str:
    """Probabilities in words: 10%, 50% and 40%."""
    *first, last = [f"{value:.0%}" for value in law]
    return f"{', '.join(first)} and {last}"


def _laws(p: Law, q: Law) -> Facts:
    return {
        "p": p,
        "q": q,
        "p_list": _listed(p),
        "q_list": _listed(q),
        "p_words": _words(p),
        "q_words": _words(q),
    }


def _first(values: Sequence[float]) -> int:
    return min(range(len(values)), key=values.__getitem__)


def _arrivals(e: Sequence[float], law: Law) -> list[float]:
    return [exponential / probability for exponential, probability in zip(e, law, strict=True)]


def _together(p: Law, q: Law) -> float:
    """How often two races with noise of their own have the same winner."""
    return math.fsum(a * b for a, b in zip(p, q, strict=True))


def _residual(p: Law, q: Law) -> list[float]:
    return residual(torch.tensor(p, dtype=torch.float64), torch.tensor(q, dtype=torch.float64)).tolist()


def race() -> Facts:
    """A race of three tokens in which an unlikely one is first."""
    p, e, always_mat = (0.5, 0.3, 0.2), (1.2, 0.45, 0.9), (1, 0, 0)
    left = 1 - 2 * p[2]
    doubled = (*(left * share / (p[0] + p[1]) for share in p[:2]), 2 * p[2])
    times = _arrivals(e, p)
    return {
        "names": "mat,floor,sofa",
        "p": p,
        "e": e,
        "p_list": _listed(p),
        "e_list": _listed(e),
        "same_e_list": _listed((1, 1, 1)),
        "times": times,
        "winner": _first(times),
        "always_mat_list": _listed(always_mat),
        "share": float(theory.ersd_acceptance(p, always_mat)),
        "doubled_p": doubled,
        "doubled_list": _listed(doubled),
        "doubled_time": _arrivals(e, doubled)[2],
    }


def noise() -> Facts:
    """Agreement of two races, with shared noise and with noise of their own."""
    p, q = (0.4, 0.3, 0.2, 0.1), (0.3, 0.4, 0.2, 0.1)
    return _laws(p, q) | {
        "equal": float(theory.ersd_acceptance(p, p)),
        "equal_apart": _together(p, p),
        "squares": " + ".join(f"{value:g}²" for value in p),
        "near": float(theory.ersd_acceptance(p, q)),
        "near_apart": _together(p, q),
    }


def acceptance() -> Facts:
    """First acceptance of both methods, its bounds, and GSD's largest lead."""
    gsd, ersd = float(theory.gsd_acceptance(_P, _Q)), float(theory.ersd_acceptance(_P, _Q))
    lead = next(preset for preset in race_lab.presets() if preset.id == "lead")
    lead_gsd, lead_ersd = (
        float(rate(lead.p, lead.q)) for rate in (theory.gsd_acceptance, theory.ersd_acceptance)
    )
    return _laws(_P, _Q) | {
        "tv": float(theory.total_variation(_P, _Q)),
        "gsd": gsd,
        "ersd": ersd,
        "ersd_order": 0 if ersd > gsd else 1 if ersd == gsd else 2,
        "smaller": " + ".join(f"{min(pair):g}" for pair in zip(_P, _Q, strict=True)),
        "bound": float(theory.ersd_total_variation_bound(_P, _Q)),
        "harmonic": float(theory.harmonic_mean_similarity(_P, _Q)),
        "ersd_second": float(theory.ersd_acceptance_by_index(_P, _Q, 2)[1]),
        "gsd_second": float(theory.gsd_acceptance_by_index(_P, _Q, 2)[1]),
        "lead": lead_gsd - lead_ersd,
        "lead_points": 100 * (lead_gsd - lead_ersd),
        "lead_gsd": lead_gsd,
        "lead_ersd": lead_ersd,
    }


def rejection() -> Facts:
    """The recorded early rejection: its test and what is lost by it; then a residual by hand."""
    round, step = _moment("early-rejection")
    trial = step.trials[0]
    node = next(node for node in round.nodes if node.path == trial.path)
    left = _residual(_P, _Q)
    return _rejecting() | {
        "round": round.number + 1,
        "last_decision": 1 + len(step.trials) + len(round.tokens),
        "drafted": len(round.nodes),
        "token": _shown(node.text),
        "p": trial.p,
        "q": trial.q,
        "u": trial.u,
        "ratio": trial.p / trial.q,
        "verdict": 0 if trial.accepted else 1,
        "behind": len(round.nodes) - 1,
        "kept_behind": sum(node.status == "accepted" for node in round.nodes[1:]),
        "emitted": len(round.tokens),
        "residual_c": left[2],
        "excess": ", ".join(f"{max(a - b, 0):g}" for a, b in zip(_P, _Q, strict=True)),
        "residual_words": ", ".join(f"{name} {part:.0%}" for name, part in zip("abc", left, strict=True)),
    }


def _rejecting() -> Facts:
    """Set-up of the race laboratory in which a is drafted and GSD rejects it."""
    return _laws(_P, _Q) | {"e_list": _listed(_DRAFTS_A), "lab_u": f"{_REJECTING_U:g}"}


def _moment(name: str) -> tuple[Any, Any]:
    """Round and step that the index of the recorded runs points at."""
    entry = next(entry for entry in traces.entries() if entry["name"] == name)
    run = Generation.from_json((traces.FOLDER / f"{name}.json").read_text())
    return run.rounds[entry["round"]], run.rounds[entry["round"]].steps[entry["step"]]


def _shown(text: str) -> str:
    return f"“{text.replace(chr(10), '⏎').replace(' ', '␣')}”"


def trees() -> Facts:
    """Two tokens in a row or side by side, and the embedded pair's best tree of eight."""
    coin, good, pair = (0.5, 0.5), (0.8, 0.1), measured()
    return {
        "coin": coin,
        "good": good,
        "good_list": _listed(good),
        "pair": pair,
        **_in_a_row_or_not("coin", coin),
        **_in_a_row_or_not("good", good),
        "pair_best": float(optimal.most_expected_tokens(pair, 8)[8]),
        "pair_sequence": theory.expected_tokens(pair, topology.sequence(8)),
        "pair_batch": theory.expected_tokens(pair, topology.batch(8)),
    }


def _in_a_row_or_not(name: str, rates: tuple[float, ...]) -> Facts:
    sequence = theory.expected_tokens(rates, topology.sequence(2))
    batch = theory.expected_tokens(rates, topology.batch(2))
    best = 2 if sequence == batch else 0 if sequence > batch else 1
    return {f"{name}_sequence": sequence, f"{name}_batch": batch, f"{name}_best": best}


@cache
def measured() -> tuple[float, ...]:
    """R of the embedded pair under ERSD as the tree laboratory has it, its tail included."""
    preset = next(preset for preset in tree_lab.presets() if preset.id == "ersd")
    return tree_lab.acceptance(preset)


def drafter() -> Facts:
    """A good and a bad draft before the same race of the target; two recorded runs that part."""
    p, good, bad, e = (0.5, 0.3, 0.2), (0.45, 0.35, 0.2), (0.05, 0.15, 0.8), (0.5, 0.6, 0.7)
    times = _arrivals(e, p)
    names = ("mat", "floor", "sofa")
    round, _ = _moment("parting-ersd")
    return {
        "names": ",".join(names),
        "p_list": _listed(p),
        "good_list": _listed(good),
        "bad_list": _listed(bad),
        "bad_words": _words(bad),
        "e_list": _listed(e),
        "written": _first(times),
        "target_time": min(times),
        "proposed": names[_first(_arrivals(e, bad))],
        "good": float(theory.ersd_acceptance(p, good)),
        "bad": float(theory.ersd_acceptance(p, bad)),
        "same_as_alone": 1,  # drafter invariance; the tests decode without a draft and compare
        "parting_round": round.number + 1,
        "parting_decision": 1 + len(round.tokens),
    }


def lossless() -> Facts:
    """How often a is written, with the residual and with the target's P in its place."""
    kept = [min(a, b) for a, b in zip(_P, _Q, strict=True)]
    rejected = 1 - math.fsum(kept)
    left = _residual(_P, _Q)
    return _rejecting() | {
        "ratio_a": _P[0] / _Q[0],
        "kept_a": kept[0],
        "residual_a": left[0],
        "rejected": rejected,
        "written_a": kept[0] + rejected * left[0],
        "wrong_a": kept[0] + rejected * _P[0],
        "decodes": lossless_run.CheckSettings().decodes,
        "alarm": lossless_run.ALARM,
        "noticed": 1,  # a run of the check says so; the tests repeat it
    }


def limit() -> Facts:
    """The embedded pair's best trees up to 384 tokens, a sequence without end, and the bounds."""
    pair, small, largest = measured(), 16, tree_lab.MOST
    tokens = optimal.most_expected_tokens(pair, largest)
    gains = [float(tokens[k] - tokens[k // 2]) for k in (largest // 2, largest)]
    lemma = theory.lemma_bound(pair, largest)
    wish = math.ceil(lemma) + 1
    return {
        "k_small": small,
        "k_quarter": largest // 4,
        "k_half": largest // 2,
        "k_largest": largest,
        "tokens_small": float(tokens[small]),
        "tokens_largest": float(tokens[largest]),
        "first": pair[0],
        "sequence_limit": 1 / (1 - pair[0]),
        "gain_first": gains[0],
        "gain_second": gains[1],
        "gain_order": _compared(gains[1] / gains[0]),
        "lemma": lemma,
        "theorem": theory.tunstall_bound(pair, tree_lab.VOCABULARY, largest),
        "vocabulary": tree_lab.VOCABULARY,
        "wish": wish,
        "reachable": 0 if wish <= lemma else 1,
    }


def _compared(ratio: float) -> int:
    """0: about twice, 1: about the same, 2: next to nothing."""
    return 0 if ratio > 1.5 else 1 if ratio > 0.5 else 2


LESSONS: dict[str, Callable[[], Facts]] = {
    function.__name__: function
    for function in (race, noise, acceptance, rejection, trees, drafter, lossless, limit)
}
"""The facts of each lesson, by its id."""
