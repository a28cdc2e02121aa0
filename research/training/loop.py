"""The training loop of all models: optimizers, learning rates, checkpoints and what is shown meanwhile."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers import LlamaForCausalLM

COUNTERS = ("step", "seconds", "tokens", "history", "recent")
Backward = Callable[[float, torch.Generator], tuple[float, int]]
"""Adds a step's gradients, at this fraction of the training. Returns the loss and the number of tokens."""
Evaluate = Callable[[], dict[str, float]]


@dataclass(frozen=True)
class Rates:
    """How parameters are updated: matrices in the layers by Muon, all others by AdamW."""

    matrix: float = 0.02
    other: float = 3e-3
    matrix_decay: float = 0.05
    other_decay: float = 0.0  # of matrices outside of the layers
    warm_up: int = 100  # steps
    decay_from: float = 0.7  # the learning rate falls to zero from this fraction on

    def factor(self, progress: float, step: int) -> float:
        """The factor of the learning rate: a warm-up, then a plateau, then a straight line to zero."""
        return max(0.0, min(1.0, (step + 1) / self.warm_up, (1 - progress) / (1 - self.decay_from)))


@dataclass(frozen=True)
class Budget:
    """The length of a training: a number of steps, or minutes."""

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


class Trainer:
    """Trains one model. It starts from the checkpoint in `folder` if there is one.

    clock: of the budget's minutes.
    """

    checkpoint_seconds = 120.0

    def __init__(
        self,
        name: str,
        model: LlamaForCausalLM,
        rates: Rates,
        budget: Budget,
        folder: Path,
        seed: int = 0,
        clock: Callable[[], float] = time.time,
    ):
        if not hasattr(torch.optim, "Muon"):
            raise RuntimeError(
                f"training needs torch.optim.Muon (torch 2.9 or newer); this is {torch.__version__}"
            )
        self.name, self.model, self.rates, self.budget = name, model, rates, budget
        self.checkpoint, self.seed, self.clock = folder / f"{name}-state.pt", seed, clock
        matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
        others = [p for p in model.parameters() if not any(p is matrix for matrix in matrices)]
        ends = {"params": [p for p in others if p.ndim == 2], "weight_decay": rates.other_decay}
        norms = {"params": [p for p in others if p.ndim < 2], "weight_decay": 0.0}
        muon = torch.optim.Muon(matrices, weight_decay=rates.matrix_decay, momentum=0.95)
        self.optimizers = {
            muon: rates.matrix,
            torch.optim.AdamW([ends, norms], betas=(0.9, 0.95)): rates.other,
        }
        self.step, self.seconds, self.tokens = 0, 0.0, 0
        self.history: list[dict[str, Any]] = []
        self.recent: list[float] = []
        if self.checkpoint.exists():
            self._resume()

    def run(self, backward: Backward, evaluate: Evaluate, evaluate_every: int = 200) -> None:
        """Trains until the budget is spent. evaluate: returns numbers for the history."""
        started, saved = self.clock() - self.seconds, time.time()
        words = "{desc}: {percentage:.1f}%, {remaining} left{postfix}"
        with tqdm(desc=self.name, total=1.0, mininterval=10, bar_format=words) as bar:
            while (progress := self.budget.progress(self.step, self.seconds)) < 1:
                self.one_step(backward, progress)
                self.seconds = self.clock() - started
                speed = f"{self.tokens / self.seconds:,.0f} tokens/s"
                bar.set_postfix_str(f"step {self.step}, loss {self._loss():.3f}, {speed}", refresh=False)
                bar.update(progress - bar.n)
                if self.step % evaluate_every == 0:
                    self._record(progress, evaluate)
                if time.time() - saved > self.checkpoint_seconds:
                    self.save()
                    saved = time.time()
        self._record(1.0, evaluate)
        self.save()

    def one_step(self, backward: Backward, progress: float) -> None:
        """Updates all parameters once."""
        seed = step_seed(self.seed, self.step)
        torch.manual_seed(seed)  # for dropout
        loss, tokens = backward(progress, torch.Generator().manual_seed(seed))
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer, rate in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = rate * self.rates.factor(progress, self.step)
            optimizer.step()
        self.model.zero_grad(set_to_none=True)
        self.step, self.tokens, self.recent = self.step + 1, self.tokens + tokens, [*self.recent, loss][-50:]

    def save(self) -> None:
        """Writes the checkpoint."""
        optimizers = [optimizer.state_dict() for optimizer in self.optimizers]
        state = {"optimizers": optimizers, "model": self.model.state_dict()}
        save(self.checkpoint, state | {"counters": {name: getattr(self, name) for name in COUNTERS}})

    def write(self, folder: Path) -> None:
        """Writes the model, and the history, which marks it as finished."""
        self.model.set_attn_implementation("sdpa")
        self.model.save_pretrained(folder / self.name)
        (folder / f"{self.name}.json").write_text(json.dumps(self.history, indent=1))

    def _resume(self) -> None:
        state = torch.load(self.checkpoint, weights_only=True)
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        for name, value in state["counters"].items():
            setattr(self, name, value)

    def _record(self, progress: float, evaluate: Evaluate) -> None:
        entry = {"step": self.step, "tokens": self.tokens, "progress": progress, "loss": self._loss()}
        self.history.append(entry | evaluate())
        print(f"{self.name}: {json.dumps(self.history[-1])}", flush=True)

    def _loss(self) -> float:
        return sum(self.recent) / len(self.recent)


def step_seed(seed: int, step: int) -> int:
    """The seed of one step of a training, or of one file of samples."""
    return (seed * 1_000_003 + step) * 64


def save(path: Path, thing: object) -> None:
    """torch.save that replaces a file in one step: a stopped process leaves the old file or the new one."""
    new = path.with_name(path.name + ".new")
    torch.save(thing, new)
    new.replace(path)
