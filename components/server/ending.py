"""The end of the server: one line and at once, whatever runs.

Python itself waits at the end for all threads, which decode or wait in line, and Gradio for all open streams.
There is nothing that has to be saved, so nothing is waited for.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def at_signals() -> None:
    """End this process at SIGINT (Ctrl+C, exit code 130) and SIGTERM (0); called first of all."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)


def _end(number: int, _: Any) -> None:
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)  # an impatient second Ctrl+C
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), f"\nThe server was ended by {signal.Signals(number).name}.\n".encode())
    tunneling = sys.modules.get("gradio.tunneling")
    for tunnel in tunneling.CURRENT_TUNNELS if tunneling else ():
        tunnel.kill()
    os._exit(130 if number == signal.SIGINT else 0)
