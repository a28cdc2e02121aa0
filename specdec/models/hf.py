"""Causal language models of Hugging Face transformers, scoring a tree of continuations in one forward.

`HFModel` finds out at load which of these its model can do, and `session` opens that kind:

    tree       TreeSession       own cache, attention masks along the tree
    sequence   SequenceSession   own cache, the model's own causal attention
    ar         SteppingSession   the model's own cache or state, one token at a time
               PlainSession      no cache at all: a forward over everything, for each token
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.utils import ModelOutput

from specdec.models.base import Capability, Session
from specdec.models.cache import CHUNK, Masks, TreeCache, cached_tree_masks, tree_masks
from specdec.models.selfcheck import Checker, PlainForwards

PREFILL_CHUNK = 1024
"""Tokens per forward of a prefill: bounds the memory that attention takes."""
LARGEST_CACHED_MASK = 1 << 21
"""Entries of a mask up to which it is remembered for the next round."""
ENDLESS = 1 << 20
"""Context length of models that name none."""
DTYPES = {name: getattr(torch, name) for name in ("float32", "bfloat16", "float16", "float64")}
WINDOW_OF_TYPE: Mapping[str, Callable[[int | None], int | None]] = {
    "full_attention": lambda window: None,  # noqa: ARG005
    "sliding_attention": lambda window: window,
}
"""Types of layers whose masks are known here; any other type fails the self-check."""
WINDOW_IN_ROWS = {"gpt_neo"}
"""Models whose window counts rows of the cache, not positions: wrong with trees, but only once the
prefix is longer than the window, where the self-check does not look."""
OWN_CACHES = ("past_key_values", "cache_params", "state")
"""Names under which models hand out their cache and take it back."""


class HFModel:
    """A causal language model of transformers, put into evaluation mode.

    Raises ValueError where the model is none: encoder-decoder, without a head, or not causal.

    capability: what the self-check found it can do. capability_reason: a sentence for the user.
    vocab_size: the width of its logits. device: where tokens go in and logits come out.
    """

    name: str
    vocab_size: int
    context_length: int
    capability: Capability
    device: torch.device

    def __init__(self, model: PreTrainedModel, name: str | None = None):
        if getattr(model.config, "is_encoder_decoder", False):
            raise ValueError(f"{type(model).__name__} is an encoder-decoder, not a causal language model")
        self.module = model.eval()
        self.name = name or getattr(model.config, "name_or_path", "") or type(model).__name__
        self.config = model.config.get_text_config(decoder=True)
        self.context_length = _context_length(self.config)
        self.device = _input_device(model)
        self.dtype = model.dtype
        self._check()

    def session(self, max_pending: int) -> Session:
        """A new empty cache; it grows with its tokens, so `max_pending` costs nothing."""
        assert max_pending >= 1, f"max_pending = {max_pending}"
        return self._open_session()

    def check_room(self, position: int) -> None:
        """Raise ValueError where a position lies beyond the context."""
        if position >= self.context_length:
            raise ValueError(f"{self.name} has a context of {self.context_length} tokens, which is full")

    @torch.inference_mode()
    def forward_seconds(self, num_tokens: int, prefix: int = 64, repeats: int = 5) -> float:
        """Median seconds of a forward over `num_tokens` pending tokens behind a prefix."""
        prefix = max(1, min(prefix, self.context_length - num_tokens - repeats - 1))
        session = self.session(num_tokens)
        session.prefill([0] * prefix)
        token_ids = torch.zeros(num_tokens, dtype=torch.int64, device=self.device)
        parents = range(-1, num_tokens - 1)
        seconds = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            session.forward(token_ids, parents)[-1, 0].item()  # .item() waits for an accelerator
            seconds.append(time.perf_counter() - start)
            session.keep([0])  # a state that can only go forward would be built anew without it
        return statistics.median(seconds[1:])

    @torch.inference_mode()
    def _check(self) -> None:
        """Find the most capable kind of session that scores what plain forwards score."""
        plain = PlainForwards(self.module, self.device)
        self.vocab_size = plain.vocab_size
        layouts = _layouts(self.config)
        window = min((window for layout in layouts for window in layout.windows if window), default=None)
        checker = Checker(plain, self.dtype, window, self.context_length)
        if getattr(self.module, "_is_stateful", False):
            return self._settle_for_steps(checker, "it carries a recurrent state, which can't step back")
        if (tree_fault := self._tree_fault(checker, layouts)) is None:
            return self._settle("tree", "scores a tree of drafts in one forward, as plain forwards do")
        self._open_session = partial(SequenceSession, self, layouts[0])
        if (chain_fault := checker.fault("sequence", self._open_session)) is None:
            return self._settle(
                "sequence", f"takes single sequences as drafts: with a tree mask it {tree_fault}"
            )
        return self._settle_for_steps(checker, f"scoring several tokens at once, it {chain_fault}")

    def _tree_fault(self, checker: Checker, layouts: Sequence[Layout]) -> str | None:
        if self.config.model_type in WINDOW_IN_ROWS:
            return "counts its attention window in rows, not in positions"
        for layout in layouts:
            self._open_session = partial(TreeSession, self, layout)
            fault = checker.fault("tree", self._open_session, partial(TreeSession, self, layout, lines=False))
            if fault is None:
                return None
        return fault

    def _settle_for_steps(self, checker: Checker, reason: str) -> None:
        self._open_session = partial(SteppingSession, self)
        if (fault := checker.fault("ar", self._open_session)) is not None:
            self._open_session = partial(PlainSession, self)
            reason += f"; its own cache {fault}, so each token is a forward over all text"
        self._settle("ar", f"goes on token by token and can't verify drafts: {reason}")

    def _settle(self, capability: Capability, reason: str) -> None:
        self.capability = capability
        self.capability_reason = f"{self.name} {reason}."


@dataclass(frozen=True)
class Layout:
    """Which masks a model wants: one for all layers, or one for each type of layer.

    windows: sliding window of each layer, None without. by_type: window of each type of layer;
    None where the model takes one mask for all.
    """

    windows: tuple[int | None, ...]
    by_type: Mapping[str, int | None] | None

    @cached_property
    def distinct(self) -> tuple[int | None, ...]:
        """The windows for which masks are to be built."""
        return tuple(set(self.by_type.values() if self.by_type is not None else self.windows)) or (None,)

    @cached_property
    def widest(self) -> int:
        """Prefix tokens that the widest window reaches; 0 without windows."""
        return max((window - 1 for window in self.distinct if window), default=0)

    def mask_at(self, masks: Masks, length: int) -> Tensor | dict[str, Tensor | None] | None:
        """The `attention_mask` argument of a forward behind `length` committed tokens."""
        if self.by_type is None:
            return masks.at(length, self.distinct[0])
        return {name: masks.at(length, window) for name, window in self.by_type.items()}


class CachedSession:
    """What sessions with a cache of ours share: the committed prefix and the pending nodes."""

    def __init__(self, model: HFModel, layout: Layout):
        self.length = 0
        self._model = model
        self._layout = layout
        self._cache = TreeCache(layout.windows)
        self._parents: tuple[int, ...] = ()

    @torch.inference_mode()
    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix; the model makes its own masks for them."""
        assert not self._parents, "prefill while nodes are pending"
        self._model.check_room(self.length + len(token_ids) - 1)
        for start in range(0, len(token_ids), PREFILL_CHUNK):
            chunk = torch.tensor([token_ids[start : start + PREFILL_CHUNK]], device=self._model.device)
            # Without the head: nobody asks for these logits.
            self._model.module.base_model(input_ids=chunk, past_key_values=self._cache, use_cache=True)
            self.length += chunk.shape[1]
            self._cache.commit(self.length)

    @torch.inference_mode()
    def keep(self, nodes: Sequence[int]) -> None:
        """Commit these pending nodes, a line of descent from the prefix, and drop all others."""
        above = -1
        for node in nodes:
            assert self._parents[node] == above, f"kept nodes {list(nodes)} are not one line of descent"
            above = node
        self._cache.keep(self.length, nodes)
        self.length += len(nodes)
        self._parents = ()


