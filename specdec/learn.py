"""Learns context-aware acceptance (`context`) from texts of the target.

The text before a verified node of a draft tree has the target's distribution. So texts of the target, with P
and Q at each position, are sufficient data. For each position a race and a set of uniforms are drawn. The
hazards are fitted to predict which child is accepted with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, pad

from specdec.checks import among, whole
from specdec.context import ContextAcceptance
from specdec.context.acceptance import STAGES, Hazards, raced_features, tested_features
from specdec.context.features import WIDTH, of_children, of_node
from specdec.decoding.run import generate
from specdec.models import Model
from specdec.probs import Sampling, log_probs
from specdec.race import derived_seed
from specdec.theory.trials import gsd_tests
from specdec.topology import sequence
from specdec.trace import Method

if TYPE_CHECKING:
    from specdec.pair import ModelPair

_CHUNK = 64
"""The number of tokens that are scored in one forward pass."""
_RIDGE = 1e-4
"""The weight of the penalty on squared weights. It keeps the weights finite if a feature never varies."""
_TEXT = 200
"""The largest number of tokens in one text."""


class Samples(NamedTuple):
    """Positions of texts: the features of each stage, [n, WIDTH, features], and which children were accepted.

    accepted: bool [n, WIDTH], true for at most one child of a position. offered: bool [n, WIDTH], whether
    there is such a child; false for children beyond the number of tokens with q > 0.
    """

    stages: dict[str, Tensor]
    accepted: Tensor
    offered: Tensor


def learn_context(
    pair: ModelPair,
    prompts: Sequence[str | Sequence[int]],
    *,
    method: Method = "ersd",
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    tokens: int = 20_000,
    seed: int = 0,
) -> ContextAcceptance:
    """Learns a pair's context-aware acceptance from at least `tokens` tokens of text after these prompts.

    ValueError for an invalid argument, as in `generate`.
    """
    among("method", method, STAGES)
    if isinstance(prompts, str) or not isinstance(prompts, Iterable) or not (prompts := list(prompts)):
        raise ValueError(f"prompts = {prompts!r:.60} must be a list of prompts")
    sampling = Sampling(temperature, top_k, top_p)
    noise = torch.Generator().manual_seed(seed)
    texts = _texts(pair, prompts, sampling, whole("tokens", tokens, 1), seed)
    samples = _joined([sampled(*_distributions(pair, sampling, *text), method, noise) for text in texts])
    if not samples.accepted.any():
        raise ValueError(
            f"tokens = {tokens}: in so few tokens no drafted token was accepted, so there is nothing "
            f"to learn; raise tokens, or try another draft"
        )
    return fitted(samples, method)


def sampled(log_p: Tensor, log_q: Tensor, method: Method, noise: torch.Generator) -> Samples:
    """Samples at n positions. Each position gets a newly drawn race, and for GSD also new uniforms.

    log_p, log_q: [n, vocabulary].
    """
    e = torch.empty(log_q.shape, dtype=torch.float64).exponential_(generator=noise).log_()
    width = min(WIDTH, log_q.shape[-1])
    times, tokens = (e - log_q).topk(min(WIDTH + 1, log_q.shape[-1]), -1, largest=False)
    children, offered = tokens[:, :width], times[:, :width].isfinite()
    if method == "ersd":
        accepted = children == (e - log_p).argmin(-1, keepdim=True)
        stages = {"drafted": raced_features(log_q, times, children)}
    else:
        uniforms = torch.rand(len(log_q), WIDTH, dtype=torch.float64, generator=noise)
        first = gsd_tests(log_p.double().exp(), log_q.double().exp(), children, uniforms)
        accepted = first[:, None] == torch.arange(width)
        # one call for each position: nodes of a level share uniforms, but positions of a text do not
        tested = torch.cat([tested_features(q[None], u) for q, u in zip(log_q, uniforms, strict=True)])
        drafted = torch.cat([tested, of_children(log_q, children)], -1)
        stages = {"node": of_node(log_q), "tested": tested, "drafted": drafted}
    missing = (0, WIDTH - width)
    return Samples(stages, pad(accepted & offered, missing), pad(offered, missing))


def fitted(samples: Samples, method: Method) -> ContextAcceptance:
    """The acceptance whose hazards fit the samples best, by penalised maximum likelihood at each stage."""
    at_risk = _at_risk(samples).float()
    stages = {
        name: _hazards(features, samples.accepted.float(), at_risk)
        for name, features in samples.stages.items()
    }
    return ContextAcceptance(method, tuple(samples.accepted.double().mean(0).tolist()), stages)


def _hazards(features: Tensor, accepted: Tensor, at_risk: Tensor) -> Hazards:
    centre, scale = features.mean((0, 1)), features.std((0, 1)).clamp_min(1e-6)
    standard = (features - centre) / scale
    weights = torch.zeros(WIDTH, features.shape[-1], dtype=torch.float32, requires_grad=True)
    bias = torch.zeros(WIDTH, dtype=torch.float32, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        logits = (standard * weights).sum(-1) + bias
        terms = binary_cross_entropy_with_logits(logits, accepted, weight=at_risk, reduction="sum")
        total = terms / len(features) + _RIDGE * (weights.square().sum() + bias.square().sum())
        total.backward()
        return total

    optimizer.step(loss)
    with torch.no_grad():
        return Hazards(weights / scale, bias - (weights * centre / scale).sum(-1))


def _at_risk(samples: Samples) -> Tensor:
    """The offered children that have no accepted earlier sibling, bool [n, WIDTH]."""
    earlier = samples.accepted.cumsum(-1) - samples.accepted.long()
    return samples.offered & (earlier == 0)


def _joined(parts: Sequence[Samples]) -> Samples:
    stages = {name: torch.cat([part.stages[name] for part in parts]) for name in parts[0].stages}
    accepted, offered = (torch.cat([getattr(part, name) for part in parts]) for name in Samples._fields[1:])
    return Samples(stages, accepted, offered)


def _texts(
    pair: ModelPair, prompts: Sequence[str | Sequence[int]], sampling: Sampling, tokens: int, seed: int
) -> Iterator[tuple[list[int], int]]:
    """Texts of the target, each as the token ids of prompt and text, and the index where the text begins."""
    num_tokens = number = 0
    while num_tokens < tokens:
        prompt, own = prompts[number % len(prompts)], derived_seed(seed, number)
        g = generate(pair, prompt, topology=sequence(4), max_new_tokens=_TEXT, seed=own, **asdict(sampling))
        num_tokens, number = num_tokens + len(g.token_ids), number + 1
        yield [*g.prompt_ids, *g.token_ids], len(g.prompt_ids)


def _distributions(
    pair: ModelPair, sampling: Sampling, ids: Sequence[int], start: int
) -> tuple[Tensor, Tensor]:
    """log P and log Q [n, vocabulary] of the tokens from index `start` on, each given the text before it."""
    end = min(len(ids), pair.drafting.context_length, pair.target.context_length)
    log_p, log_q = (scored(model, ids[:end], start, pair, sampling) for model in (pair.target, pair.drafting))
    return log_p, log_q


@torch.inference_mode()
def scored(
    model: Model, ids: Sequence[int], start: int, pair: ModelPair, sampling: Sampling, at_once: int = _CHUNK
) -> Tensor:
    """Log-probabilities [n, vocabulary] of the tokens from index `start` on, on the CPU. at_once: tokens of
    one forward pass."""
    session, rows = model.session(), []
    if start > 1:
        session.prefill(ids[: start - 1])
    for first in range(start - 1, len(ids) - 1, at_once):
        chunk = torch.tensor(ids[first : min(first + at_once, len(ids) - 1)], device=model.device)
        logits = session.forward(chunk, range(-1, len(chunk) - 1))
        session.commit(range(len(chunk)))
        rows.append(log_probs(logits, sampling, pair.vocab_size).cpu())
    return torch.cat(rows).clone()
