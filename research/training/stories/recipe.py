"""The settings of a training: the shapes of both models, and how they are trained. It names no texts."""

from dataclasses import dataclass

from transformers import LlamaForCausalLM

from research.training.llama import Shape, identity_model
from research.training.loop import Rates

TARGET, DRAFT = Shape(8, 384, 1024, 6), Shape(2, 128, 384, 2)
TARGET_RATES, DRAFT_RATES = Rates(), Rates(matrix_decay=0.01, decay_from=0.5)


@dataclass(frozen=True)
class Phase:
    """A phase of the target's training, which ends at the fraction `until` of the whole training."""

    until: float
    length: int  # tokens per row
    dropout: float


@dataclass(frozen=True)
class Recipe:
    """The settings of a training: shapes of the models, the tokenizer, and the settings of each stage."""

    vocab_size: int = 2048
    context: int = 512
    held_out_every: int = 20  # every 20th story is held out of the training
    target: Shape = TARGET
    target_rates: Rates = TARGET_RATES
    target_steps: int = 1250
    phases: tuple[Phase, ...] = (Phase(0.55, 256, 0.0), Phase(1.0, 512, 0.1))
    step_tokens: int = 12288
    micro_tokens: int = 2048  # of one forward and backward pass
    chunks: int = 48  # the number of files of samples, of which the first is held out
    chunk_tokens: int = 36864  # the number of tokens in each of these files
    top: int = 128  # the number of probabilities stored at each position
    draft: Shape = DRAFT
    draft_rates: Rates = DRAFT_RATES
    draft_steps: int = 4000
    draft_step_tokens: int = 8192
    seed: int = 0

    def model(self, shape: Shape) -> LlamaForCausalLM:
        """An untrained model for the story pair."""
        ends = {"tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 0}
        return identity_model(shape, self.vocab_size, self.context, self.seed, **ends)


SMOKE = Recipe(
    vocab_size=300,
    context=128,
    held_out_every=5,
    target=Shape(2, 32, 64, 2),
    target_rates=Rates(warm_up=4),
    target_steps=6,
    phases=(Phase(0.5, 32, 0.0), Phase(1.0, 128, 0.1)),
    step_tokens=256,
    micro_tokens=128,
    chunks=2,
    chunk_tokens=256,
    top=32,
    draft=Shape(1, 16, 32, 1),
    draft_rates=Rates(matrix_decay=0.01, decay_from=0.5, warm_up=4),
    draft_steps=6,
    draft_step_tokens=256,
)
"""Settings for a pair that is trained in seconds, with which every stage can be tried."""
