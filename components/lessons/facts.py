"""Every number that the lessons state. Each is computed by `specdec` or read from recorded runs and results.

Each lesson has one function. It returns the lesson's facts by the names that `assets/lessons.json` uses;
`written` adds texts for tuples of numbers. The answer to a choice is the index of the right choice, from 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from components.lessons.recorded import faster, referee, rejection, yourself
from components.lessons.tables import (
    Distribution,
    Facts,
    P,
    Q,
    measured,
    recorded_run,
    rejecting,
    residual_of,
    written,
)
from components.losslessness import run as lossless_run
from components.race_lab import panel as race_lab
from components.tree_lab import panel as tree_lab
from specdec import optimal, theory, topology


def _first(values: Sequence[float]) -> int:
    return min(range(len(values)), key=values.__getitem__)


def _arrivals(e: Sequence[float], p: Distribution) -> list[float]:
    return [exponential / probability for exponential, probability in zip(e, p, strict=True)]


def _together(p: Distribution, q: Distribution) -> float:
    """The probability that two races with independent random numbers have the same winner."""
    return math.fsum(a * b for a, b in zip(p, q, strict=True))


def race() -> Facts:
    """The facts of lesson “What is a race?”: a race of three tokens that an unlikely token wins."""
    p, e, always_floor = (0.5, 0.3, 0.2), (1.2, 0.45, 0.9), (0, 1, 0)
    share_of_others = 1 - 2 * p[2]
    doubled = (*(share_of_others * share / (p[0] + p[1]) for share in p[:2]), 2 * p[2])
    times = _arrivals(e, p)
    return {
        "names": "mat,floor,sofa",
        "p": p,
        "e": e,
        "same_e": (1, 1, 1),
        "times": times,
        "winner": _first(times),
        "always_floor": always_floor,
        "share": float(theory.ersd_acceptance(p, always_floor)),
        "doubled_p": doubled,
        "doubled_time": _arrivals(e, doubled)[2],
    }


def noise() -> Facts:
    """How often two races have the same winner, with shared random numbers and with independent ones."""
    p, q = (0.5, 0.3, 0.15, 0.05), (0.3, 0.5, 0.15, 0.05)
    return {
        "p": p,
        "q": q,
        "equal": float(theory.ersd_acceptance(p, p)),
        "equal_apart": _together(p, p),
        "squares": " + ".join(f"{value:g}²" for value in p),
        "near": float(theory.ersd_acceptance(p, q)),
        "near_apart": _together(p, q),
    }


def acceptance() -> Facts:
    """GSD's and ERSD's acceptance of the first and of the second draft; two lower bounds of ERSD's acceptance
    of the first draft; and the largest possible lead of GSD over ERSD at the first draft."""
    gsd, ersd = float(theory.gsd_acceptance(P, Q)), float(theory.ersd_acceptance(P, Q))
    lead = race_lab.presets()["lead"]
    lead_gsd, lead_ersd = (
        float(rate(lead["p"], lead["q"])) for rate in (theory.gsd_acceptance, theory.ersd_acceptance)
    )
    return {
        "p": P,
        "q": Q,
        "tv": float(theory.total_variation(P, Q)),
        "gsd": gsd,
        "ersd": ersd,
        "ersd_order": 0 if ersd > gsd else 1 if ersd == gsd else 2,
        "smaller": " + ".join(f"{min(pair):g}" for pair in zip(P, Q, strict=True)),
        "bound": float(theory.ersd_total_variation_bound(P, Q)),
        "harmonic": float(theory.harmonic_mean_similarity(P, Q)),
        "ersd_second": float(theory.ersd_acceptance_by_index(P, Q, 2)[1]),
        "gsd_second": float(theory.gsd_acceptance_by_index(P, Q, 2)[1]),
        "lead_points": 100 * (lead_gsd - lead_ersd),
        "lead_choice": 1,  # the choice that states this lead
        "lead_gsd": lead_gsd,
        "lead_ersd": lead_ersd,
    }


def trees() -> Facts:
    """Two drafted tokens in a row or side by side, and the embedded pair's best tree of eight tokens."""
    coin, good, pair = (0.5, 0.5), (0.8, 0.1), measured()
    return {
        "coin": coin,
        "good": good,
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


def drafter() -> Facts:
    """A good and a bad draft in the same race of the target, and two recorded runs whose texts differ."""
    p, good, bad, e = (0.5, 0.3, 0.2), (0.45, 0.35, 0.2), (0.05, 0.15, 0.8), (0.5, 0.6, 0.7)
    times = _arrivals(e, p)
    names = ("mat", "floor", "sofa")
    return {
        "names": ",".join(names),
        "p": p,
        "e": e,
        "good_q": good,
        "bad_q": bad,
        "written": _first(times),
        "target_time": min(times),
        "proposed": names[_first(_arrivals(e, bad))],
        "good": float(theory.ersd_acceptance(p, good)),
        "bad": float(theory.ersd_acceptance(p, bad)),
        "same_as_alone": 1,  # ERSD is drafter-invariant; the tests compare with decoding without a draft
        **_parting(),
    }


def _parting() -> Facts:
    """The recorded texts of GSD, of ERSD and of the target alone.

    Each is split into the beginning that all share and the rest.
    """
    runs = {name: recorded_run(f"parting-{name}") for name in ("gsd", "ersd")}
    texts = {name: run.text for name, run in runs.items()}
    texts["alone"] = "".join(round.text for round in runs["ersd"].baseline)
    same = [a == b for a, b in zip(texts["gsd"], texts["ersd"], strict=False)]
    shared = texts["gsd"][: same.index(False)]
    shared = shared[: shared.rfind(" ") + 1]
    own = {name: " ".join(text.removeprefix(shared).split()) for name, text in texts.items()}
    return {"prompt": runs["ersd"].prompt, "texts": own | {"shared": shared}}


def lossless() -> Facts:
    """The probability that GSD writes token a: with a correct verifier, and with one that is wrong on
    purpose.

    After a rejection a correct verifier samples the residual. The wrong verifier samples the target's P
    instead.
    """
    accepted = [min(a, b) for a, b in zip(P, Q, strict=True)]
    rejected = 1 - math.fsum(accepted)
    residual = residual_of(P, Q)
    return rejecting() | {
        "ratio_a": P[0] / Q[0],
        "kept_a": accepted[0],
        "residual_a": residual[0],
        "rejected": rejected,
        "written_a": accepted[0] + rejected * residual[0],
        "wrong_a": accepted[0] + rejected * P[0],
        "added_a": rejected * P[0],
        "one_in": 1 / P[0],
        "decodes": lossless_run.CheckSettings().decodes,
        "alarm": lossless_run.ALARM,
        "noticed": 1,  # a check detects this; the tests repeat that check
    }


def limit() -> Facts:
    """How many tokens a call yields at most: with the embedded pair's best trees of up to 384 tokens, with an
    endless sequence, and by the upper bounds."""
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
        "pair": pair,
        "tokens_small": float(tokens[small]),
        "tokens_largest": float(tokens[largest]),
        "first": pair[0],
        "sequence_limit": 1 / (1 - pair[0]),
        "gain_first": gains[0],
        "gain_second": gains[1],
        "gain_order": _choice_of_ratio(gains[1] / gains[0]),
        "lemma": lemma,
        "theorem": theory.tunstall_bound(pair, tree_lab.VOCABULARY, largest),
        "vocabulary": tree_lab.VOCABULARY,
        "wish": wish,
        "reachable": 0 if wish <= lemma else 1,
    }


