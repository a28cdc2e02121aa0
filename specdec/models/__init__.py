"""Causal language models that score a tree of continuations in one forward pass.

Names are imported when they are first used, so that `MarkovModel` does not import transformers. Annotations
say `transformers.PreTrainedModel` instead of importing the class, because that import takes two seconds: it
loads transformers' modelling code, which a packed model does not need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdec.models.base import Capability, Model, Session
    from specdec.models.hf import HFModel
    from specdec.models.load import load_hf_model
    from specdec.models.markov import MarkovModel

_MODULES = {
    "Capability": "base",
    "Model": "base",
    "Session": "base",
    "HFModel": "hf",
    "load_hf_model": "load",
    "MarkovModel": "markov",
}

__all__ = ["Capability", "HFModel", "MarkovModel", "Model", "Session", "load_hf_model"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'specdec.models' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"specdec.models.{_MODULES[name]}"), name)
    return value
