"""The training loop of all models: optimizers, learning rates, checkpoints and progress."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers import LlamaForCausalLM

Backward = Callable[[float, torch.Generator], tuple[float, int]]
"""Adds a step's gradients, given the finished share of the training; returns loss and number of tokens."""


@dataclass(frozen=True)
class Rates:
    """The learning rates and weight decays. Muon updates the layers' matrices, AdamW all other weights."""

    matrix: float = 0.02
    other: float = 3e-3
    matrix_decay: float = 0.05
    other_decay: float = 0.0  # for matrices that are not in the layers
    warm_up: int = 100  # steps
    decay_from: float = 0.7  # the share of the training after which the learning rate falls to zero

    def factor(self, progress: float, step: int) -> float:
        """The factor on learning rates: it rises during the warm-up, stays at 1, then falls linearly to 0."""
        return max(0.0, min(1.0, (step + 1) / self.warm_up, (1 - progress) / (1 - self.decay_from)))


class Trainer:
    """Trains one model for a number of steps. If `folder` has a checkpoint, training continues from it.

    The final weights do not depend on whether the training was stopped in between. Muon needs torch 2.9.
    """

    checkpoint_seconds = 120.0

    def __init__(
        self, name: str, model: LlamaForCausalLM, rates: Rates, steps: int, folder: Path, seed: int = 0
    ):
        self.name, self.model, self.rates, self.steps, self.seed = name, model, rates, steps, seed
        self.checkpoint = folder / f"{name}-state.pt"
        matrices = {name: p for name, p in model.named_parameters() if p.ndim == 2}
        inner, ends = ([p for n, p in matrices.items() if (".layers." in n) == own] for own in (True, False))
        groups = [
            {"params": ends, "weight_decay": rates.other_decay},
            {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimizers = {
            torch.optim.Muon(inner, weight_decay=rates.matrix_decay, momentum=0.95): rates.matrix,
            torch.optim.AdamW(groups, betas=(0.9, 0.95)): rates.other,
        }
        self.step, self.tokens = 0, 0
        self.history: list[dict[str, Any]] = []
        self.recent: list[float] = []  # the latest losses
        if self.checkpoint.exists():
            checkpoint = torch.load(self.checkpoint, weights_only=True)
            self.model.load_state_dict(checkpoint["model"])
            for optimizer, state in zip(self.optimizers, checkpoint["optimizers"], strict=True):
                optimizer.load_state_dict(state)
            vars(self).update(checkpoint["counters"])

    def run(self, backward: Backward, evaluate: Callable[[], dict[str, float]]) -> None:
        """Trains until all steps are done. evaluate: returns numbers by name, for the history."""
        last_save = time.time()
        with tqdm(desc=self.name, total=self.steps, initial=self.step, mininterval=10) as bar:
            while self.step < self.steps:
                self.one_step(backward)
                bar.set_postfix(loss=f"{self.recent[-1]:.3f}", refresh=False)
                bar.update()
                if self.step % 200 == 0 or self.step == self.steps:
                    loss = sum(self.recent) / len(self.recent)
                    self.history.append({"step": self.step, "tokens": self.tokens, "loss": loss} | evaluate())
                    print(f"{self.name}: {json.dumps(self.history[-1])}", flush=True)
                if time.time() - last_save > self.checkpoint_seconds or self.step == self.steps:
                    counters = {name: getattr(self, name) for name in ("step", "tokens", "history", "recent")}
                    states = [optimizer.state_dict() for optimizer in self.optimizers]
                    state = {"optimizers": states, "model": self.model.state_dict(), "counters": counters}
                    save(self.checkpoint, state)
                    last_save = time.time()

    def one_step(self, backward: Backward) -> None:
        """Updates all parameters once."""
        seed, progress = step_seed(self.seed, self.step), self.step / self.steps
        torch.manual_seed(seed)  # for dropout
        loss, tokens = backward(progress, torch.Generator().manual_seed(seed))
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer, rate in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = rate * self.rates.factor(progress, self.step)
            optimizer.step()
        self.model.zero_grad(set_to_none=True)
        self.step, self.tokens, self.recent = self.step + 1, self.tokens + tokens, [*self.recent, loss][-50:]


def step_seed(seed: int, step: int) -> int:
    """The seed of a training's step `step`, or of file number `step` of samples."""
    return (seed * 1_000_003 + step) * 64


def save(path: Path, thing: object) -> None:
    """torch.save, but if the process stops, either the old file or the new file is complete."""
    new = path.with_name(path.name + ".new")
    torch.save(thing, new)
    new.replace(path)
