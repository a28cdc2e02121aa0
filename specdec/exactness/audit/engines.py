"""The engines that a user can audit by name.

Each engine is a function of a prompt, a seed and the sampling settings, and returns tokens or a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple

from specdec.decoding.run import generate
from specdec.exactness.audit.openai import completions
from specdec.exactness.audit.run import Counting, Sample, named
from specdec.exactness.audit.transformers import assisted, transformers
from specdec.methods import METHODS
from specdec.topology import Topology, batch, sequence

if TYPE_CHECKING:
    from specdec.pair import ModelPair


class Engine(NamedTuple):
    """The description of an engine that a command can name.

    rule: the rule by which the engine accepts tokens, according to its source code. start: creates the engine
    for a pair. versions: returns the versions of its packages.
    """

    rule: str
    start: Callable[[ModelPair], Sample]
    versions: Callable[[], dict[str, str]]


def installed(*packages: str) -> Callable[[], dict[str, str]]:
    """Makes a function that returns the versions of these packages."""
    return lambda: {package: _version(package) for package in packages}


def engines(url: str = "") -> dict[str, Engine]:
    """The engines by name. url: address of a server, for "openai"."""
    copies = partial(transformers, prompt_lookup_num_tokens=3)
    of_transformers: dict[str, tuple[str, Callable[[ModelPair], Sample]]] = {
        "transformers": ("plain sampling", transformers),
        "transformers-assisted": ("min(1, p/q), residual", assisted),
        "transformers-prompt-lookup": ("a copy is accepted if it is the target's sample", copies),
    }
    return {
        **{
            f"ours-{name}": Engine(
                entry.sentence, partial(ours, method=name, topology=tree_of(name)), installed("torch")
            )
            for name, entry in METHODS.items()
        },
        **{name: Engine(*each, installed("transformers", "torch")) for name, each in of_transformers.items()},
        "openai": Engine("the rule of the server", lambda _: completions(url), installed()),
    }


def ours(pair: ModelPair, **options: Any) -> Sample:
    """This project's decoder as an engine: `specdec.generate` with these options, such as method, topology
    and drafter."""

    def sample(prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float) -> Sequence[int]:
        settings = named(sampling) | {"seed": seed, "max_new_tokens": max_new_tokens}
        generation = generate(pair, prompt_ids, **settings, **options)
        counting.calls += len(generation.rounds)
        return generation.token_ids

    counting = Counting(sample)
    return counting


def tree_of(method: str) -> Topology:
    """The tree with which a method of this project is audited.

    It is a sequence of 4 tokens. A method whose drafts are independent draws gets a batch of 4 instead,
    because on a sequence its rule is the same as GSD's.
    """
    return batch(4) if METHODS[method].independent else sequence(4)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
