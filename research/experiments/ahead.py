"""Estimates the gain of drafting while the target verifies: how often would the next tokens be prepared?

A round ends at the last accepted node of the tree. The next token is not one of its drafted children: it is a
later arrival of the draft's race. So a round's end is a node with the index of an arrival. For each of the m
most probable ends a continuation is prepared. The experiment counts how often the true end is among them, for
several trees, in the races of the decoded texts. The first texts are also decoded on each tree, to time the
stages of a round.

A pipelined round would draft m continuations on a second core, in shared forward passes, while the first core
does everything else. If the right continuation is among them, the next round begins with it; otherwise the
next round drafts as usual. Other work of drafting, such as races, is done for each continuation. The cost of
passing work to the second core is not counted, so the computed gain is an upper bound.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from research.estimates import Row
from research.experiments.texts import Text, TextExperiment, distributions, own_ranks, quotient, rounds_on
from research.theory import preparation
from research.timing import forward_seconds
from specdec import ModelPair, Topology, generate, optimal_topology, theory
from specdec.shipped import SMOLLM2, STORIES
from specdec.topology import sequence

PREPARED = (1, 2, 3, 4, 8, 16, 32)  # the numbers m of prepared continuations
GUESSES = (1, 2, 4, 8, 16, 32)  # numbers of guesses for the token that follows one rejected draft
SHAPE = (0.6, 0.15, 0.07, 0.04, 0.02, 0.01, 0.01, 0.01)  # approximate acceptance by index of both pairs
TREES: Mapping[str, Topology] = {f"sequence({k})": sequence(k) for k in (1, 2, 3, 4, 6)} | {
    f"optimal({k})": optimal_topology(SHAPE, k) for k in (2, 4, 8, 16)
}
TIMED = 3  # texts that are decoded on each tree to time its rounds
QUIET = 0.1  # this quantile of the rounds' times is used, because other work on the machine hardly affects it
INDICES = 64
ROWS = (1, 2, 4, 8, 16, 32, 64)
REPEATS = 30  # how often the draft's forward pass over each number of tokens is timed
WORTH = 1.15  # the gain above which a pipelined round would be worth its code


def measured(pair: ModelPair, text: Text) -> Row:
    """The measurements of one text. ranks: see `own_ranks`.

    gsd: for each m of `GUESSES`, the sum over tokens of the probability that GSD rejects its first draft and
    then emits one of m guesses. seconds: only for the first texts; of rounds on each tree, and of the draft's
    forward passes by number of tokens.
    """
    p, q = distributions(pair, text)
    rejected = theory.total_variation(p, q)
    gsd = [float((preparation.gsd_preparation_hit(p, q, m).nan_to_num() * rejected).sum()) for m in GUESSES]
    row = {"tokens": len(p), "ranks": own_ranks(pair, text, p, q), "gsd": gsd}
    row |= {"rejected": float(rejected.sum()), "seconds": None}
    if text.number < TIMED:
        trees = {name: _timed(pair, text, tree) for name, tree in TREES.items()}
        flat, prompt = {rows: [-1] * rows for rows in ROWS}, text.ids[: text.start]
        rows = forward_seconds(pair.drafting, prompt, flat, REPEATS, time.process_time)
        row["seconds"] = {"trees": trees, "rows": [*rows.values()]}
    return row


def _timed(pair: ModelPair, text: Text, tree: Topology) -> list[float]:
    """Seconds of drafting and of the rest of a round: the quantile `QUIET` over ERSD's rounds on a tree.

    AssertionError if ERSD's text differs from that of plain decoding.
    """
    settings: dict[str, Any] = {"max_new_tokens": len(text.ids) - text.start, "seed": text.seed}
    g = generate(pair, text.ids[: text.start], method="ersd", topology=tree, **settings)
    assert g.token_ids == text.ids[text.start :], f"ERSD's text {text.number} is not that of plain decoding"
    times = [(each.seconds.draft, each.seconds.total - each.seconds.draft) for each in g.rounds]
    return np.quantile(times, QUIET, 0).tolist()


def _summary(runs: Sequence[Row]) -> Row:
    indices = np.concatenate([run["ranks"] for run in runs])
    rates = [float((indices == index).mean()) for index in range(INDICES)]
    rows = [_row(name, tree, rates, runs) for name, tree in TREES.items()]
    gsd = np.sum([run["gsd"] for run in runs], 0) / sum(run["rejected"] for run in runs)
    ersd = [preparation.ersd_preparation_hit(rates, 1, m) for m in GUESSES]
    pipelined = max(max(row["pipelined"].values()) for row in rows)
    return {
        "texts": len(runs),
        "tokens": len(indices),
        "rates": rates,
        "after_one": {"ersd": ersd, "gsd": gsd.tolist()},
        "trees": rows,
        "gain": pipelined / max(row["speed"] for row in rows),
    }


def _row(name: str, tree: Topology, rates: list[float], runs: Sequence[Row]) -> Row:
    """The row of a tree: for each m, the share of rounds whose end was prepared, and the tokens per second;
    also the tokens per second without preparation."""
    timings = [run["seconds"] for run in runs if run["seconds"]]
    draft, other = np.median([each["trees"][name] for each in timings], 0).tolist()
    cost = np.median([each["rows"] for each in timings], 0)
    tokens, beside = theory.expected_tokens(rates, tree), max(0.0, draft - _preparing(tree, 1, cost))
    speed, hits, pipelined = tokens / (draft + other), {}, {}
    for m in PREPARED:
        ends, expected = preparation.prepared_outcomes(rates, tree, m)
        counts = []
        for run in runs:
            right = [end in ends for end in rounds_on(tree, run["ranks"]) if end[1] is not None]
            counts.append({"text": run["text"], "hits": sum(right), "rounds": len(right)})
        hits[str(m)] = quotient(counts, "hits", "rounds") | {"expected": expected}
        longer = max(other, _preparing(tree, m, cost) + m * beside)
        pipelined[str(m)] = tokens / (longer + (1 - hits[str(m)]["value"]) * draft)
    row = {"tree": name, "hits": hits, "share": draft / (draft + other), "speed": speed}
    return row | {"pipelined": pipelined, "gain": max(pipelined.values()) / speed}


def _preparing(tree: Topology, m: int, cost: np.ndarray) -> float:
    """Seconds that the draft needs for m trees together: one forward pass for each level with children."""
    widths = np.array([m * len(rows) for rows in tree.inner_levels if rows])
    within = np.interp(widths, ROWS, cost)  # more rows than ROWS[-1] cost several passes over ROWS[-1]
    return float((within * np.maximum(1, widths / ROWS[-1])).sum())


EXPERIMENT = TextExperiment(
    name="experiments.ahead",
    about="Measure what drafting while the target verifies could give.",
    measured=measured,
    summary=lambda runs: {"worth": WORTH, "pairs": {pair: _summary(some) for pair, some in runs.items()}},
    texts={STORIES: 40, SMOLLM2: 20},
)

if __name__ == "__main__":
    EXPERIMENT.main()