class TreeSession(CachedSession):
    """Pending nodes form a tree; masks let each see the prefix, its ancestors and itself.

    lines=False breaks the masks on purpose: the control of the self-check.
    """

    def __init__(self, model: HFModel, layout: Layout, lines: bool = True):
        super().__init__(model, layout)
        self._lines = lines

    @torch.inference_mode()
    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes with these parents and return their logits [n, vocabulary].

        They are inference tensors: outside of `torch.inference_mode` nothing can change them in place.
        Raises ValueError where the context is full.
        """
        model, first = self._model, len(self._parents)
        assert len(parents) == len(token_ids), f"{len(token_ids)} tokens, {len(parents)} parents"
        pending = self._parents + tuple(parents)
        masks = self._masks(pending, first)
        model.check_room(self.length + masks.depth)
        self._parents = pending
        output = model.module(
            input_ids=token_ids.to(model.device)[None],
            attention_mask=self._layout.mask_at(masks, self.length),
            position_ids=masks.offsets + self.length,
            past_key_values=self._cache,
            use_cache=True,
        )
        return output.logits[0].to(model.device)

    def _masks(self, parents: tuple[int, ...], first: int) -> Masks:
        model, windows = self._model, self._layout.distinct
        # Powers of two, so that few masks are built while the prefix grows.
        columns = min(max(CHUNK, 1 << self.length.bit_length()), self._layout.widest)
        small = len(parents) * columns <= LARGEST_CACHED_MASK
        build = cached_tree_masks if small else tree_masks
        return build(parents, first, columns, windows, model.dtype, model.device, self._lines)


class SequenceSession(CachedSession):
    """Pending nodes form one chain, over which the model attends in its ordinary way."""

    @torch.inference_mode()
    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending nodes, each the child of the one before; return logits [n, vocabulary]."""
        model, first = self._model, len(self._parents)
        chain = tuple(range(first - 1, first - 1 + len(token_ids)))
        if tuple(parents) != chain:
            raise ValueError(f"parents {tuple(parents)} are not the chain {chain}. {model.capability_reason}")
        model.check_room(self.length + first + len(chain) - 1)
        self._parents += chain
        output = model.module(
            input_ids=token_ids.to(model.device)[None], past_key_values=self._cache, use_cache=True
        )
        return output.logits[0].to(model.device)


