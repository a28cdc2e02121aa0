"""The best tree shrinks as the batch grows: tokens per second against k, of 1, 4, 16 and 40 texts at once.

    python -m specdec.experiments.serving           # the embedded pair, three minutes on a quiet CPU
    python -m specdec.experiments.serving --smoke   # every stage, in seconds

ERSD on the optimal trees of k tokens, grown from its own acceptance on this pair; k = 0 drafts nothing, and
`auto` is the tree that is chosen for so many at once. All points of a repeat write the same texts, prefills
included, in batches whose seats are taken again as texts end; one that is not autoregressive decoding's ends
the experiment with an error. Seconds are of processor time, on one thread: those of the clock on a machine
that does nothing else. All points take turns, repeat by repeat; medians of the repeats are told with the
lowest and the highest. Runs are appended to a JSON-lines file; a killed measurement goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from tqdm import tqdm

from specdec.commands import ended
from specdec.decoding.batch import generate_many
from specdec.decoding.run import measure_acceptance
from specdec.experiments.fixed_trees import Experiment, finished, seeds
from specdec.experiments.store import Record, Store
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair
from specdec.topology import Topology
from specdec.trace import Generation

AT_ONCE = (1, 4, 16, 40)
"""Texts that are decoded together."""
KS = (0, 1, 2, 3, 4, 6, 8, 12, 16)
PLAIN, AUTO = "0", "auto"
"""Trees that are called otherwise than by what they are: the empty one, and the chosen one."""
TEXTS = 16
"""Texts of a point in a repeat, where not more are decoded together."""
_SEED = 0x73657276


def trees(pair: ModelPair) -> dict[str, Topology]:
    """The optimal tree of each k by its name, k in digits."""
    acceptance = measure_acceptance(pair, method="ersd")
    return {str(k): optimal_topology(acceptance, k) if k else Topology([]) for k in KS}


def measure(
    pair: ModelPair,
    prompts: Sequence[str | Sequence[int]],
    repeats: int,
    length: int,
    shapes: Mapping[str, Topology],
    store: Store,
) -> None:
    """Do the points that the file lacks, texts of `length` tokens. AssertionError where a text is not that of
    autoregressive decoding with its seed."""
    done = {_key(run) for run in store.read()[1]}
    points = [(at_once, tree) for at_once in AT_ONCE for tree in (*shapes, AUTO)]
    for repeat in tqdm(range(repeats), unit="repeat"):
        left = [point for point in points if (*point, repeat) not in done]
        # these are also the first forwards of their sizes, which no point is to have
        texts = _decoded(pair, prompts, repeat, length, max(AT_ONCE), method="ar") if left else []
        for at_once, tree in left:
            chosen = shapes.get(tree, AUTO)
            _decoded(pair, prompts, repeat, 1, at_once, method="ersd", topology=chosen)  # measures for auto
            start = time.process_time()
            found = _decoded(pair, prompts, repeat, length, at_once, method="ersd", topology=chosen)
            seconds = time.process_time() - start
            same = all(g.token_ids == text.token_ids for g, text in zip(found, texts, strict=False))
            assert same, f"another text: {at_once} at once, tree {tree}, repeat {repeat}"
            run = {"at_once": at_once, "tree": tree, "repeat": repeat, "k": len(found[0].paths)}
            store.append(run | {"tokens": sum(len(g.token_ids) for g in found), "seconds": seconds})


def _decoded(
    pair: ModelPair,
    prompts: Sequence[str | Sequence[int]],
    repeat: int,
    length: int,
    at_once: int,
    **settings: Any,
) -> list[Generation]:
    numbers = range(max(at_once, TEXTS))
    return generate_many(
        pair,
        [prompts[(repeat * max(AT_ONCE) + number) % len(prompts)] for number in numbers],
        seeds=seeds(_SEED, repeat, numbers),
        at_once=at_once,
        max_new_tokens=length,
        **settings,
    )


def summarize(header: Record, runs: Sequence[Record]) -> Record:
    """Tokens per second of each number of texts and tree, and times what nothing drafted gives there; of an
    unfinished experiment, of those repeats that all points have done."""
    runs = finished(runs, "repeat")
    rates = {_key(run): run["tokens"] / run["seconds"] for run in runs}
    rows = []
    for point in dict.fromkeys(key[:2] for key in rates):
        own = {repeat: rate for (*other, repeat), rate in rates.items() if tuple(other) == point}
        plain = {repeat: rates[point[0], PLAIN, repeat] for repeat in own}
        row = {"at_once": point[0], "tree": point[1]}
        row["k"] = sorted({run["k"] for run in runs if _key(run)[:2] == point})
        rows.append(row | _spread(own.values()) | {"gain": _spread(own[r] / plain[r] for r in own)})
    about = {name: header[name] for name in ("settings", "pair", "machine")}
    return about | {"repeats": len({run["repeat"] for run in runs}), "points": rows}


def _spread(values: Iterable[float]) -> dict[str, float]:
    """Median, lowest and highest."""
    found = list(values)
    return {"value": median(found), "low": min(found), "high": max(found)}


def _key(run: Mapping[str, Any]) -> tuple[Any, ...]:
    return run["at_once"], run["tree"], run["repeat"]


def as_text(summary: Record) -> str:
    """A line for each number of texts at once: tokens per second by k, and of the chosen tree."""
    points = {(row["at_once"], row["tree"]): row for row in summary["points"]}
    names = list(dict.fromkeys(tree for _, tree in points))
    lines = [f"{'at once':>8}" + "".join(f"{name:>8}" for name in names)]
    for at_once in dict.fromkeys(at_once for at_once, _ in points):
        cells = (f"{points[at_once, name]['value']:>8.0f}" for name in names)
        chosen = " or ".join(map(str, points[at_once, AUTO]["k"]))
        lines.append(f"{at_once:>8}{''.join(cells)}  ({AUTO}: k = {chosen})")
    return "\n".join(lines)


ABOUT = "The best tree of many texts at once."
EXPERIMENT = Experiment("serving", ABOUT, measure, summarize, as_text, trees, repeats=5, length=48)

if __name__ == "__main__":
    with ended():
        EXPERIMENT.command()
