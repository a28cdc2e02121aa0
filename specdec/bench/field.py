"""Chooses each contestant's dtype, number of threads and k: the fastest in a short trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from specdec.bench.contestants import Contestant, Sample, Workload, assisted, ours, prompt_lookup, theirs
from specdec.bench.measure import fastest
from specdec.decoding.run import measure_acceptance
from specdec.drafters.copies import COPIES
from specdec.drafters.proposed import MODEL
from specdec.drafters.strings import STRINGS
from specdec.methods import DRAFTING, METHODS
from specdec.models.other_tokenizer import OtherTokenizerModel
from specdec.optimal import optimal_topology
from specdec.pair import ModelPair
from specdec.probs import Sampling
from specdec.topology import sequence
from specdec.trace import Method

AUTOREGRESSIVE, ASSISTED, LOOKUP = (
    f"transformers {name}" for name in ("autoregressive", "assisted", "prompt lookup")
)
Make = Callable[[ModelPair, Sampling, int], Callable[[Workload], Sample]]


@dataclass(frozen=True)
class Field:
    """The settings to choose from.

    pairs: the same pair by dtype. threads: numbers of threads to try. assisted_k, lookup_k: numbers of
    drafted tokens to try for transformers. sequences, optimal: the k of our fixed trees. methods: our methods
    that draft. drafters: the drafters, each of which is tried on all trees. jobs: the texts of the trials.
    """

    pairs: Mapping[str, ModelPair]
    threads: Sequence[int]
    sampling: Sampling
    jobs: Sequence[Workload]
    assisted_k: Sequence[int] = tuple(range(1, 9))
    lookup_k: Sequence[int] = (2, 4, 8)
    sequences: Sequence[int] = (4,)
    optimal: Sequence[int] = (8,)
    methods: Sequence[Method] = DRAFTING
    drafters: Sequence[str] = (MODEL,)


def chosen(field: Field, say: Callable[[str], None]) -> tuple[list[Contestant], dict[str, Any]]:
    """The contestants, transformers' plain decoding first, and the tokens per second of all candidates."""
    plain, tried_plain = _best_plain(field)
    tried = {AUTOREGRESSIVE: tried_plain}
    say(f"{AUTOREGRESSIVE}: best in {plain.dtype} on {plain.threads} thread(s)")
    contestants = [plain]
    others: list[tuple[str, Make, Sequence[int], Mapping[str, ModelPair]]]
    others = [(LOOKUP, prompt_lookup, field.lookup_k, {plain.dtype: field.pairs[plain.dtype]})]
    if _has_draft(field):
        others.insert(0, (ASSISTED, assisted, field.assisted_k, field.pairs))
    if any(getattr(cast(Any, pair.target).module, "_is_stateful", False) for pair in field.pairs.values()):
        say("transformers verifies no drafts for a model with a recurrent state, so it only decodes plainly")
        others = []
    for name, make, ks, pairs in others:
        best, tried[name] = _best_k(field, name, make, ks, pairs, plain.threads)
        say(f"{best.name}: best, in {best.dtype}")
        contestants.append(best)
    dtype, threads, tried["specdec"] = _best_setting(field)
    say(f"specdec: best in {dtype} on {threads} thread(s)")
    return contestants + _our_field(field, dtype, threads), tried


def _best_plain(field: Field) -> tuple[Contestant, dict[str, float]]:
    candidates = {
        f"{dtype}, {n} thread(s)": (dtype, n, theirs(pair, field.sampling))
        for dtype, pair in field.pairs.items()
        for n in field.threads
    }
    best, rates = fastest("transformers", candidates, field.jobs)
    return best._replace(name=AUTOREGRESSIVE), rates


def _best_k(
    field: Field,
    name: str,
    make: Make,
    ks: Sequence[int],
    pairs: Mapping[str, ModelPair],
    threads: int,
) -> tuple[Contestant, dict[str, float]]:
    candidates = {
        f"{dtype}, k = {k}": (dtype, threads, make(pair, field.sampling, k))
        for dtype, pair in pairs.items()
        for k in ks
    }
    best, rates = fastest("transformers", candidates, field.jobs)
    return best._replace(name=f"{name}, {best.name.split(', ')[1]}"), rates


def _best_setting(field: Field) -> tuple[str, int, dict[str, float]]:
    """The best dtype and number of threads for our decoder, chosen with its default, ERSD on "auto"."""
    method: Method = "ersd" if _has_draft(field) else "ar"
    topology = "auto" if _has_draft(field) else None
    candidates = {
        f"{dtype}, {n} thread(s)": (dtype, n, ours(pair, method, topology, field.sampling))
        for dtype, pair in field.pairs.items()
        for n in field.threads
    }
    if len(candidates) == 1:
        ((dtype, threads, _),) = candidates.values()
        return dtype, threads, {}
    best, rates = fastest("specdec", candidates, field.jobs)
    return best.dtype, best.threads, rates


def _our_field(field: Field, dtype: str, threads: int) -> list[Contestant]:
    pair = field.pairs[dtype]
    trees: dict[tuple[str, Method], Any] = {}
    if _has_draft(field):
        # Measure again, on the chosen number of threads.
        pair.measurements.clear()
        pair.learned.clear()
        for method in field.methods:
            trees |= _trees(field, pair, method)
    runs = {"specdec autoregressive": ours(pair, "ar", None, field.sampling)}
    for drafter in field.drafters:
        copies = {(f"specdec {METHODS[method].name}", method): None for method in field.methods}
        for (name, method), tree in (copies if drafter == COPIES else trees).items():
            name = name if drafter == MODEL else f"{name} {drafter}"
            runs[name] = ours(pair, method, tree, field.sampling, drafter=drafter)
    if isinstance(pair.draft, OtherTokenizerModel) and "ersd" in field.methods:
        for k in field.sequences:
            run = ours(pair, "ersd", sequence(k), field.sampling, drafter=STRINGS)
            runs[f"specdec ERSD strings({k})"] = run
    return [Contestant(name, "specdec", dtype, threads, run) for name, run in runs.items()]


def _trees(field: Field, pair: ModelPair, method: Method) -> dict[tuple[str, Method], Any]:
    """Topologies by (name, method)."""
    rates = measure_acceptance(pair, field.jobs[0].prompt_ids, method=method, **asdict(field.sampling))
    trees: dict[str, Any] = {f"sequence({k})": sequence(k) for k in field.sequences}
    if pair.target.capability == pair.drafting.capability == "tree":
        trees |= {f"optimal({k})": optimal_topology(rates, k) for k in field.optimal}
    trees["auto"] = "auto"
    return {(f"specdec {METHODS[method].name} {name}", method): tree for name, tree in trees.items()}


def _has_draft(field: Field) -> bool:
    return all(pair.draft is not None for pair in field.pairs.values())
