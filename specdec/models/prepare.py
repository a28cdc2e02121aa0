"""The check at load: which kind of session scores what plain forwards of the model score.

The kinds are tried from the most capable and fastest on. Each is tried on the model itself behind a few
tokens (`selfcheck`), and on a small copy of it along a whole context (`long_context`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from specdec.models import verdicts
from specdec.models.base import PreparedModel, SessionKind
from specdec.models.kernels.compiled import crew
from specdec.models.kernels.decoder import CompiledDecoder
from specdec.models.lean import KNOWN
from specdec.models.long_context import LongContextCheck
from specdec.models.selfcheck import PlainForwards, ShortCheck, explained, in_words, reraise_out_of_memory
from specdec.models.session_kinds import (
    COMPILED,
    LEAN,
    PLAIN,
    STATES,
    STATES_AT,
    STEPPING,
    sequence_kinds,
    tree_kinds,
)
from specdec.models.shrink import context_length
from specdec.models.weights import check_sound, evaluating

CHECKED = 20
"""Tokens that the check on the model itself reaches."""
TREES = "scores a tree of drafts in one forward, as plain forwards do"
"""Why a model is used for trees, in words."""

SEQUENCES = (
    "takes single sequences as drafts: its cache also holds states, so each forward runs on a copy, and a "
    "copy that has read a rejected token is dropped"
)
"""Why a model with a recurrent, convolution or compressed state takes sequences, in words."""
SELECTIVE_SCANS = ("falcon_mamba", "jamba", "mamba")
"""Types whose selective scan over several tokens takes no state, a fault of transformers 5.23."""


def prepare(module: PreTrainedModel, name: str, files: str | None = None) -> PreparedModel:
    """Checks a module and chooses its kind of session.

    files: the checksum of the files that it was read from; a remembered verdict on them replaces the check.
    ValueError, with the model's name, if it can't be run as a causal language model.
    """
    with explained(name), evaluating(module), torch.inference_mode():
        path = verdicts.path_of(module, files)
        remembered = None if path is None else _remembered(module, name, path)
        if remembered is not None:
            return remembered
        check_sound(module)
        model = _Search(module, name).best()
        if path is not None and model.kind is COMPILED and not model.note:
            verdicts.remember(path, model)
            # mapped weights take no memory of their own
            return _remembered(module, name, path) or model
        return model


def _remembered(module: PreTrainedModel, name: str, path: Path) -> PreparedModel | None:
    """The module on the compiled forward, if the verdict in this file says that it passed the self-check.

    None where there is no verdict, or where the forward gives other logits than the one that was checked.
    """
    verdict = verdicts.recall(path)
    stored = None if verdict is None else verdicts.stored_weights(path, verdict)
    if verdict is None or stored is None:
        return None
    model = PreparedModel(
        name=name,
        module=module,
        config=module.config.get_text_config(decoder=True),
        device=torch.device("cpu"),
        dtype=module.dtype,
        vocab_size=verdict.vocab_size,
        context_length=verdict.context_length,
        kind=COMPILED,
        decoder=CompiledDecoder(module, stored),
    )
    return explained_model(model, TREES) if verdicts.fingerprint(model) == verdict.logits else None


def with_decoder(model: PreparedModel, kind: SessionKind) -> PreparedModel | str:
    """The model with this kind of session and a new decoder from its weights; the fault if none fits."""
    try:
        return kind.on(model)
    except Exception as error:  # parts that were put into a module may lack anything
        reraise_out_of_memory(error)
        return f"raises {in_words(error)}"


class _Search:
    """The search for the best kind of session of one module."""

    def __init__(self, module: PreTrainedModel, name: str):
        config = module.config.get_text_config(decoder=True)
        plain, length = PlainForwards(module, _input_device(module)), context_length(config)
        self._short = ShortCheck(plain, module.dtype, length)
        self._long = LongContextCheck(module)
        self._refused: list[str] = []
        self._model = PreparedModel(
            name=name,
            module=module,
            config=config,
            device=plain.device,
            dtype=module.dtype,
            vocab_size=plain.vocab_size,
            context_length=length - self._long.shortfall,
            kind=PLAIN,
        )

    def best(self) -> PreparedModel:
        """The model with the best kind of session.

        A warning follows if that was not checked on longer texts.
        """
        model = self._best()
        if self._refused:
            model = _noted(model, "a slower forward is used", "; ".join(self._refused))
        if self._long.missing is None:
            return model
        return _noted(
            model, f"unchecked beyond {CHECKED} tokens, as it has no small copy", self._long.missing
        )

    def _best(self) -> PreparedModel:
        fault = "raises"
        if not getattr(self._model.module, "_is_stateful", False):
            model, fault = self._on_keys_and_values()
            if model is not None:
                return model
        model, state_fault = self._first([STATES, STATES_AT])
        if model is not None:
            return explained_model(model, SEQUENCES)
        if self._model.config.model_type in SELECTIVE_SCANS:
            state_fault += ", because transformers then starts its selective scan from an empty state"
        # An error on our cache says less than a wrong result on the model's own.
        fault = state_fault if fault.startswith("raises") else fault
        return self._token_by_token(f"scoring several tokens at once, it {fault}")

    def _on_keys_and_values(self) -> tuple[PreparedModel | None, str]:
        """The model with a cache of ours; None, and the fault, if no such kind of session passes."""
        config = self._model.config
        tree, tree_fault = self._own_forward(), ""
        if tree is None:
            tree, tree_fault = self._first(tree_kinds(config))
        if tree is not None:
            return explained_model(tree, TREES), ""
        sequence, fault = self._first(sequence_kinds(config))
        if sequence is None:
            return None, fault
        reason = f"takes single sequences as drafts: with a tree mask it {tree_fault}"
        return explained_model(sequence, reason), ""

    def _own_forward(self) -> PreparedModel | None:
        """The model with one of our own forwards; None if none fits. Where a faster one does not fit, the
        search's model says so."""
        if type(self._model.module) not in KNOWN:
            return None
        kinds = [LEAN]
        if self._model.device.type == "cpu" and crew() is not None:
            kinds.insert(0, COMPILED)
        for kind in kinds:
            model = self._checked(kind)
            if isinstance(model, PreparedModel):
                return model
            self._refused.append(f"its {kind.name} forward {model}")
        return None

    def _checked(self, kind: SessionKind) -> PreparedModel | str:
        """The model with one of our own forwards, or the fault of that forward."""
        fault = self._long.fault(kind)  # before weights are packed
        if fault is not None:
            return fault
        model = with_decoder(self._model, kind)
        return model if isinstance(model, str) else self._short.fault(model) or model

    def _first(self, kinds: Iterable[SessionKind]) -> tuple[PreparedModel | None, str]:
        """The model with the first kind that passes; if none passes, the fault of the first kind."""
        faults = []
        for kind in kinds:
            model = kind.on(self._model)
            fault = self._short.fault(model) or self._long.fault(kind)
            if fault is None:
                return model, ""
            faults.append(fault)
        return None, faults[0]

    def _token_by_token(self, reason: str) -> PreparedModel:
        sentence = f"goes on token by token and can't verify drafts: {reason}"
        model, fault = self._first([STEPPING])
        if model is not None:
            return explained_model(model, sentence)
        model = explained_model(PLAIN.on(self._model), sentence)
        return _noted(model, f"its own cache {fault}", "each token is a forward over all text, which is slow")


def explained_model(model: PreparedModel, reason: str) -> PreparedModel:
    """The model with a sentence on what it can do."""
    return replace(model, capability_reason=f"{model.name} {reason}.")


def _noted(model: PreparedModel, fact: str, detail: str) -> PreparedModel:
    note = f"{fact} ({detail})"
    logging.warning("%s: %s", model.name, note)
    both = "; ".join(filter(None, (model.note, note)))
    return replace(model, note=both, capability_reason=f"{model.capability_reason} Note: {note}.")


def _input_device(model: PreTrainedModel) -> torch.device:
    embedding: Any = model.get_input_embeddings()
    device: torch.device = embedding.weight.device
    if device.type != "meta":
        return device
    # accelerate keeps offloaded weights on "meta" and computes on the device of its hook.
    hook = getattr(embedding, "_hf_hook", None)
    return torch.device(getattr(hook, "execution_device", None) or "cpu")
