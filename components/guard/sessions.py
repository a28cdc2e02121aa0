"""The sessions of browser tabs: only the first address that used a session may read its messages and cancel
its runs.

Gradio accepts a session's name as proof. The browser draws the name at random, but names appear in addresses
and logs.
"""

from __future__ import annotations

from collections import OrderedDict

from components.guard.bodies import Refused

_MOST = 20_000
"""Sessions whose address is remembered: the most recently used ones."""


class Sessions:
    """The addresses of the most recently used sessions."""

    def __init__(self) -> None:
        self._addresses: OrderedDict[str, str] = OrderedDict()

    def check(self, session: str, address: str) -> None:
        """`Refused` if another address has used this session before. A new session is assigned to this
        address."""
        if self._addresses.setdefault(session, address) != address:
            raise Refused(403, "This session began at another address. Reload the page.")
        self._addresses.move_to_end(session)
        while len(self._addresses) > _MOST:
            self._addresses.popitem(last=False)
