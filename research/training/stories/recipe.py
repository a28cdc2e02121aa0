"""The settings of a training besides its texts: the shapes of both models and how they are trained."""

from dataclasses import dataclass

import torch
from transformers import LlamaForCausalLM

from research.training.llama import Shape, identity_model

TARGET, DRAFT = Shape(8, 384, 1024, 6), Shape(2, 128, 384, 2)
"""Of the embedded pair."""


@dataclass(frozen=True)
class Phase:
    """A phase of the target's training. until: the fraction of the whole training at which it ends."""

    until: float
    length: int  # tokens per row
    dropout: float


@dataclass(frozen=True)
class Recipe:
    """The shapes, the tokenizer, and the settings of each stage."""

    vocab_size: int = 2048
    context: int = 512
    target: Shape = TARGET
    draft: Shape = DRAFT
    phases: tuple[Phase, ...] = (Phase(0.55, 256, 0.0), Phase(1.0, 512, 0.1))
    held_out_every: int = 20  # every 20th story is held out
    step_tokens: int = 12288  # of all processes together
    micro_tokens: int = 2048  # of one forward and backward
    matrix_rate: float = 0.02
    vector_rate: float = 3e-3
    matrix_decay: float = 0.05
    draft_matrix_decay: float = 0.01
    warm_up: int = 100  # steps
    decay_from: float = 0.7  # the learning rate falls to zero from this fraction on
    draft_decay_from: float = 0.5
    draft_step_tokens: int = 8192
    chunk_tokens: int = 36864  # of samples, per file
    top: int = 128  # probabilities kept per position
    seed: int = 0


SMOKE = Recipe(
    vocab_size=300,
    context=128,
    target=Shape(2, 32, 64, 2),
    draft=Shape(1, 16, 32, 1),
    phases=(Phase(0.5, 32, 0.0), Phase(1.0, 128, 0.1)),
    held_out_every=5,
    step_tokens=256,
    micro_tokens=128,
    warm_up=4,
    draft_step_tokens=256,
    chunk_tokens=256,
    top=32,
)
"""A pair of seconds, to see that everything runs."""


@dataclass(frozen=True)
class Budget:
    """The length of a training: a number of steps, or minutes of wall-clock time."""

    steps: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps = {self.steps}; at least 1")
        if self.steps is None and not (self.minutes or 0) > 0:
            raise ValueError(f"minutes = {self.minutes}; more than 0, or give a number of steps")

    def progress(self, step: int, seconds: float) -> float:
        """The fraction of the training that is done."""
        if self.steps is not None:
            return step / self.steps
        assert self.minutes is not None
        return seconds / (60 * self.minutes)


def step_generator(seed: int, step: int, rank: int) -> torch.Generator:
    """The random generator of one step in one process."""
    return torch.Generator().manual_seed((seed * 1_000_003 + step) * 64 + rank)


def new_model(shape: Shape, recipe: Recipe) -> LlamaForCausalLM:
    """An untrained model of the story pair."""
    return identity_model(shape, recipe.vocab_size, recipe.context, recipe.seed, is_tied=True, end_id=0)
