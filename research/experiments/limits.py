"""Compares five upper limits of tokens per target call with ERSD's optimal tree, for k = 1 to 384 tokens.

Three limits follow from R, the acceptance of a node's children by child index: the paper's Theorem 4.1 and
Lemma 4.2, and `renewal_bound`. Two more limits hold for drafts that are fixed independently of the target's
samples and accepted only where they equal them: `stated_limit`, by Pankratov and Alistarh, and
`deterministic_limit`. R is estimated from `RACES` new races
for each token. The optimal tree is simulated with the races that produced the texts.
"""

from collections.abc import Sequence

import numpy as np

from research.estimates import Row
from research.experiments.texts import (
    Text,
    TextExperiment,
    distributions,
    own_ranks,
    quotient,
    rounds_on,
    spread_positions,
)
from research.theory import renewal
from specdec import ModelPair, optimal_topology, theory
from specdec.race import derived_seed, log_exponentials
from specdec.shipped import SMOLLM2, STORIES
from specdec.theory.trials import ersd_accepted_indices

RACES = 8  # races for each token, from which R is estimated
INDICES = 64  # the number of child indices that are counted; R lacks the probability of later indices
KS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 384)
CONTEXTS = 4  # single contexts of each text at which the limits are compared
SAMPLES = 128
METHODS = ("ersd", "gsd")


def measured(pair: ModelPair, text: Text) -> Row:
    """The row of one text: how often ERSD accepted each child index, the sum of the surprisals in bits and of
    their squares, the ranks of the tokens (`own_ranks`), and values at some single contexts."""
    p, q = distributions(pair, text)
    counts = np.zeros(INDICES, dtype=int)
    for position in range(len(p)):
        races = log_exponentials(derived_seed(text.seed, position), range(RACES), pair.vocab_size)
        index = ersd_accepted_indices(p[position], q[position], races).numpy()
        counts += np.bincount(index[index < INDICES], minlength=INDICES)
    by_context = []
    for position in spread_positions(len(p), CONTEXTS):
        entropy, square = theory.entropy(p[position]), renewal.second_log_moment(p[position])
        row = {"entropy": float(entropy), "square": float(square)}
        for method in METHODS:
            estimate = getattr(theory, f"estimate_{method}_acceptance_by_index")
            value = estimate(p[position], q[position], INDICES, samples=SAMPLES).value.numpy()
            row[method] = theory.entropy_of_rates(value / max(1.0, value.sum()))
        by_context.append(row)
    return {
        "tokens": len(p),
        "vocabulary": pair.vocab_size,
        "counts": counts.tolist(),
        "entropy": float(theory.entropy(p).sum()),
        "square": float(renewal.second_log_moment(p).sum()),
        "ranks": own_ranks(pair, text, p, q),
        "contexts": by_context,
    }


def _summary(runs: Sequence[Row]) -> Row:
    tokens = sum(run["tokens"] for run in runs)
    rates = np.sum([run["counts"] for run in runs], 0) / (tokens * RACES)
    moments = {name: quotient(runs, name) for name in ("entropy", "square")}
    size, contexts = runs[0]["vocabulary"], [row for run in runs for row in run["contexts"]]
    points = []
    for k in KS:
        tree = optimal_topology(rates[rates > 0], k)
        rounds = [run | {"rounds": sum(1 for _ in rounds_on(tree, run["ranks"]))} for run in runs]
        above = limits(rates, moments["entropy"]["value"], moments["square"]["value"], size, k)
        points.append({"k": k} | quotient(rounds, "tokens", "rounds") | above)
    return {
        "texts": len(runs),
        "tokens": tokens,
        "vocabulary": size,
        **moments,
        "entropy_of_rates": theory.entropy_of_rates(rates),
        "rates": rates.tolist(),
        "points": points,
        "contexts": len(contexts),
        "deterministic_is_tighter": {
            method: {str(k): _share(contexts, method, size, k) for k in (1, 16, 384)} for method in METHODS
        },
    }


def limits(rates: np.ndarray, entropy: float, square: float, vocabulary: int, k: int) -> dict[str, float]:
    """All limits for one k. rates: R. entropy, square: mean and mean square of the surprisal, in bits."""
    return {
        "tunstall": theory.tunstall_leaf_bound(rates, vocabulary, k),
        "lemma": theory.lemma_bound(rates[rates > 0], k),
        "renewal": renewal.renewal_bound(rates[rates > 0], k),
        "stated": renewal.stated_limit(entropy, square, k),
        "deterministic": renewal.deterministic_limit(entropy, square, k),
    }


def _share(contexts: Sequence[Row], method: str, vocabulary: int, k: int) -> float:
    """The share of contexts in which `deterministic_limit` is below Theorem 4.1's bound and below k + 1."""
    below, leaves = 0, np.log2(k * (vocabulary - 1) + vocabulary)
    for row in contexts:
        tunstall = leaves / row[method] if row[method] > 0 else np.inf
        below += renewal.deterministic_limit(row["entropy"], row["square"], k) < min(k + 1, tunstall)
    return below / len(contexts)


EXPERIMENT = TextExperiment(
    name="experiments.limits",
    about="Compare upper bounds of tokens per target call with the optimal tree.",
    measured=measured,
    summary=lambda runs: {"pairs": {pair: _summary(some) for pair, some in runs.items()}},
    texts={STORIES: 40, SMOLLM2: 24},
)

if __name__ == "__main__":
    EXPERIMENT.main()
