"""The pair that all visitors of a server share. It is loaded on first use, and can be exchanged while the
server runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch

import specdec
from specdec.decoding.shared_mass import measure_shared_mass
from specdec.pair import Pair

if TYPE_CHECKING:
    from specdec.models import Model

SMALL = 20_000_000
"""A target of at most this many parameters is decoded on one thread. The other cores stay free for the server
and for a browser on the same machine. For the story pair two threads are 1.27 times as fast as one on two
quiet cores, and 2 to 5% slower than one if another process keeps a core busy.
"""
_ALL_THREADS = torch.get_num_threads()
_threads: WeakKeyDictionary[Pair, int] = WeakKeyDictionary()


def load(target: str | None, draft: str | None, **options: Any) -> Pair:
    """Load a pair as `specdec.load_pair` does. The embedded pair is loaded with one thread.

    The check after loading computes thousands of small products. Two threads would wait for each other at
    each product, and on a busy machine each wait takes a time slice of the system, a minute in total.

    For a draft with another tokenizer, the function also measures the target's probability on the tokens that
    both models have. The panel of models shows the result.
    """
    torch.set_num_threads(1 if target == "stories" else _ALL_THREADS)
    pair = specdec.load_pair(target, draft, **options)
    measure_shared_mass(pair)
    return pair


class LazyPair:
    """A placeholder for the pair that `load` returns. Its first use loads the pair, once, and waits for it.

    When a run begins, it takes the actual pair with `present`, because the placeholder's pair may be
    exchanged during the run.

    will_chat: whether the pair that `load` returns is expected to chat. The page is built accordingly before
    the pair is loaded.
    """

    def __init__(self, load: Callable[[], Pair], will_chat: bool = False):
        self._load = load
        self._will_chat = will_chat
        self._lock = threading.Lock()
        self._pair: Pair | None = None

    def load(self) -> Pair:
        """Load the pair if that has not been done, and return it.

        If loading fails, the caller gets the error, and the next call tries again.
        """
        with self._lock:
            if self._pair is None:
                self._pair = self._load()
        return self._pair

    def exchange(self, pair: Pair) -> None:
        """Replace the pair for all later uses. The old pair is freed when the runs that use it end."""
        with self._lock:
            self._pair = pair

    @property
    def loaded(self) -> bool:
        """Whether the pair is already in memory."""
        return self._pair is not None

    @property
    def chats(self) -> bool:
        """Whether the pair answers questions. This call does not load the pair."""
        return self._will_chat if self._pair is None else self._pair.chats

    def __getattr__(self, name: str) -> Any:
        # assignments are not passed on, because no code of the page changes a pair
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.load(), name)


def shared(pair: Pair) -> LazyPair:
    """A `LazyPair` around a loaded pair, so that it can be exchanged. A `LazyPair` is returned unchanged."""
    if isinstance(pair, LazyPair):
        return pair
    lazy = LazyPair(lambda: pair)
    lazy.load()
    return lazy


def present(pair: Pair) -> Pair:
    """The current pair of a `LazyPair`; any other pair is returned unchanged."""
    return pair.load() if isinstance(pair, LazyPair) else pair


def is_loaded(pair: Pair) -> bool:
    """Whether the pair is already in memory. Only a `LazyPair` may not be."""
    return not isinstance(pair, LazyPair) or pair.loaded


def use_threads(pair: Pair) -> None:
    """Set the number of threads that torch uses, depending on the size of the pair's target.

    This affects only the calling thread.
    """
    pair = present(pair)
    if pair not in _threads:
        _threads[pair] = 1 if _is_small(pair.target) else _ALL_THREADS
    torch.set_num_threads(_threads[pair])


def _is_small(target: Model) -> bool:
    from specdec.models.packed import PackedModel

    if isinstance(target, PackedModel):  # its attribute `module` would create three gigabytes
        return False
    module = getattr(target, "module", None)
    return module is None or sum(parameter.numel() for parameter in module.parameters()) <= SMALL
