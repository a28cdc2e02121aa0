"""Causal language models of Hugging Face transformers, scoring a tree of continuations in one forward.

`HFModel` finds out at load what its model can do, and `session` opens that kind of session.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from transformers import PreTrainedModel

from specdec.models.base import Capability, Session
from specdec.models.kernels import CompiledDecoder
from specdec.models.lean import LeanDecoder
from specdec.models.selfcheck import Checker, PlainForwards, explained
from specdec.models.sessions import PlainSession
from specdec.models.shrink import context_length
from specdec.models.walk import Walk, compiled_decoder, lean_decoder
from specdec.models.ways import COMPILED, LEAN, STEPS, Way, sequence_ways, tree_ways
from specdec.models.weights import Weights, check_sound, evaluating

CHECKED = 20
"""Tokens that the check on the model itself reaches."""


class HFModel:
    """A causal language model of transformers; its module stays in the mode, training or not, that it is in.

    Changes of the module's weights are noticed when a session is opened: new values are packed again, another
    dtype or device, other parts, hooks or forwards are checked anew, and other shapes are refused. Not
    noticed are writes through `.data` elsewhere than at the few numbers that are looked at: write under
    `torch.no_grad()`, or wrap the model again. It can be pickled where its module can; where it is read, it
    is checked again.

    Raises ValueError where the model is none: encoder-decoder, without a head, or not causal.

    capability: what the self-check found it can do. capability_reason: a sentence for the user. note: what
    else a user has to know, that its own cache is wrong or that it was not checked on longer texts; else "".
    lean: our own forward on its weights, where there is one that passed. compiled: the same in one call,
    which sessions take where it passed.
    vocab_size: the width of its logits. device: where tokens go in and logits come out.
    """

    name: str
    vocab_size: int
    context_length: int
    capability: Capability
    device: torch.device
    lean: LeanDecoder | None = None
    compiled: CompiledDecoder | None = None
    note: str = ""

    def __init__(self, model: PreTrainedModel, name: str | None = None):
        if getattr(model.config, "is_encoder_decoder", False):
            raise ValueError(f"{type(model).__name__} is an encoder-decoder, not a causal language model")
        self.module = model
        self.name = name or getattr(model.config, "name_or_path", "") or type(model).__name__
        with explained(self.name):
            self.config = model.config.get_text_config(decoder=True)
            self._take_weights(Weights.of(model))

    def session(self) -> Session:
        """A new empty cache, which grows with its tokens.

        ValueError where the module's weights have other shapes now or it can't be run any more; this model
        stays as it was, for when the module is as it was.
        """
        self._follow_weights()
        return self._open(self)

    @property
    def arithmetic(self) -> str:
        """How its logits are computed: where it is the same on the same machine, so is every bit of them."""
        if self.compiled is not None:
            return f"compiled forward, {self.compiled.kind} weights, float32 sums, cpu"
        forward = "transformers' forward" if self.lean is None else "lean forward"
        packed = ", packed" if self.lean is not None and self.lean.packed else ""
        return f"{forward}{packed}, {str(self.dtype).removeprefix('torch.')}, {self.device.type}"

    def to(self, device: str | torch.device) -> HFModel:
        """Move to another device; what the self-check found where it was loaded is taken to hold there too.

        For GPUs that are lent only while something runs: nothing can be checked on them before.
        """
        self.module.to(device)  # type: ignore[arg-type]  # transformers' decorator hides a method
        self.device = torch.device(device)
        self._weights = Weights.of(self.module)
        if self.lean is not None:
            self.lean = LeanDecoder(self.module)  # its packed weights are for a CPU
            self.compiled, self._open = None, LEAN.open
        return self

    def __reduce__(self) -> tuple[type[HFModel], tuple[PreTrainedModel, str]]:
        # packed weights are for this process alone
        return HFModel, (self.module, self.name)

    def check_room(self, position: int) -> None:
        """Raise ValueError where a position lies beyond the context."""
        if position >= self.context_length:
            raise ValueError(f"{self.name} has a context of {self.context_length} tokens, which is full")

    def _take_weights(self, weights: Weights) -> None:
        """Find out what can be done with them."""
        model = self.module
        check_sound(model)
        self._weights, self.device, self.dtype = weights, _input_device(model), model.dtype
        self.lean = self.compiled = None
        self.context_length = context_length(self.config)
        with evaluating(model):
            checker, walk = self._checker(), Walk(model)
            self._check(checker, walk)
            self._add_compiled(checker, walk)
            if walk.missing is not None:
                self._warn(f"unchecked beyond {CHECKED} tokens, as it has no small copy", walk.missing)

    def _follow_weights(self) -> None:
        before = self._weights
        if before.offloaded or (now := Weights.of(self.module)).same(before):
            return
        if now.shapes != before.shapes and now.modules == before.modules:
            raise ValueError(
                f"{self.name} has weights of other shapes than when it was wrapped: wrap it again"
            )
        if not (now.same_kind(before) and self._packed_again()):
            self._take_again(now)
        self._weights = now

    def _packed_again(self) -> bool:
        """Whether our own forward follows the weights, where it is used."""
        if self.lean is None:
            return True
        lean = lean_decoder(self.module, pack=self.compiled is None)
        compiled = self.compiled and compiled_decoder(self.module, lean)
        if lean is None or (compiled is None) != (self.compiled is None):
            return False
        self.lean, self.compiled = lean, compiled
        return True

    def _take_again(self, weights: Weights) -> None:
        """Check the module anew; all stays as it was where it can't be run or scores other tokens."""
        before = dict(vars(self))
        try:
            with explained(self.name):
                self._take_weights(weights)
            if self.vocab_size != before["vocab_size"]:
                raise ValueError(
                    f"{self.name} scored {before['vocab_size']:,} tokens when it was wrapped, and scores "
                    f"{self.vocab_size:,} now: wrap it again"
                )
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    @torch.inference_mode()
    def _checker(self) -> Checker:
        plain = PlainForwards(self.module, self.device)
        self.vocab_size = plain.vocab_size
        return Checker(plain, self.dtype, self.context_length)

    @torch.inference_mode()
    def _check(self, checker: Checker, walk: Walk) -> None:
        """Find the most capable kind of session that scores what plain forwards score."""
        self.context_length = context_length(self.config) - walk.shortfall
        if getattr(self.module, "_is_stateful", False):
            return self._settle_for_steps(
                checker, walk, "it carries a recurrent state, which can't step back"
            )
        if (tree_fault := self._tree_fault(checker, walk)) is None:
            return self._settle("tree", "scores a tree of drafts in one forward, as plain forwards do")
        fault = self._first_fault(checker, walk, sequence_ways(self.config))
        if fault is None:
            return self._settle(
                "sequence", f"takes single sequences as drafts: with a tree mask it {tree_fault}"
            )
        return self._settle_for_steps(checker, walk, f"scoring several tokens at once, it {fault}")

    def _tree_fault(self, checker: Checker, walk: Walk) -> str | None:
        if self._lean_works(checker, walk):
            return None
        return self._first_fault(checker, walk, tree_ways(self.config))

    def _first_fault(self, checker: Checker, walk: Walk, ways: Iterable[Way]) -> str | None:
        """None where one of these ways is right, and gone from now on; else what is wrong with the first."""
        faults = []
        for way in ways:
            if (fault := self._fault(checker, walk, way)) is None:
                return None
            faults.append(fault)
        return faults[0]

    def _fault(self, checker: Checker, walk: Walk, way: Way) -> str | None:
        """What is wrong with a way, with the model itself or with its small copy on longer texts."""
        self._open = way.open
        control = way.control and partial(way.control, self)
        fault = checker.fault(way.capability, partial(way.open, self), control)
        return fault or walk.fault(way)

    def _lean_works(self, checker: Checker, walk: Walk) -> bool:
        """Whether our own forward scores what the model's does; its weights are kept only then."""
        if walk.fault(LEAN) is not None:
            return False  # before weights are packed
        self.lean = lean_decoder(self.module)
        if self.lean is None:
            return False
        if self._fault(checker, walk, LEAN) is None:
            return True
        self.lean = None
        return False

    @torch.inference_mode()
    def _add_compiled(self, checker: Checker, walk: Walk) -> None:
        """Open sessions on the compiled forward from now on, where there is one that scores the same.

        It has packed weights of its own: the lean forward then keeps no copies.
        """
        opened, lean = self._open, self.lean
        self.compiled = compiled_decoder(self.module, lean)
        if self.compiled is None:
            return
        self.lean = lean_decoder(self.module, pack=False)
        if self._fault(checker, walk, COMPILED) is not None:
            self.compiled, self._open, self.lean = None, opened, lean

    def _settle_for_steps(self, checker: Checker, walk: Walk, reason: str) -> None:
        if (fault := self._fault(checker, walk, STEPS)) is not None:
            self._open = PlainSession
        self._settle("ar", f"goes on token by token and can't verify drafts: {reason}")
        if fault is not None:
            self._warn(f"its own cache {fault}", "each token is a forward over all text, which is slow")

    def _settle(self, capability: Capability, reason: str) -> None:
        self.capability = capability
        self.capability_reason = f"{self.name} {reason}."

    def _warn(self, fact: str, detail: str) -> None:
        self.note = f"{fact} ({detail})"
        self.capability_reason += f" Note: {self.note}."
        logging.warning("%s: %s", self.name, self.note)


def _input_device(model: PreTrainedModel) -> torch.device:
    embedding: Any = model.get_input_embeddings()
    device: torch.device = embedding.weight.device
    if device.type != "meta":
        return device
    # accelerate keeps offloaded weights on "meta" and computes on the device of its hook.
    hook = getattr(embedding, "_hf_hook", None)
    return torch.device(getattr(hook, "execution_device", None) or "cpu")
