"""Causal language models that score a tree of continuations in one forward."""

from specdec.models.base import Capability, Model, Session
from specdec.models.markov import MarkovModel

__all__ = ["Capability", "MarkovModel", "Model", "Session"]
