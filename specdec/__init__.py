"""Speculative decoding via exponential races: an exact, readable decoder core.

Names are imported on first use, so that `specdec.theory` does not wait for the import of transformers.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdec import theory, topology, verify
    from specdec.context import ContextTree
    from specdec.decoding.batch import generate_many
    from specdec.decoding.run import generate, measure_acceptance, stream
    from specdec.ecosystem.custom_generate import custom_generate
    from specdec.loading import load_pair
    from specdec.optimal import optimal_topology
    from specdec.pair import ModelPair
    from specdec.topology import Topology
    from specdec.trace import Generation, Round

__version__ = "0.24.0"
"""The version of the package, which is also the newest version in CHANGELOG.md."""

_MODULES = {
    "custom_generate": "ecosystem.custom_generate",
    "generate": "decoding.run",
    "generate_many": "decoding.batch",
    "measure_acceptance": "decoding.run",
    "stream": "decoding.run",
    "optimal_topology": "optimal",
    "ModelPair": "pair",
    "load_pair": "loading",
    "ContextTree": "context",
    "Topology": "topology",
    "Generation": "trace",
    "Round": "trace",
}

__all__ = [
    "ContextTree",
    "Generation",
    "ModelPair",
    "Round",
    "Topology",
    "custom_generate",
    "generate",
    "generate_many",
    "load_pair",
    "measure_acceptance",
    "optimal_topology",
    "stream",
    "theory",
    "topology",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = globals()[name] = getattr(import_module(f"specdec.{_MODULES[name]}"), name)
        return value
    if name.startswith("_") or find_spec(f"specdec.{name}") is None:
        raise AttributeError(f"module 'specdec' has no attribute {name!r}")
    return import_module(f"specdec.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
