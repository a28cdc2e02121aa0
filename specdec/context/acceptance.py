"""Acceptance by index given the context: R(index | features of the draft's distribution at a node)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdec.checks import among
from specdec.context import features
from specdec.context.features import WIDTH
from specdec.trace import Method

STAGES: dict[Method, tuple[str, ...]] = {"gsd": ("node", "tested", "drafted"), "ersd": ("drafted",)}
"""The stages at which each method estimates acceptance. GSD has three: "node" uses features of q only;
"tested" also uses the uniforms of the tests; "drafted" also uses the children. ERSD has one, "drafted", which
uses q, the children and their arrival times."""


@dataclass(frozen=True)
class Hazards:
    """Logistic hazards: the probability that child i is accepted, given that no earlier child was.

    weights: [WIDTH, features]. bias: [WIDTH].
    """

    weights: Tensor
    bias: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """Hazards [n, WIDTH] from features [n, WIDTH, features], on the device of the weights."""
        features = features.to(self.weights.device)
        return ((features * self.weights).sum(-1) + self.bias).sigmoid()


@dataclass(frozen=True)
class ContextAcceptance:
    """Context-aware acceptance of one pair, for one method and one sampling.

    average: acceptance by child index without any features (R of 0-th order in the paper), [WIDTH]. stages:
    hazards for each stage of `STAGES`. `specdec.learn.learn_context` learns both.
    """

    method: Method
    average: tuple[float, ...]
    stages: dict[str, Hazards]

    def __post_init__(self) -> None:
        among("method", self.method, STAGES)
        if set(self.stages) != set(STAGES[self.method]):
            raise ValueError(f"stages = {sorted(self.stages)} must be {', '.join(STAGES[self.method])}")
        rates = self.average
        if len(rates) != WIDTH or not all(0 <= rate <= 1 for rate in rates) or sum(rates) > 1 + 1e-6:
            raise ValueError(f"average = {rates} must be {WIDTH} rates of at least 0 that sum to at most 1")

    def of_node(self, log_q: Tensor) -> Tensor:
        """For n nodes, the probabilities [n, WIDTH] that GSD accepts child i if it rejected all earlier
        children.

        They are computed from log_q [n, vocabulary], before the children are drawn.
        """
        return self.stages["node"](features.of_node(log_q))

    def of_tested(self, log_q: Tensor, uniforms: Tensor) -> Tensor:
        """GSD's hazards [n, WIDTH] before children are drawn, given uniforms [WIDTH] that will test them."""
        return self.stages["tested"](tested_features(log_q, uniforms))

    def of_drafted_gsd(self, log_q: Tensor, uniforms: Tensor, children: Tensor) -> Tensor:
        """GSD's acceptance [n, WIDTH] of the drafted `children`: tokens in order of arrival, int64 [n, up to
        WIDTH]."""
        columns = torch.cat([tested_features(log_q, uniforms), features.of_children(log_q, children)], -1)
        return marginal(self.stages["drafted"](columns))

    def of_drafted_ersd(self, log_q: Tensor, times: Tensor, children: Tensor) -> Tensor:
        """ERSD's acceptance [n, WIDTH] of drafted `children`, given the log times [n, up to WIDTH + 1] of the
        first arrivals."""
        return marginal(self.stages["drafted"](raced_features(log_q, times, children)))

    def save(self, path: Path) -> None:
        """Writes the acceptance to a JSON file."""
        stages = {
            name: {"weights": h.weights.tolist(), "bias": h.bias.tolist()} for name, h in self.stages.items()
        }
        path.write_text(
            json.dumps({"method": self.method, "average": self.average, "stages": stages}) + "\n",
            encoding="utf-8",
        )

    @classmethod
    def load(cls, path: Path) -> ContextAcceptance:
        """Reads a file that `save` wrote; ValueError for any other file."""
        try:
            plain = json.loads(path.read_bytes())
            stages = {name: _hazards(stage) for name, stage in plain["stages"].items()}
            return cls(plain["method"], tuple(plain["average"]), stages)
        except (OSError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not a file of context-aware acceptance: {error!r}") from None


def tested_features(log_q: Tensor, uniforms: Tensor) -> Tensor:
    """The features of q and the features of the uniforms that will test the children, concatenated."""
    uniforms = uniforms.to(log_q.device)
    return torch.cat([features.of_node(log_q), features.of_uniforms(uniforms, len(log_q))], -1)


def raced_features(log_q: Tensor, times: Tensor, children: Tensor) -> Tensor:
    """The features of q, of the drafted children and of the gaps between their arrivals, concatenated."""
    parts = [features.of_node(log_q), features.of_children(log_q, children), features.of_arrivals(times)]
    return torch.cat(parts, -1)


def marginal(hazards: Tensor) -> Tensor:
    """The probability that each child is the accepted one, [n, WIDTH], from hazards [n, WIDTH]."""
    survival = torch.cat([torch.ones_like(hazards[:, :1]), (1 - hazards).cumprod(-1)[:, :-1]], -1)
    return hazards * survival


def _hazards(stage: dict[str, Any]) -> Hazards:
    weights, bias = (torch.tensor(stage[name], dtype=torch.float32) for name in ("weights", "bias"))
    if weights.dim() != 2 or len(weights) != WIDTH or bias.shape != (WIDTH,):
        raise ValueError(
            f"hazards have shapes {tuple(weights.shape)} and {tuple(bias.shape)}; {WIDTH} rows are needed"
        )
    return Hazards(weights, bias)
