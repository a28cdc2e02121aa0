"""The pair that all visitors of a server share. It is loaded on first use and can be exchanged while the
server runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

import specdec
from specdec.decoding import reach
from specdec.pair import Pair

if TYPE_CHECKING:
    from specdec.models import Model

SMALL = 20_000_000
"""Up to this many parameters of the target, the page decodes on one thread. The other cores stay free for
the server and for a browser on the same machine. For the story pair a second thread is 1.27 times as fast on
two quiet cores, and 2 to 5% slower where another process keeps one of them busy.
"""
_ALL_THREADS = torch.get_num_threads()


def load(target: str | None, draft: str | None, **options: Any) -> Pair:
    """`specdec.load_pair`, with one thread for the embedded pair.

    Its check computes thousands of small products, and two threads would wait for each other at each one. On
    a busy machine each such wait takes a time slice of the system: the first run after the start took a
    minute. For a draft with another tokenizer, it also measures what this draft can reach, which the panel of
    models says.
    """
    torch.set_num_threads(1 if target == "stories" else _ALL_THREADS)
    pair = specdec.load_pair(target, draft, **options)
    reach.measured(pair)
    return pair


class LazyPair:
    """A placeholder for the pair that `load` returns. Its first use loads the pair, once, and waits for it.

    A run takes the actual pair with `present` when it begins, because the pair may be exchanged during the
    run.

    will_chat: whether the pair that `load` returns is expected to chat. The page is built for it before it is
    loaded.
    """

    def __init__(self, load: Callable[[], Pair], will_chat: bool = False):
        self._load = load
        self._will_chat = will_chat
        self._lock = threading.Lock()
        self._pair: Pair | None = None

    def load(self) -> Pair:
        """The actual pair. If `load` fails, every caller gets its error until a call succeeds."""
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
        """Whether the pair answers questions. This does not load it."""
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
    """Whether the pair is already in memory; only a `LazyPair` may still have to be loaded."""
    return not isinstance(pair, LazyPair) or pair.loaded


def use_threads(pair: Pair) -> None:
    """Set torch's number of threads for this thread to what suits the pair. torch has one setting per
    thread."""
    torch.set_num_threads(1 if _is_small(pair.target) else _ALL_THREADS)


def _is_small(target: Model) -> bool:
    from specdec.models.packed import PackedModel

    if isinstance(target, PackedModel):  # asking for its module would make one of three gigabytes
        return False
    module = getattr(target, "module", None)
    return module is None or sum(parameter.numel() for parameter in module.parameters()) <= SMALL
