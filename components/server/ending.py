"""Ends the server at a signal: the process prints one line and ends immediately, whatever is running.

At exit Python waits for all threads, which decode or wait for a seat, and Gradio waits for all open streams.
Nothing has to be saved, so the process waits for neither.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def at_signals() -> None:
    """End this process at SIGINT (Ctrl+C, exit code 130) and SIGTERM (0). Call this before anything else."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)


def _end(number: int, _: Any) -> None:
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)  # ignores a second Ctrl+C
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), f"\nThe server was ended by {signal.Signals(number).name}.\n".encode())
    tunneling = sys.modules.get("gradio.tunneling")
    for tunnel in tunneling.CURRENT_TUNNELS if tunneling else ():
        tunnel.kill()
    os._exit(130 if number == signal.SIGINT else 0)
