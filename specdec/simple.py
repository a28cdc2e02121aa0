"""GSD and ERSD on real models, in one short file: read it after `algorithms` and before `decoding.engine`.

    algorithms         one round on tables of probabilities, as the paper states it
    simple             whole texts from models of transformers, with a plain cache
    decoding.engine    the same rounds for any model and every rule, with records, batches and fast caches

A round drafts a tree, scores it in one masked forward pass of the target, verifies it, and keeps the accepted
tokens. The caches hold only tokens that were read as text: accepted tokens are read again in the next round,
so that nothing in a cache must be moved. The tests compare the tokens with those of the engine, which uses
the same noise and makes the same decisions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from specdec.algorithms import residual, without
from specdec.models.cache import cache_argument
from specdec.race import Stream, log_exponentials, uniform
from specdec.topology import Path, Topology

Drafted = dict[Path, int]
"""The token of each node of a drafted tree, by its path; () is the root, the last token of the text."""
Rows = dict[Path, np.ndarray]
"""For each node, by its path, the probabilities [vocabulary] of the token after it."""


@torch.inference_mode()
def decode(
    target: PreTrainedModel,
    draft: PreTrainedModel,
    prompt_ids: Sequence[int],
    topology: Topology,
    method: str = "ersd",
    max_new_tokens: int = 64,
    temperature: float = 1.0,
    seed: int = 0,
    eos_ids: Sequence[int] = (),
) -> list[int]:
    """The new tokens after a prompt of at least one token.

    Both models must have the same vocabulary and attend to the whole text: Llama, Qwen and similar models,
    without sliding windows or recurrent states. method: "gsd" or "ersd", else ValueError. temperature: > 0.
    """
    if method not in ("gsd", "ersd"):
        raise ValueError(f"method = {method!r} is neither 'gsd' nor 'ersd'")
    text, end = list(prompt_ids), len(prompt_ids) + max_new_tokens
    scored = Scorer(target, temperature), Scorer(draft, temperature)
    while len(text) < end:
        depth = min(topology.depth, end - len(text) - 1)  # a round adds up to depth + 1 tokens
        drafted, Q = draft_tree(scored[1], text, topology.limited(depth), seed)
        P = scored[0].rows(text, drafted)
        new = ersd(drafted, P, len(text), seed) if method == "ersd" else gsd(drafted, P, Q, len(text), seed)
        for token in new:
            text.append(token)
            if token in eos_ids:
                return text[len(prompt_ids) :]
    return text[len(prompt_ids) :]


def draft_tree(draft: Scorer, text: list[int], topology: Topology, seed: int) -> tuple[Drafted, Rows]:
    """The drafted tree, and Q: the draft's probabilities after each of its inner nodes. It grows by levels.

    A node's children are the first arrivals of the race at its depth.
    """
    drafted: Drafted = {(): text[-1]}
    Q: Rows = {}
    for inner in topology.inner_levels:
        nodes = [topology.path(row) for row in inner if topology.path(row) in drafted]
        if not nodes:
            break
        Q |= draft.rows(text, drafted, nodes)
        for node in nodes:
            order = arrivals(Q[node], len(text) + len(node), seed)
            children = [path for path in topology.paths if path[:-1] == node]
            drafted |= dict(zip(children, order, strict=False))
    return drafted, Q


def ersd(drafted: Drafted, P: Rows, position: int, seed: int) -> list[int]:
    """Algorithm 5: the winners of the target's races along the tree, up to and including the first winner
    that was not drafted.

    position: the position of the token after the root.
    """
    new: list[int] = []
    node: Path | None = ()
    while node is not None:
        new.append(int(arrivals(P[node], position + len(node), seed)[0]))
        children = {drafted[path]: path for path in drafted if path and path[:-1] == node}
        node = children.get(new[-1])
    return new


def gsd(drafted: Drafted, P: Rows, Q: Rows, position: int, seed: int) -> list[int]:
    """Algorithm 4: each child is accepted when u < p / q. After a rejection p becomes the residual."""
    new: list[int] = []
    node: Path = ()
    while True:
        p, q, place, i = P[node], Q.get(node), position + len(node), 0
        while (*node, i) in drafted and q is not None:
            token = drafted[*node, i]
            if uniform(seed, place, i) < p[token] / q[token]:
                break
            p, q, i = residual(p, q), without(q, token), i + 1
        else:
            return [*new, sample(p, uniform(seed, place, 0, Stream.RESIDUAL))]
        new, node = [*new, token], (*node, i)


def arrivals(p: np.ndarray, position: int, seed: int) -> np.ndarray:
    """The tokens with p > 0, in the order of their arrival times e / p (Section 3)."""
    e = log_exponentials(seed, [position], len(p)).double().exp().numpy()[0]  # [vocabulary]
    with np.errstate(divide="ignore"):
        return np.argsort(e / p, kind="stable")[: np.count_nonzero(p)]


def sample(p: np.ndarray, u: float) -> int:
    """The token whose interval of P's running sums, scaled to [0, 1), contains u."""
    sums = p.cumsum()  # [vocabulary]
    return int(np.searchsorted(sums, u * sums[-1], side="right"))


class Scorer:
    """A model, its cache of committed tokens, and the temperature of its probabilities."""

    def __init__(self, model: PreTrainedModel, temperature: float):
        self.model, self.temperature, self.cache = model, temperature, DynamicCache()

    def rows(self, text: list[int], drafted: Drafted, nodes: Sequence[Path] | None = None) -> Rows:
        """The probabilities after these nodes of a tree below the text's last token, in one forward.

        Without `nodes`, after all nodes. The forward pass reads the text's tokens that the cache lacks, and
        then the tree. A node attends to the text, to its ancestors and to itself. Afterwards the tree's nodes
        are removed from the cache.
        """
        cached = self.cache.get_seq_length()
        new, paths = text[cached:], sorted(set(drafted) - {()}, key=len)
        tokens = [*new, *(drafted[path] for path in paths)]  # [n]
        sees = torch.ones(len(tokens), cached + len(tokens), dtype=torch.bool).tril(cached)
        for row, path in enumerate(paths, start=len(new)):
            for other, ancestor in enumerate(paths, start=len(text)):
                sees[row, other] = path[: len(ancestor)] == ancestor
        dtype, device = self.model.dtype, self.model.device
        mask = torch.zeros(sees.shape, dtype=dtype).masked_fill(~sees, torch.finfo(dtype).min)
        places = [*range(cached, len(text)), *(len(text) - 1 + len(path) for path in paths)]
        logits = self.model(
            input_ids=torch.tensor([tokens], device=device),
            position_ids=torch.tensor([places], device=device),
            attention_mask=mask[None, None].to(device),  # [1, 1, n, known + n]
            **{cache_argument(self.model): self.cache},
            use_cache=True,
        ).logits[0]  # [n, vocabulary]
        self.cache.crop(-len(paths))
        chosen_nodes = [(), *paths] if nodes is None else nodes
        lines = {(): len(new) - 1} | {path: row for row, path in enumerate(paths, start=len(new))}
        return {path: self._probabilities(logits[lines[path]]) for path in chosen_nodes}

    def _probabilities(self, logits: torch.Tensor) -> np.ndarray:
        return torch.softmax(logits.double() / self.temperature, -1).cpu().numpy()
