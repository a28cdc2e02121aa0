"""Chooses how a loaded model is run: the best kind of session with the same logits as plain forward passes.

The most capable and fastest kinds are tried first. Each kind is checked on a small copy of the model over a
whole context (`long_context`), and on the model itself over a few tokens (`selfcheck`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers

from specdec.models import passed_checks
from specdec.models.base import PreparedModel, SessionKind
from specdec.models.kernels.compiled import crew
from specdec.models.kernels.decoder import CompiledDecoder
from specdec.models.lean import has_window, is_known
from specdec.models.long_context import CHECKED, long_context_check
from specdec.models.selfcheck import PlainForwards, explained, short_check
from specdec.models.session_kinds import COMPILED, LEAN, PLAIN, STATES, STEPPING, cached_kinds, unchecked
from specdec.models.weights import check_sound, evaluating

OWN = (COMPILED, LEAN)
"""Kinds of sessions that run our own forward passes, the fastest first."""
TREES = "scores a tree of drafts in one forward pass, as plain forward passes do"
"""The end of a sentence that begins with the name of a model that scores trees."""
SEQUENCES = (
    "takes single sequences as drafts: its cache also holds states, so each forward pass runs on a copy, and "
    "a copy that has read a rejected token is dropped"
)
"""The end of a sentence that begins with the name of a model whose cache also holds states."""


def prepare(module: transformers.PreTrainedModel, name: str, files: str | None = None) -> PreparedModel:
    """Checks a module and chooses the kind of session that it gets.

    files: the checksum of the module's files. If a passed check of these files is stored, the module is not
    checked again. ValueError, with the model's name, if it can't be run as a causal language model.
    """
    with explained(name), evaluating(module), torch.inference_mode():
        checks = None
        if files is not None and _compiles(module, module.device):
            checks = passed_checks.folder_of(files, type(module).__name__, str(module.dtype))
        if checks is not None and (remembered := _model_of_checks(module, name, checks)) is not None:
            return remembered
        check_sound(module)
        model = _checked(module, name)
        if checks is not None and model.kind is COMPILED and not model.note:
            passed_checks.remember(checks, model)
            # read back what was stored: mapped weights take no memory of their own
            return _model_of_checks(module, name, checks) or model
        return model


def _model_of_checks(module: transformers.PreTrainedModel, name: str, checks: Path) -> PreparedModel | None:
    """The module with the compiled forward pass, if this folder shows that it once passed the self-check.

    None if there is no such folder, or if the logits differ from those of the check.
    """
    weights = passed_checks.stored_weights(checks)
    if weights is None:
        return None
    head: Any = module.get_output_embeddings()
    vocab_size = getattr(head, "vocab_size", len(head.weight))  # a `PartialHead` scores a part of it
    model = unchecked(module, name, torch.device("cpu"), vocab_size)
    model = replace(model, kind=COMPILED, decoder=CompiledDecoder(module, weights))
    return explained_model(model, TREES) if passed_checks.holds(checks, model) else None


def _checked(module: transformers.PreTrainedModel, name: str) -> PreparedModel:
    """The module with the best kind of session that passes the self-check.

    Logs a warning if a faster kind fails, or if no kind could be checked on longer texts.
    """
    plain = PlainForwards(module, _input_device(module))
    model = unchecked(module, name, plain.device, plain.vocab_size)
    short, long = short_check(model, plain), long_context_check(module)
    faults: dict[str, str] = {}
    for kind in _kinds(model):
        result = long.fault(kind) or short.tried(kind)  # long check first: it packs no weights of the model
        if isinstance(result, PreparedModel):
            model = result
            break
        faults[kind.name] = result
    model = explained_model(model, _reason(model, faults))
    refused = [f"its {each.name} forward pass {faults[each.name]}" for each in OWN if each.name in faults]
    if refused:
        model = _with_note(model, "a slower forward pass is used", "; ".join(refused))
    if model.kind is PLAIN:
        slow = "each token is a forward pass over all text, which is slow"
        model = _with_note(model, f"its own cache {faults[STEPPING.name]}", slow)
    if long.missing is not None:
        limit = f"unchecked beyond {CHECKED} tokens, because no small copy of it could be made"
        model = _with_note(model, limit, long.missing)
    return model


def _compiles(module: transformers.PreTrainedModel, device: torch.device) -> bool:
    """Whether the compiled forward pass can be tried for a module with inputs on this device."""
    return is_known(module) and device.type == "cpu" and crew() is not None


def _kinds(model: PreparedModel) -> Iterator[SessionKind]:
    """Kinds of sessions that may suit the model, the best first."""
    if not getattr(model.module, "_is_stateful", False):
        if is_known(model.module) and not has_window(model.config):
            yield from OWN if _compiles(model.module, model.device) else (LEAN,)
        yield from cached_kinds(model.config)
    yield from (STATES, STEPPING)


def _reason(model: PreparedModel, faults: Mapping[str, str]) -> str:
    """Why the model has its kind of session, as a sentence's end. faults: of kinds that failed, by name."""
    if model.capability == "tree":
        return TREES
    if model.kind is STATES:
        return SEQUENCES

    def first(start: str) -> str | None:
        return next((fault for name, fault in faults.items() if name.startswith(start)), None)

    if model.capability == "sequence":
        return f"takes single sequences as drafts: with a tree mask it {first('tree')}"
    fault = first("sequence")
    if fault is None or fault.startswith("raises"):
        # The fault with the model's own cache says more than an error with our cache.
        fault = faults[STATES.name]
    return f"goes on token by token and can't verify drafts: scoring several tokens at once, it {fault}"


def explained_model(model: PreparedModel, reason: str) -> PreparedModel:
    """The model with a `capability_reason` that begins with its name and ends with `reason`."""
    return replace(model, capability_reason=f"{model.name} {reason}.")


def _with_note(model: PreparedModel, fact: str, detail: str) -> PreparedModel:
    note = f"{fact} ({detail})"
    logging.warning("%s: %s", model.name, note)
    notes = "; ".join(filter(None, (model.note, note)))
    return replace(model, note=notes, capability_reason=f"{model.capability_reason} Note: {note}.")


def _input_device(model: transformers.PreTrainedModel) -> torch.device:
    embedding: Any = model.get_input_embeddings()
    device: torch.device = embedding.weight.device
    if device.type != "meta":
        return device
    # accelerate keeps offloaded weights on "meta" and computes on the device of its hook.
    hook = getattr(embedding, "_hf_hook", None)
    return torch.device(getattr(hook, "execution_device", None) or "cpu")
