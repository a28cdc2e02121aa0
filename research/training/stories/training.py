"""The training loop of both models, on one or several processes.

Each process computes the gradient of its own rows. The gradients are averaged, each process updates its share
of the matrices, and all exchange the shares. Every process therefore holds the same model after every step.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from transformers import LlamaForCausalLM

from research.training.files import save
from research.training.stories.recipe import Budget, Recipe

Loss = tuple[float, Tensor, int]
Losses = Callable[[int, float], Iterator[Loss]]
"""(step, progress) -> for each micro-batch: its share of the step, its loss, its number of tokens."""


def rate_at(progress: float, step: int, warm_up: int, decay_from: float) -> float:
    """The factor of the learning rate: a warm-up, then a plateau, then a straight line to zero."""
    falling = (1 - progress) / (1 - decay_from)
    return max(0.0, min(1.0, (step + 1) / warm_up, falling))


class Trainer:
    """Trains one model. `run` continues from the last checkpoint in `folder`.

    rank, world: the number of this process, and how many there are. Muon updates the matrices in the layers,
    and AdamW all other parameters.
    """

    def __init__(
        self,
        name: str,
        model: LlamaForCausalLM,
        recipe: Recipe,
        budget: Budget,
        folder: Path,
        rank: int = 0,
        world: int = 1,
        checkpoint_seconds: float = 180.0,
    ):
        if not hasattr(torch.optim, "Muon"):
            raise RuntimeError(
                f"training needs torch.optim.Muon (torch 2.9 or newer); this is {torch.__version__}"
            )
        self.name, self.model, self.recipe, self.budget = name, model, recipe, budget
        self.folder, self.rank, self.world = folder, rank, world
        self.checkpoint_seconds = checkpoint_seconds
        self.parameters = list(model.parameters())
        matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
        vectors = list({id(p): p for p in self.parameters if not any(p is m for m in matrices)}.values())
        self.shares = [matrices[r::world] for r in range(world)]
        muon = torch.optim.Muon(self.shares[rank], weight_decay=recipe.matrix_decay, momentum=0.95)
        adam = torch.optim.AdamW(vectors, betas=(0.9, 0.95), weight_decay=0.0, foreach=True)
        self.optimizers = {muon: recipe.matrix_rate, adam: recipe.vector_rate}
        self.step, self.seconds, self.tokens = 0, 0.0, 0
        self.history: list[dict[str, Any]] = []
        self.recent: list[float] = []

    def run(
        self, losses: Losses, evaluate: Callable[[], dict[str, float]], evaluate_every: int = 200
    ) -> None:
        """Trains until the budget is spent, then writes the model, and a record that marks it as finished.

        evaluate: returns numbers for the record; only process 0 calls it.
        """
        self._resume()
        started, saved, shown = time.time() - self.seconds, time.time(), 0.0
        while (progress := self._agreed(self.budget.progress(self.step, self.seconds))) < 1:
            self._one_step(losses, progress)
            self.seconds = time.time() - started
            if self.step % evaluate_every == 0:
                self._record(progress, evaluate)
            if self._agreed(float(time.time() - saved > self.checkpoint_seconds)):
                self._save()
                saved = time.time()
            if self.rank == 0 and time.time() - shown > 20:
                self._show(progress)
                shown = time.time()
        self._record(1.0, evaluate)
        self._save()
        if self.rank == 0:
            self.model.set_attn_implementation("sdpa")
            self.model.save_pretrained(self.folder / self.name)
            (self.folder / f"{self.name}.json").write_text(json.dumps(self.history, indent=1))

    def _one_step(self, losses: Losses, progress: float) -> None:
        torch.manual_seed((self.recipe.seed * 1_000_003 + self.step) * 64 + self.rank)
        total = 0.0
        for share, loss, tokens in losses(self.step, progress):
            (loss * share).backward()
            total += loss.item() * share
            self.tokens += tokens * self.world
        self._update(rate_at(progress, self.step, self.recipe.warm_up, self.recipe.decay_from))
        self.step += 1
        self.recent = [*self.recent, total][-50:]

    def _update(self, rate: float) -> None:
        """Averages the gradients, updates this process's share, and exchanges the shares."""
        if self.world > 1:
            gradients = [p.grad for p in self.parameters if p.grad is not None]
            flat = torch.cat([g.flatten() for g in gradients])
            dist.all_reduce(flat)
            scatter(flat / self.world, gradients)
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for optimizer, base in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = base * rate
            optimizer.step()
        if self.world > 1:
            for rank, share in enumerate(self.shares):
                flat = torch.cat([p.data.flatten() for p in share])
                dist.broadcast(flat, rank)
                scatter(flat, [p.data for p in share])
        self.model.zero_grad(set_to_none=True)

    def _checkpoint(self) -> Path:
        return self.folder / f"{self.name}-{self.rank}.pt"

    def _save(self) -> None:
        """Writes this process's checkpoint and keeps the previous one.

        After a kill, other processes may have the previous one only.
        """
        path = self._checkpoint()
        if path.exists():
            path.replace(path.with_suffix(".old"))
        counters = {name: getattr(self, name) for name in ("step", "seconds", "tokens", "history", "recent")}
        optimizers = [optimizer.state_dict() for optimizer in self.optimizers]
        save(path, {"counters": counters, "optimizers": optimizers, "model": self.model.state_dict()})

    def _resume(self) -> None:
        """Loads the newest checkpoint that all processes have."""
        paths = [
            path for path in (self._checkpoint().with_suffix(".old"), self._checkpoint()) if path.exists()
        ]
        states = {
            state["counters"]["step"]: state for state in (torch.load(p, weights_only=True) for p in paths)
        }
        common = self._common(sorted(states))
        if not common:
            return
        state = states[max(common)]
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        for name, value in state["counters"].items():
            setattr(self, name, value)

    def _common(self, steps: list[int]) -> set[int]:
        """The steps of which every process has a checkpoint."""
        lists = [steps] * self.world
        if self.world > 1:
            dist.all_gather_object(lists, steps)
        return set.intersection(*map(set, lists))

    def _agreed(self, value: float) -> float:
        """Process 0's value, in all processes."""
        shared = torch.tensor(value, dtype=torch.float64)
        if self.world > 1:
            dist.broadcast(shared, 0)
        return shared.item()

    def _record(self, progress: float, evaluate: Callable[[], dict[str, float]]) -> None:
        """Evaluates the model in process 0, and adds the step to the history in all processes."""
        loss = sum(self.recent) / len(self.recent)
        entry = {"step": self.step, "tokens": self.tokens, "progress": progress, "loss": loss}
        if self.rank == 0:
            entry |= evaluate()
            print(f"{self.name}: {json.dumps(entry)}", flush=True)
        self.history.append(entry)

    def _show(self, progress: float) -> None:
        minutes = self.seconds * (1 - progress) / max(progress, 1e-6) / 60
        print(
            f"{self.name}: step {self.step}, {progress:.1%}, loss {sum(self.recent) / len(self.recent):.3f}, "
            f"{self.tokens / self.seconds:,.0f} tokens/s, {minutes:.1f} minutes left",
            flush=True,
        )


def scatter(flat: Tensor, into: list[Tensor]) -> None:
    """Copy consecutive parts of a flat tensor into the given ones.

    >>> a, b = torch.zeros(2), torch.zeros(1, 1); scatter(torch.tensor([1.0, 2.0, 3.0]), [a, b]); b.item()
    3.0
    """
    for tensor, part in zip(into, flat.split([t.numel() for t in into])):
        tensor.copy_(part.view_as(tensor))


def in_processes(function: Callable[..., None], processes: int, work: Path, *arguments: object) -> None:
    """Runs function(rank, processes, work, ...) in each process, connected by gloo.

    A single one runs right here.
    """
    if processes == 1:
        function(0, 1, work, *arguments)
        return
    meeting = work / f"meeting-{os.getpid()}-{function.__name__}"
    torch.multiprocessing.spawn(_enter, (function, processes, meeting, work, *arguments), processes)


def _enter(rank: int, function: Callable[..., None], world: int, meeting: Path, *arguments: object) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting.resolve()}", rank=rank, world_size=world)
    function(rank, world, *arguments)
    dist.destroy_process_group()
