"""Sessions of browser tabs: only the address that used one first reads its messages and cancels its runs.

Gradio takes a session's name for proof. Names are drawn at random by the browser, but they stand in addresses
and logs.
"""

from __future__ import annotations

from collections import OrderedDict

from components.guard.bodies import Refused

_MOST = 20_000
"""Sessions whose address is known, those used last."""


class Sessions:
    """The addresses of the sessions that were used last."""

    def __init__(self) -> None:
        self._addresses: OrderedDict[str, str] = OrderedDict()

    def check(self, session: str, address: str) -> None:
        """`Refused` where another address has used this session before; otherwise it is this address's."""
        if self._addresses.setdefault(session, address) != address:
            raise Refused(403, "This session began at another address. Reload the page.")
        self._addresses.move_to_end(session)
        while len(self._addresses) > _MOST:
            self._addresses.popitem(last=False)
