"""The pair that all visitors of a server share: loaded when it is first needed, exchanged while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

import specdec
from specdec.pair import Pair

SMALL = 20_000_000
"""Parameters of a target up to which a second thread gains nothing, and on a busy machine loses."""
_ALL_THREADS = torch.get_num_threads()


def load(target: str | None, draft: str | None, **options: Any) -> Pair:
    """`specdec.load_pair`, with one thread for the embedded pair.

    At each of the thousands of small products of its check, two threads wait for each other. On a machine
    with more to do than processors, each such wait is a time slice of the system: the first run after the
    start took a minute.
    """
    torch.set_num_threads(1 if target == "stories" else _ALL_THREADS)
    return specdec.load_pair(target, draft, **options)


class LazyPair:
    """Stands for the pair that `load` returns; its first use waits until that is loaded, once.

    A run takes the pair itself with `present` when it begins: the pair may be exchanged while it goes on.
    """

    def __init__(self, load: Callable[[], Pair]):
        self._load = load
        self._lock = threading.Lock()
        self._pair: Pair | None = None

    def load(self) -> Pair:
        """The pair itself. Whatever `load` raises reaches every caller until it succeeds."""
        with self._lock:
            if self._pair is None:
                self._pair = self._load()
        return self._pair

    def exchange(self, pair: Pair) -> None:
        """Let every later use be of this pair. The one before is freed when the runs that took it end."""
        with self._lock:
            self._pair = pair

    @property
    def loaded(self) -> bool:
        """Whether using the pair takes no time any more."""
        return self._pair is not None

    def __getattr__(self, name: str) -> Any:
        # setting is not passed on: nothing of the page changes a pair
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.load(), name)


def shared(pair: Pair) -> LazyPair:
    """A pair in memory as one that can be exchanged; a `LazyPair` as it is."""
    if isinstance(pair, LazyPair):
        return pair
    lazy = LazyPair(lambda: pair)
    lazy.load()
    return lazy


def present(pair: Pair) -> Pair:
    """The pair behind a `LazyPair` as it is now, any other as it is."""
    return pair.load() if isinstance(pair, LazyPair) else pair


def use_threads(pair: Pair) -> None:
    """Let this thread run the pair with as many threads of torch as help; torch counts them by thread."""
    module = getattr(pair.target, "module", None)
    torch.set_num_threads(1 if module is None or _parameters(module) <= SMALL else _ALL_THREADS)


def _parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
