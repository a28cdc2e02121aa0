"""Sessions of a model whose state can't drop tokens: a recurrent, convolution or compressed state.

Each forward pass runs on a copy of the latest state. A copy that has read a rejected token is dropped. If the
remaining state has not read some accepted tokens, the next forward pass reads them before its own tokens, so
that a round stays one forward pass:

    round 1 reads   root a b c         c is rejected, so the state before the root stays
    round 2 reads   root a b root d e  e is accepted, so the state after e stays
    round 3 reads                              root f g
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer
from transformers.utils import ModelOutput

from specdec.devices import upload
from specdec.models.cache import BufferLayer
from specdec.models.sessions.cached import PREFILL_CHUNK, check_chain, check_single, inferring

if TYPE_CHECKING:
    from specdec.models.base import PreparedModel

MOST_REPEATED = 24
"""The most accepted tokens that are read again in front of drafted tokens. If there are more, the next round
drafts nothing (`must_catch_up`). Then all tokens that it reads are accepted, and its state can be kept."""
SHORTEST_CHUNK = 16
"""The smallest chunk length, in tokens, that a state space layer is set to."""
REPLACED = ("keys", "values", "indexer_keys", "indexer_position_ids")
"""Tensors of a cache layer that need no copy, as a forward pass replaces them. It may change all others."""


OWN_CACHES = ("cache", "past_key_values", "cache_params", "state")
"""Names under which models return their cache; each is also the name of the argument that takes it. The first
is the usual one since transformers 5.24."""


class State(NamedTuple):
    """A model's cache after it has read the first `length` tokens of a text.

    cache: the cache, by the name of its argument in the model's `forward`; empty before the first call.
    """

    length: int
    cache: dict[str, Any]


class StateSession:
    """A session for one sequence of pending tokens, with the model's own cache.

    States are copied before each forward pass; keys and values of ordinary attention layers are cropped
    instead. A model that takes positions as an argument gets them, because some can't derive them themselves.
    restoring=False keeps states that have read rejected tokens: a mistake that the self-check must notice.
    """

    def __init__(self, model: PreparedModel, restoring: bool = True):
        self.length = 0
        self.model = model
        self._takes_positions = "position_ids" in signature(model.module.forward).parameters
        self._restoring = restoring
        on_cpu = model.device.type == "cpu"
        self._scans = [part for part in model.module.modules() if on_cpu and hasattr(part, "A_log")]
        self._states = [State(0, {})]  # after the committed text, then after each pass over pending tokens
        self._tokens = upload([], model.device)  # the tokens that the first state has not read

    @property
    def must_catch_up(self) -> bool:
        """Whether the next round should draft nothing. If it drafts, it needs a second forward pass."""
        return self.length - self._states[0].length > MOST_REPEATED

    @inferring
    def prefill(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the committed prefix."""
        assert self._end == self.length, "prefill while tokens are pending"
        self.model.check_room(self.length + len(token_ids) - 1)
        self._tokens = torch.cat([self._tokens, upload(token_ids, self.model.device)])
        self.length += len(token_ids)
        self._catch_up()

    @inferring
    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Add n pending tokens, each the child of the one before; return their logits [n, vocabulary]."""
        first, count = self._end - self.length, len(token_ids)
        check_chain(self.model, parents, first, count)
        self.model.check_room(self._end + count - 1)
        if self.must_catch_up and not first and count > 1:
            self._catch_up()
        self._tokens = torch.cat([self._tokens, token_ids.to(self.model.device)])
        output = self._read(self.model.module, self._end)
        return output.logits[0, -count:].to(self.model.device)

    @inferring
    def commit(self, nodes: Sequence[int]) -> None:
        """Commit these pending tokens, which must be the first ones, and drop all others."""
        assert list(nodes) == list(range(len(nodes))), f"committed nodes {list(nodes)} are not the first ones"
        assert self.length + len(nodes) <= self._end, f"committed nodes {list(nodes)} are not all pending"
        self.length += len(nodes)
        self._tokens = self._tokens[: self.length - self._states[0].length]
        while self._states[-1].length > self.length:
            self._states.pop()
        self._forget_earlier_states()

    @property
    def _end(self) -> int:
        """The number of committed and pending tokens."""
        return self._states[0].length + len(self._tokens)

    def _forget_earlier_states(self) -> None:
        self._tokens = self._tokens[self._states[-1].length - self._states[0].length :]
        del self._states[:-1]

    def _catch_up(self) -> None:
        """Run the model over the committed tokens that its state has not read."""
        while (start := self._states[-1].length) < self.length:
            # `base_model` leaves out the output layer, because these logits are not needed.
            self._read(self.model.module.base_model, min(self._end_of_chunk(start), self.length))
            self._forget_earlier_states()

    def _end_of_chunk(self, start: int) -> int:
        """Where the forward pass over committed tokens ends that begins at `start`."""
        return start + PREFILL_CHUNK

    def _read(self, module: Any, end: int) -> Any:
        """Run a module on the tokens from the last state's end to `end`; add the new state to `_states`."""
        first, (start, cache) = self._states[0].length, self._states[-1]
        arguments = {name: copied(value) if self._restoring else value for name, value in cache.items()}
        for value in arguments.values():
            _crop(value, start)
        if self._takes_positions:
            arguments["position_ids"] = torch.arange(start, end, device=self.model.device)[None]
        token_ids = self._tokens[start - first : end - first]
        with _short_chunks(self._scans, end - start):
            output = module(input_ids=token_ids[None], use_cache=True, **arguments)
        new_cache = own_cache(output)
        if not cache:
            _use_buffers(new_cache)
        self._states.append(State(end, new_cache))
        return output


