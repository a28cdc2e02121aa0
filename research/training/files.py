"""Files that a stopped process leaves whole."""

from __future__ import annotations

from pathlib import Path

import torch


def save(path: Path, thing: object) -> None:
    """torch.save that replaces a file in one step: a stopped process leaves the old file or the new one."""
    new = path.with_name(path.name + ".new")
    torch.save(thing, new)
    new.replace(path)
