"""Causal language models that score a tree of continuations in one forward."""

from specdec.models.base import Capability, Model, Session
from specdec.models.hf import HFModel
from specdec.models.load import load_hf_model
from specdec.models.markov import MarkovModel

__all__ = ["Capability", "HFModel", "MarkovModel", "Model", "Session", "load_hf_model"]