class SteppingSession(StateSession):
    """A session for one pending token at a time, for models that read several tokens at once only at the
    beginning of a text."""

    def forward(self, token_ids: Tensor, parents: Sequence[int]) -> Tensor:
        """Make this token the only pending node; return the logits [1, vocabulary] of the token after it."""
        check_single(self.model, parents, self._end == self.length)
        return super().forward(token_ids, parents)

    def _end_of_chunk(self, start: int) -> int:
        return start + 1 if start else self.length


def own_cache(output: ModelOutput) -> dict[str, object]:
    """The cache that a model returns, as {name of the model's argument for it: cache}."""
    for name in OWN_CACHES:
        if output.get(name) is not None:
            return {name: output[name]}
    raise ValueError("the model returns no cache")


def copied(value: Any, copy_of: Callable[[Tensor], Any] = Tensor.clone) -> Any:
    """A copy of a cache. States are copied; the buffers of attention layers are shared with the original."""
    if isinstance(value, Tensor):
        return copy_of(value)
    if isinstance(value, dict):
        return {key: copied(each, copy_of) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(copied(each, copy_of) for each in value)
    if isinstance(value, BufferLayer) or not type(value).__name__.endswith(("Cache", "Layer")):
        return value
    result = copy.copy(value)
    for name, each in vars(value).items():
        if name not in REPLACED:
            setattr(result, name, copied(each, copy_of))
    return result


def state_tensors(value: Any) -> list[Tensor]:
    """All tensors of a cache that `copied` would copy."""
    tensors: list[Tensor] = []
    copied(value, tensors.append)
    return tensors


@contextmanager
def _short_chunks(scans: Sequence[Any], rows: int) -> Iterator[None]:
    """Shortens the chunks of state space layers on a CPU for a forward pass over `rows` tokens.

    transformers pads few tokens to a whole chunk, mostly of 256. Short chunks only change the order of sums.
    """
    chunks = {scan: scan.chunk_size for scan in scans if type(getattr(scan, "chunk_size", None)) is int}
    short = max(SHORTEST_CHUNK, 1 << (rows - 1).bit_length())
    try:
        for scan, chunk in chunks.items():
            scan.chunk_size = min(chunk, short)
        yield
    finally:
        for scan, chunk in chunks.items():
            scan.chunk_size = chunk


def _use_buffers(caches: dict[str, Any]) -> None:
    """Moves keys and values of ordinary attention layers to buffers, which can be cropped at no cost."""
    for cache in caches.values():
        for number, layer in enumerate(cache.layers if isinstance(cache, Cache) else ()):
            if type(layer) is DynamicLayer and layer.keys is not None and layer.values is not None:
                cache.layers[number] = buffer = BufferLayer()
                buffer.update(layer.keys, layer.values)


def _crop(cache: Any, length: int) -> None:
    for layer in cache.layers if isinstance(cache, Cache) else ():
        if isinstance(layer, BufferLayer):
            layer.committed = layer.used = length
