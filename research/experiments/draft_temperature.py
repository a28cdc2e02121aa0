"""ERSD with a draft at a lower or higher temperature than its target: the speed changes, the text does not.

The target decodes at temperature 1, on the trees of `research.experiments.rules`. Every text is compared with
the text of plain decoding with the same seed. Gains are relative to a draft at the target's own temperature.
All intervals are 95%, clustered by prompt.
"""

from functools import lru_cache

from research.experiments.comparison import AT_ONCE, Comparison
from specdec import ModelPair, generate
from specdec.decoding.run import Run

TEMPERATURES = (0.25, 0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.6, 2.0)
BESIDE = 1.0  # the target's own temperature, to which the other temperatures of the draft are compared


def same_text(run: Run) -> None:
    """AssertionError, which ends the experiment, if the text of a run differs from that of plain decoding."""
    plain = _plain(run.pair, run.prompt_ids, run.seed, run.settings.max_new_tokens)
    assert run.generation.token_ids == plain, f"a text differs from plain decoding's: seed {run.seed}"


@lru_cache(2 * AT_ONCE)
def _plain(pair: ModelPair, prompt_ids: tuple[int, ...], seed: int, length: int) -> list[int]:
    return generate(pair, prompt_ids, method="ar", seed=seed, max_new_tokens=length).token_ids


EXPERIMENT = Comparison(
    name="experiments.draft_temperature",
    about="Measure ERSD with drafts of other temperatures.",
    grid={"tree": (), "draft_temperature": TEMPERATURES},
    seed=0x74656D70,
    differences=lambda point, estimates: {"gain": estimates[point] - estimates[point[0], BESIDE]},
    check=same_text,
)

if __name__ == "__main__":
    EXPERIMENT.main()