def _choice_of_ratio(ratio: float) -> int:
    """The right choice for the second of two gains. ratio: second / first. 0: about twice as much, 1: about
    the same, 2: almost nothing."""
    return 0 if ratio > 1.5 else 1 if ratio > 0.5 else 2


def traversal() -> Facts:
    """The tokens per call with two drafted tokens in a row, under GSD and under traversal verification."""
    p, q = (0.3, 0.7), (0.7, 0.3)
    ratios = [a / b for a, b in zip(p, q, strict=True)]
    after_a = min(1.0, ratios[0])
    product = min(1.0, after_a * ratios[1])
    first = [min(1.0, ratio) for ratio in ratios]
    second = [[min(1.0, weight * ratio) for ratio in ratios] for weight in first]
    # a drafted path is accepted with its weight: min(1, the weight before x p/q) (Sun et al., 2024)
    accepted = math.fsum(q[i] * first[i] for i in (0, 1))
    accepted_two = math.fsum(q[i] * q[j] * second[i][j] for i in (0, 1) for j in (0, 1))
    gsd = float(theory.gsd_acceptance(p, q))
    yields = {"gsd": 1 + gsd + gsd * gsd, "traversal": 1 + accepted + accepted_two}
    return {
        "p": p,
        "q": q,
        "ratio": ratios[0],
        "ratio_b": ratios[1],
        "both": product,
        "path": p[0] * p[1],
        "paths": [
            [f"{a} {b}", p[i] * p[j], q[i] * q[j]] for i, a in enumerate("ab") for j, b in enumerate("ab")
        ],
        **yields,
        "order": _order(yields["traversal"], yields["gsd"]),
        "invariant": 1,  # the tests decode with another draft and compare
    }


def _order(value: float, other: float) -> int:
    """The right choice for `value` compared with `other`. 0: less, 1: the same, 2: more."""
    return 1 if math.isclose(value, other) else 2 if value > other else 0


LESSONS: dict[str, Callable[[], Facts]] = {
    function.__name__: partial(written, function)
    for function in (
        *(faster, race, noise, acceptance, rejection, trees, drafter, lossless, limit),
        *(traversal, referee, yourself),
    )
}
"""The facts of each lesson, by its id."""
