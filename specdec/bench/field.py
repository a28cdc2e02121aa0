"""Chooses the dtype, the number of threads and the k of each contestant, by the speed in a short trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from specdec.bench.contestants import Contestant, Sample, Workload, assisted, ours, prompt_lookup, theirs
from specdec.bench.measure import Candidate, fastest
from specdec.decoding.run import measure_acceptance
from specdec.drafters.catalogue import COPIES, MODEL, STRINGS
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
Run = Callable[[Workload], Sample]
Make = Callable[[ModelPair, Sampling, int], Run]


@dataclass(frozen=True)
class Field:
    """The settings to choose from.

    pairs: the same pair of models in several dtypes. threads: numbers of threads to try. assisted_k,
    lookup_k: numbers of drafted tokens to try for transformers' assisted generation and prompt lookup; an
    empty list leaves this contestant out. sequences, optimal: the k of our fixed trees. methods: our methods
    that draft. drafters: our drafters, each on all trees; "copies" has no tree. jobs: the trials' texts.
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
    """The contestants, transformers' plain decoding first; and the tokens per second of each candidate."""
    speeds: dict[str, dict[str, float]] = {}

    def best(name: str, kind: str, candidates: Mapping[str, Candidate]) -> Contestant:
        winner, speeds[name] = fastest(kind, candidates, field.jobs)
        say(f"{name}: best with {winner.name}")
        return winner

    plain = best(
        AUTOREGRESSIVE, "transformers", _on_threads(field, lambda pair: theirs(pair, field.sampling))
    )
    contestants = [plain._replace(name=AUTOREGRESSIVE)]
    for name, make, ks, pairs in _drafting(field, plain.dtype, say):
        candidates = {
            f"{dtype}, k = {k}": (dtype, plain.threads, make(pair, field.sampling, k))
            for dtype, pair in pairs.items()
            for k in ks
        }
        with_k = best(name, "transformers", candidates)
        contestants.append(with_k._replace(name=f"{name}, {with_k.name.split(', ')[1]}"))
    # our dtype and threads are chosen by trials of our default: ERSD with "auto"
    method, topology = ("ersd", "auto") if _has_draft(field) else ("ar", None)
    own = best("specdec", "specdec", _on_threads(field, lambda p: ours(p, method, topology, field.sampling)))
    return contestants + _our_field(field, own.dtype, own.threads), speeds


def _drafting(
    field: Field, dtype: str, say: Callable[[str], None]
) -> list[tuple[str, Make, Sequence[int], Mapping[str, ModelPair]]]:
    """The contestants of transformers that draft, each as (name, function, k to try, pairs).

    dtype: the fastest dtype for plain decoding.
    """
    if any(getattr(cast(Any, pair.target).module, "_is_stateful", False) for pair in field.pairs.values()):
        say("transformers verifies no drafts for a model with a recurrent state, so it only decodes plainly")
        return []
    drafting: list[tuple[str, Make, Sequence[int], Mapping[str, ModelPair]]] = []
    if field.assisted_k and _has_draft(field):
        drafting.append((ASSISTED, assisted, field.assisted_k, field.pairs))
    if field.lookup_k:
        drafting.append((LOOKUP, prompt_lookup, field.lookup_k, {dtype: field.pairs[dtype]}))
    return drafting


def _on_threads(field: Field, make: Callable[[ModelPair], Run]) -> dict[str, Candidate]:
    """A candidate for each dtype and number of threads. make: returns a pair's function that decodes."""
    return {
        f"{dtype}, {n} thread(s)": (dtype, n, make(pair))
        for dtype, pair in field.pairs.items()
        for n in field.threads
    }


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
    """The topologies on which one of our methods is measured, by (name of the table's row, method)."""
    rates = measure_acceptance(pair, field.jobs[0].prompt_ids, method=method, **asdict(field.sampling))
    trees: dict[str, Any] = {f"sequence({k})": sequence(k) for k in field.sequences}
    if pair.target.capability == pair.drafting.capability == "tree":
        trees |= {f"optimal({k})": optimal_topology(rates, k) for k in field.optimal}
    trees["auto"] = "auto"
    return {(f"specdec {METHODS[method].name} {name}", method): tree for name, tree in trees.items()}


def _has_draft(field: Field) -> bool:
    return all(pair.draft is not None for pair in field.pairs.values())
