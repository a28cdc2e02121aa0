"""How often an audit notices an engine whose second token is off: `python -m research.audit.power`.

The engine samples the embedded target exactly, but for its second token: the likeliest token loses a
probability of `--shift`, and all others gain it in proportion. A shift of 0 is an engine that is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np

from specdec.checks import real, whole
from specdec.commands import Parser, ended
from specdec.exactness.audit.distribution import TargetDistribution
from specdec.exactness.audit.run import Sample, audit
from specdec.loading import load_pair
from specdec.probs import Sampling


def shifted_engine(distribution: TargetDistribution, shift: float) -> Sample:
    """An engine that samples this distribution, with its second token off by at most `shift`.

    shift: a total variation.
    """

    @cache
    def after(tokens: tuple[int, ...]) -> np.ndarray:
        probabilities = distribution.after(tokens)[-1]
        if len(tokens) == 1:
            likeliest = probabilities.argmax()
            less = max(probabilities[likeliest] - shift, 0.0)
            probabilities *= (1 - less) / (1 - probabilities[likeliest])
            probabilities[likeliest] = less
        return probabilities.cumsum()

    def sample(_: Sequence[int], seed: int, max_new_tokens: int, *_sampling: float) -> list[int]:
        generator, tokens = np.random.default_rng(seed), list[int]()
        while len(tokens) < max_new_tokens and distribution.end not in tokens:
            sums = after(tuple(tokens))
            tokens.append(int(np.searchsorted(sums, generator.random() * sums[-1], side="right")))
        return tokens

    return sample


def main(arguments: Sequence[str] | None = None) -> None:
    """Audits the engine many times, with other seeds, and prints the verdicts.

    ValueError is a user's mistake.
    """
    parser = Parser(prog="python -m research.audit.power", description=__doc__)
    parser.add_argument("--shift", type=float, default=0.05, help="total variation (default: 0.05)")
    parser.add_argument("--decodes", type=int, default=2000, help="of an audit's run (default: 2000)")
    parser.add_argument("--audits", type=int, default=20, help="(default: 20)")
    parser.add_argument("--prompt", default="Once upon a time")
    options = parser.parse_args(arguments)
    shift = real(options.shift)
    if shift is None or not 0 <= shift <= 1:
        raise ValueError(f"--shift = {options.shift!r} is not a number from 0 to 1")
    audits, decodes = whole("--audits", options.audits, 1), whole("--decodes", options.decodes, 100)
    pair = load_pair("stories")
    engine = shifted_engine(TargetDistribution(pair, pair.encode(options.prompt), Sampling(top_k=4)), shift)
    verdicts: Counter[str] = Counter()
    for number in range(audits):
        report = audit(engine, pair, options.prompt, decodes=decodes, seed=number * decodes)
        verdicts[report.verdict] += 1
    print(f"a second token off by {shift:g}, {audits} audits of {decodes:,} decodes: {dict(verdicts)}")


if __name__ == "__main__":
    with ended():
        main()
