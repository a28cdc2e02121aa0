"""Turns a results file into one JSON object with the numbers of the paper's figures.

acceptance    by method: acceptance by index (`by_index`), its counts with intervals, entropies in bits
points        by method, strategy and k: measured tokens per target call, their interval, the prediction
increments    the change for each additional drafted token, between neighbouring k
differences   GSD minus ERSD at each strategy and k, from paired texts
bounds        by method and k: Lemma 4.2's bound for the best m and for a fixed m, and Theorem 4.1's bound
findings      the paper's statements: each confirmed or not, with its numbers in a sentence
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from research.estimates import Estimate, Row, combined, grouped, quotient
from research.experiments.findings import Estimates, check_findings
from research.experiments.plan import CONTEXTS, Plan, Planned, summed
from research.experiments.settings import Point, Settings
from specdec import optimal_topology, theory
from specdec.stats import IndexAcceptance


def summarize(header: Row, runs: Sequence[Row]) -> Row:
    """The summary of an experiment, finished or not. ValueError if its calibration is not finished."""
    plan = Plan(Settings.from_json(header["settings"]), runs)
    if not plan.is_calibrated:
        raise ValueError("the calibration runs are not finished: run the experiment a little longer")
    runs_of = {item: plan.runs_of(item) for item in plan.planned}
    # a point without a round on its whole tree has no value
    runs_of = {item: some for item, some in runs_of.items() if any(run["lengths"] for run in some)}
    estimates = {item.point: measured(some) for item, some in runs_of.items()}
    points = [_point(plan, item, some, estimates[item.point]) for item, some in runs_of.items()]
    summary = {
        "pair": header["pair"],
        "settings": header["settings"],
        "versions": header["versions"],
        "complete": plan.is_finished,
        "runs": len(runs),
        "acceptance": {method: _acceptance(plan, method) for method in plan.acceptance},
        "points": points,
        "increments": _increments(points, estimates),
        "differences": [
            {"strategy": gsd.strategy, "k": gsd.k} | (estimates[gsd] - estimates[ersd]).to_json()
            for gsd in estimates
            if gsd.method == "gsd" and (ersd := gsd._replace(method="ersd")) in estimates
        ],
        "bounds": {method: _bounds(plan, method, header["pair"]["vocab_size"]) for method in plan.acceptance},
    }
    return _rounded(summary | {"findings": check_findings(summary, estimates)})


def measured(runs: Sequence[Row]) -> Estimate:
    """Tokens per target call. Rounds at the end of a text, whose tree had to be smaller, are left out."""
    texts = [
        {
            "prompt": run["prompt"],
            "tokens": sum(n * rounds for n, rounds in enumerate(run["lengths"])),
            "rounds": sum(run["lengths"]),
        }
        for run in runs
    ]
    return quotient(texts, "tokens", "rounds")


def _point(plan: Plan, item: Planned, runs: Sequence[Row], estimate: Estimate) -> Row:
    tokens, rounds = (sum(run[name] for run in runs) for name in ("tokens", "rounds"))
    return item.point._asdict() | {
        "depth": item.topology.depth,
        **estimate.to_json(),
        "standard_error": estimate.standard_error,
        "prediction": theory.expected_tokens(plan.acceptance[item.point.method], item.topology),
        "tokens": tokens,
        "target_calls": rounds,
        "all_rounds": tokens / rounds,
        "lengths": summed(runs, "lengths"),
    }


def _increments(points: Sequence[Row], estimates: Estimates) -> list[Row]:
    """For each method and strategy: the change for each additional drafted token between neighbouring k."""
    rows = []
    for (method, strategy), some in grouped(points, "method", "strategy").items():
        for before, after in pairwise(some):
            step, ends = after["k"] - before["k"], {"from": before["k"], "to": after["k"]}
            pair = [estimates[Point(method, strategy, k)] for k in ends.values()]
            increment = combined(pair, [-1 / step, 1 / step]).to_json()
            prediction = {"prediction": (after["prediction"] - before["prediction"]) / step}
            rows.append({"method": method, "strategy": strategy} | ends | increment | prediction)
    return rows


def _acceptance(plan: Plan, method: str) -> Row:
    vector = plan.acceptance[method]
    tables = {
        i.point.strategy: _marginal(plan.runs_of(i)) for i in plan.calibration if i.point.method == method
    }
    return {
        "by_index": vector.tolist(),
        "batch": tables["batch"],
        "sequence": tables["sequence"],
        "entropy_of_mean": theory.entropy_of_rates(vector),
        "contexts": _contexts(plan, method),
    }


def _marginal(runs: Sequence[Row]) -> list[Row]:
    """A row for each child index: accepted / offered, with Wilson's 95% interval."""
    table = []
    counts = zip(summed(runs, "accepted"), summed(runs, "offered"), strict=True)
    for index, (accepted, offered) in enumerate(counts):
        entry = IndexAcceptance(index, accepted, offered)
        low, high = entry.interval()
        row = {"index": index, "accepted": accepted, "offered": offered, "rate": entry.rate}
        table.append(row | {"low": low, "high": high})
    return table


def _contexts(plan: Plan, method: str) -> Row | None:
    """Acceptance by index at some positions of the target's texts. Entropies and D_KL are in bits."""
    runs = [run for key, run in sorted(plan.finished.items()) if key[0] == CONTEXTS and method in run]
    if not runs:
        return None
    positions = sum(run["positions"] for run in runs)
    mean = np.sum([run[method]["acceptance"] for run in runs], axis=0) / positions
    has_kl = all(run["kl"] is not None for run in runs)
    return {
        "positions": positions,
        "by_index": mean.tolist(),
        "entropy_of_mean": theory.entropy_of_rates(mean),
        "mean_entropy": quotient([run | run[method] for run in runs], "entropy", "positions").to_json(),
        "kl": quotient(runs, "kl", "positions").to_json() if has_kl else None,
    }


def _bounds(plan: Plan, method: str, vocab_size: int) -> Row:
    """Upper bounds of the optimal tree's expected tokens, for a source with this acceptance by index R.

    On real text R is a mean over contexts, so bounds computed from it are not guaranteed.
    """
    vector, ks = np.trim_zeros(np.sort(plan.acceptance[method])[::-1]), plan.settings.optimal
    if not ks:
        return {"fixed_m": None, "by_k": []}
    m = theory.best_lemma_m(vector, ks[-1])
    rows = [
        {
            "k": k,
            "minimal": theory.lemma_bound(vector, k),
            "fixed_m": theory.lemma_bound(vector, k, m) if m >= theory.smallest_lemma_m(vector, k) else None,
            "tunstall": theory.tunstall_bound(vector, vocab_size, k),
            "prediction": theory.expected_tokens(vector, optimal_topology(vector, k)),
        }
        for k in ks
    ]
    return {"fixed_m": m, "by_k": rows}


def _rounded(value: Any) -> Any:
    """Rounds numbers to six significant digits. NaN and infinity become None, because JSON has neither."""
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
