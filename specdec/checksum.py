"""Checksums of files."""

from __future__ import annotations

import hashlib
from pathlib import Path


def file_checksum(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal digits. OSError if it can't be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
