"""The acceptance of n drafts from one race or from n races, for n = 1 to 8.

At some tokens of each text, acceptance is computed for ERSD's first n arrivals, and for Gumbel list sampling:
the winners of n independent races. Lower bounds of both are computed too, and the highest acceptance of any
rule on either kind of drafts. All this is also computed for pairs of random distributions.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from research.estimates import Row
from research.experiments.texts import Text, TextExperiment, distributions, quotient, spread_positions
from research.theory import lists
from specdec import ModelPair, theory
from specdec.shipped import SMOLLM2, STORIES

DRAFTS = range(1, 9)
POSITIONS = 4  # the number of tokens of each text at which acceptance is computed
SAMPLES = 256  # simulated races for ERSD's acceptance of arrivals after the first
RANDOM, RANDOM_PAIRS, RANDOM_TOKENS = "random", 200, 12
KINDS: Mapping[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "races": lists.list_sampling_acceptance,
    "races_bound": lists.list_matching_bound,
    "arrivals_bound": lists.arrivals_bound,
    "best_of_draws": partial(theory.optimal_acceptance, replacement=True),
    "best_of_arrivals": theory.optimal_acceptance,
}


def measured(pair: ModelPair, text: Text) -> Row:
    """For each number of drafts, the acceptance at `POSITIONS` tokens of a text, summed over these tokens."""
    positions = spread_positions(len(text.ids) - text.start, POSITIONS)
    return sums(*(each[positions] for each in distributions(pair, text)))


def sums(p: Tensor, q: Tensor) -> Row:
    """For each number of drafts, acceptance summed over positions. p, q: [positions, vocabulary]."""
    rates = theory.estimate_ersd_acceptance_by_index(p, q, DRAFTS[-1], samples=SAMPLES).value
    record = {"positions": len(p), "arrivals": rates.cumsum(-1).clamp_max(1).sum(0).tolist()}
    return record | {
        kind: [float(accepted(p, q, n).sum()) for n in DRAFTS] for kind, accepted in KINDS.items()
    }


def summary(runs: Mapping[str, Sequence[Row]]) -> Row:
    """The results of the experiment: a list with an entry for each model pair and each number n of drafts."""
    rng = np.random.default_rng(0)
    pairs = torch.from_numpy(rng.dirichlet(np.full(RANDOM_TOKENS, 0.5), (RANDOM_PAIRS, 2)))
    random = [{"text": i} | sums(p[None], q[None]) for i, (p, q) in enumerate(pairs)]
    points = [
        {"pair": pair, "drafts": n, "positions": sum(run["positions"] for run in some)}
        | {
            kind: quotient([run | {kind: run[kind][n - 1]} for run in some], kind, "positions")
            for kind in ("arrivals", *KINDS)
        }
        for pair, some in {**runs, RANDOM: random}.items()
        for n in DRAFTS
    ]
    return {"points": points}


EXPERIMENT = TextExperiment(
    name="experiments.lists",
    about="Compare the first arrivals of one race with the winners of several.",
    measured=measured,
    summary=summary,
    texts={STORIES: 40, SMOLLM2: 12},
)

if __name__ == "__main__":
    EXPERIMENT.main()
