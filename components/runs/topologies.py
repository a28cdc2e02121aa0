"""Finds the tree for a run from the topology's name, after a measurement if necessary.

The module also reads and writes trees in the notation of the page's address.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import specdec
from components.visitors import limits
from specdec.checks import among
from specdec.context.acceptance import STAGES
from specdec.decoding.acceptance import Steps, finished, measured_as, measuring
from specdec.drafters.catalogue import has_tree
from specdec.figures.topologies import TOPOLOGIES
from specdec.pair import ModelPair
from specdec.probs import Sampling
from specdec.settings import RunSettings

NAMES = tuple(TOPOLOGIES)
WITHOUT_K = tuple(name for name, entry in TOPOLOGIES.items() if not entry.takes_k)
MEASURED = tuple(name for name, entry in TOPOLOGIES.items() if entry.measured)

_TEMPERATURE, _TOP_P = 0.1, 0.05
"""Temperature and top-p are rounded to these steps before acceptance is measured, because acceptance hardly
changes within a step. So one measurement serves all visitors whose values are rounded alike."""
_MOST_TEMPERATURE, _MOST_TOP_K = 2.0, 1024


def has_to_measure(settings: Any) -> bool:
    """Whether the tree for these settings depends on the pair's acceptance, which must then be measured."""
    drafts = has_tree(settings.method, settings.drafter)
    return drafts and settings.topology in MEASURED and not settings.tree


def can_draft(pair: ModelPair) -> bool:
    """Whether this pair has a draft model, and both of its models can score several tokens in one call."""
    return pair.draft is not None and "ar" not in (pair.target.capability, pair.draft.capability)


def topology(pair: ModelPair, name: str, k: int, **settings: Any) -> Any:
    """Choose the topology as `steps` does, and wait for the result."""
    return finished(steps(pair, name, k, **settings))


def steps(pair: ModelPair, name: str, k: int, *, tree: str = "", method: str, **sampling: Any) -> Steps[Any]:
    """Choose the topology of that name for `specdec.stream`, in small steps if it must be measured.

    tree: the tree to use instead of a measured one, in the notation of `written`. sampling: temperature,
    top_k and top_p; acceptance is measured at values near them (`neighbour`).
    ValueError lists the known names or says which value does not fit.
    """
    if among("topology", name, NAMES) == "auto":
        return name
    if name in MEASURED:
        return read(tree) if tree else (yield from _optimal(pair, k, method, Sampling(**sampling)))
    if name == "context":
        return _context_tree(pair, k, method)
    return specdec.topology.named(name, k)


def measurement(pair: ModelPair, settings: Any) -> Hashable | None:
    """A key for the measurement that a run with these settings needs; None if it needs none.

    Runs with the same key can use the same result.
    """
    if not has_to_measure(settings):
        return None
    neighbour = _at_neighbour(settings.method, Sampling(settings.temperature, settings.top_k, settings.top_p))
    return None if _shipped(pair, neighbour) else (id(pair), measured_as(settings.method), neighbour.sampling)


def _optimal(pair: ModelPair, k: int, method: str, sampling: Sampling) -> Steps[Any]:
    settings = _at_neighbour(method, sampling)
    if shipped := _shipped(pair, settings):
        return specdec.optimal_topology(shipped, k)
    return specdec.optimal_topology((yield from measuring(pair, settings)), k)


def _at_neighbour(method: str, sampling: Sampling) -> RunSettings:
    """The settings of the measurement for runs with this method and sampling."""
    return RunSettings(method, 1, neighbour(sampling), None, False)


def _shipped(pair: ModelPair, settings: RunSettings) -> Sequence[float] | None:
    """The embedded pair's acceptance by child index, measured after its training; None for other pairs and
    settings.

    It is known for temperature 1 without top-k and top-p, the page's defaults. So the first run with these
    settings does not wait for a measurement.
    """
    if not is_embedded(pair) or settings.sampling != Sampling():
        return None
    return _shipped_acceptance()[measured_as(settings.method)]


def is_embedded(pair: ModelPair) -> bool:
    """Whether these are the models that ship with the page."""
    return (pair.target.name, getattr(pair.draft, "name", None)) == ("stories/target", "stories/draft")


@cache
def _shipped_acceptance() -> dict[str, list[float]]:
    return json.loads((specdec.loading.EMBEDDED / "measurements.json").read_bytes())["acceptance"]["by_index"]


def neighbour(sampling: Sampling) -> Sampling:
    """The sampling with rounded temperature, top-k and top-p. Acceptance that is measured with the rounded
    values serves all samplings that are rounded to them."""
    temperature = min(round(sampling.temperature / _TEMPERATURE) * _TEMPERATURE, _MOST_TEMPERATURE)
    top_p = min(max(round(sampling.top_p / _TOP_P), 1) * _TOP_P, 1.0)
    top_k = 1 << (sampling.top_k - 1).bit_length() if sampling.top_k else 0
    return Sampling(round(temperature, 2), top_k if top_k <= _MOST_TOP_K else 0, round(top_p, 2))


def written(tree: specdec.Topology) -> str:
    """Write a tree in the notation of the page's address: the number of children of each node, level by
    level.

    "3.1.1" is a root with three children of which the first two have one child each. Zeros at the end are
    left out.
    """
    counts = [str(len(children)) for children in tree.children]
    return ".".join(counts[: 1 + max((row for row, n in enumerate(counts) if n != "0"), default=0)])


def read(text: str) -> specdec.Topology:
    """Read a tree from the notation that `written` describes.

    ValueError if the text describes no tree, or too large a one.
    """
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4})*", text):
        raise ValueError(
            f"tree = {text!r:.60} is not a tree: give the number of children of each node, level by level, "
            "such as 3.1.1: the root has three children, and the first two of these have one each"
        )
    counts = [int(part) for part in text.split(".")]
    limits.at_most("tree", sum(counts), limits.current().draft_tokens, "tokens")
    if any(row >= size for row, size in zip(range(len(counts)), accumulate(counts, initial=1))):
        raise ValueError(f"tree = {text!r:.60} gives a number of children to nodes that do not exist")
    parents = [-1] + [row for row, n in enumerate(counts) for _ in range(n)]
    indices = [-1] + [index for n in counts for index in range(n)]
    return specdec.Topology.from_parents(parents, indices)


def _context_tree(pair: ModelPair, k: int, method: str) -> Any:
    # the tree's acceptance table was learnt at temperature 1; the texts are exact at every temperature
    if not is_embedded(pair) or method not in STAGES:
        raise ValueError(
            "topology = 'context' is learnt for the embedded pair, GSD and ERSD; for others learn it with "
            "specdec.learn.learn_context, or take 'optimal'"
        )
    path = specdec.loading.EMBEDDED / f"context.{method}.json"
    return specdec.ContextTree(specdec.context.ContextAcceptance.load(path), k)