class PlainSession:
    """One pending token at a time, and a forward over everything for each: right for any causal model."""

    def __init__(self, model: HFModel):
        self._model = model
        self._token_ids: list[int] = []
        self._pending: int | None = None

    @property
    def length(self) -> int:
        """Committed tokens."""
        return len(self._token_ids)

    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix."""
        assert self._pending is None, "prefill while a node is pending"
        self._token_ids += token_ids

    @torch.inference_mode()
    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Logits [1, vocabulary] of what follows one token; it becomes the one pending node."""
        if self._pending is not None or list(parents) != [-1]:
            raise ValueError(
                f"parents {list(parents)} are not [-1], one token at a time. {self._model.capability_reason}"
            )
        self._model.check_room(self.length)
        self._pending = int(token_ids[0])
        return self._next_logits().to(self._model.device)

    def keep(self, nodes: Sequence[int]) -> None:
        """Commit the pending token ([0]) or drop it ([])."""
        assert list(nodes) in ([], [0]), f"kept nodes {list(nodes)} of one pending token"
        if nodes:
            assert self._pending is not None, "no token is pending"
            self._token_ids.append(self._pending)
        elif self._pending is not None:
            self._forget()
        self._pending = None

    def _next_logits(self) -> Tensor:
        return self._call([*self._token_ids, self._pending], use_cache=False).logits[0, -1:]

    def _forget(self) -> None:
        """The pending token was dropped."""

    def _call(self, token_ids: list[int], **kwargs) -> ModelOutput:
        return self._model.module(input_ids=torch.tensor([token_ids], device=self._model.device), **kwargs)


class SteppingSession(PlainSession):
    """One pending token at a time, with the model's own cache, whatever that holds."""

    def __init__(self, model: HFModel):
        super().__init__(model)
        self._forget()

    @torch.inference_mode()
    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix and take them into the model's cache."""
        super().prefill(token_ids)
        self._advance(self._token_ids)

    def _next_logits(self) -> Tensor:
        return self._advance([*self._token_ids, self._pending])

    def _advance(self, token_ids: list[int]) -> Tensor | None:
        """Feed what the cache lacks; returns the last token's logits [1, vocabulary].

        The first call takes all at once; a state that is there already only goes on token by token.
        """
        logits = None
        while self._fed < len(token_ids):
            end = len(token_ids) if self._cache is None else self._fed + 1
            output = self._call(token_ids[self._fed : end], use_cache=True, **(self._cache or {}))
            self._cache = _own_cache(output)
            self._fed, logits = end, output.logits[0, -1:]
        return logits

    def _forget(self) -> None:
        # A recurrent state can't step back: the next forward builds it anew.
        self._cache: dict[str, object] | None = None
        self._fed = 0


def _own_cache(output: ModelOutput) -> dict[str, object]:
    for name in OWN_CACHES:
        if output.get(name) is not None:
            return {name: output[name]}
    raise ValueError("the model hands out no cache")


def load_hf_model(
    name_or_path: str | os.PathLike[str],
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    **kwargs,
) -> HFModel:
    """A causal language model from a local folder or the hub, from safetensors and without remote code.

    device: "auto" (all GPUs where there are any, else the CPU), "cpu", "cuda", "cuda:1", "mps".
    dtype: "auto" (as it was saved), "float32", "bfloat16", "float16" or a torch dtype. Further
    arguments go to `from_pretrained`. Raises ValueError naming what does not fit.
    """
    placement = _placement(device)
    folder = os.fspath(name_or_path)
    if os.path.isdir(folder):
        _check_folder(Path(folder))
    elif _looks_like_path(folder):
        raise ValueError(
            f"{folder!r} is not there; give a folder with config.json and model.safetensors, or a hub id"
        )
    options = {"dtype": _checked_dtype(dtype), "use_safetensors": True, "trust_remote_code": False}
    if placement is None:
        options["device_map"] = "auto"
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, **(kwargs | options))
    except (OSError, ValueError) as error:
        raise ValueError(_load_problem(folder, error)) from error
    return HFModel(model if placement is None else model.to(placement), name=folder)


def _layouts(config: PretrainedConfig) -> list[Layout]:
    """Masks that the model may want, the likeliest first; the self-check tells which is right."""
    window = getattr(config, "sliding_window", None)
    num_layers = getattr(config, "num_hidden_layers", 0)
    layer_types = getattr(config, "layer_types", None)
    if layer_types is None:
        return [Layout((window,) * num_layers, None)]
    by_type = {name: WINDOW_OF_TYPE[name](window) for name in set(layer_types) if name in WINDOW_OF_TYPE}
    windows = tuple(by_type.get(name) for name in layer_types)
    layouts = [Layout(windows, by_type)]
    if len(set(windows)) == 1:
        layouts.append(Layout(windows, None))
    return layouts


def _context_length(config: PretrainedConfig) -> int:
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
    lengths = (getattr(config, name, None) for name in names)
    return next((length for length in lengths if isinstance(length, int) and length > 0), ENDLESS)


def _input_device(model: PreTrainedModel) -> torch.device:
    device = model.get_input_embeddings().weight.device
    if device.type != "meta":
        return device
    # accelerate keeps offloaded weights on "meta" and computes on the device of its hook.
    hook = getattr(model.get_input_embeddings(), "_hf_hook", None)
    return torch.device(getattr(hook, "execution_device", None) or "cpu")


def _placement(device: str | torch.device) -> torch.device | None:
    """The device to load to; None to spread the model over the GPUs."""
    if device == "auto":
        return None if torch.cuda.is_available() else torch.device("cpu")
    try:
        placement = torch.device(device)
    except (RuntimeError, TypeError):
        placement = None
    if placement is None or placement.type not in ("cpu", "cuda", "mps"):
        raise ValueError(f'device = {device!r} is none of "auto", "cpu", "cuda", "cuda:1", ..., "mps"')
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (placement.index or 0) >= there[placement.type]:
        raise ValueError(f'device = {device!r}: this machine has no such device; "cpu" or "auto" work')
    return placement


def _checked_dtype(dtype: str | torch.dtype) -> str | torch.dtype:
    if dtype == "auto" or dtype in DTYPES.values():
        return dtype
    if dtype not in DTYPES:
        raise ValueError(f"dtype = {dtype!r} is none of auto, {', '.join(DTYPES)}")
    return DTYPES[dtype]


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "~", os.sep)) or name.count("/") > 1 or os.path.exists(name)


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise ValueError(f"folder {str(folder)!r} has no config.json: it holds no Hugging Face model")
    if any(folder.glob("*.safetensors")):
        return
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
        raise ValueError(
            f"folder {str(folder)!r} holds pickled weights, which can run code when loaded; "
            "save the model again as safetensors (save_pretrained does)"
        )
    raise ValueError(f"folder {str(folder)!r} has no weights: model.safetensors is missing")


def _load_problem(name: str, error: Exception) -> str:
    text = next(iter(str(error).splitlines()), type(error).__name__)
    if "trust_remote_code" in text or "custom code" in text:
        return f"{name!r} needs code of its own, which is never run; choose a model that transformers knows"
    if "safetensors" in text:
        return f"{name!r} has no safetensors weights; pickled ones are never loaded: {text}"
    if isinstance(error, OSError) and not os.path.isdir(name):
        return f"{name!r} is not a local folder, and not found on the hub, or the hub is out of reach: {text}"
    return f"{name!r} can't be loaded as a causal language model: {text}"
