"""The rule that says which models a visitor may load for all visitors. The operator of the server chooses it.

    reached from            may load            needs the key
    this machine only       own                 no
    other machines          listed              yes
    a Space, proxies        fixed: nothing      -

`--models` changes the second column. The key is needed if other machines can reach the page. It is drawn at
random if the operator gives none.
"""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from components.runs import known_pairs, zero_gpu
from components.server.loading import Choice
from specdec.checks import among

OWN, LISTED, FIXED = RULES = ("own", "listed", "fixed")
"""own: any hub id or folder. listed: the pairs of `known_pairs`. fixed: only the models that the server
started with.
"""
_SHORTEST = 8
"""A key has at least this many characters."""
_LOCAL = (None, "127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Access:
    """The rule that applies on this server.

    root: the only folder in which visitors' folders are looked up; None means any folder. key: the key that
    visitors must give; None means that they need none. ValueError if the rule is not in `RULES`, root is not
    a folder, or the key is too short.
    """

    rule: str = OWN
    root: Path | None = None
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        among("models", self.rule, RULES)
        if self.root is not None and not self.root.is_dir():
            raise ValueError(f"models-folder = {str(self.root)!r} is no folder")
        if self.key is not None and len(self.key) < _SHORTEST:
            raise ValueError(f"models-key has {len(self.key)} characters; give at least {_SHORTEST}")

    def knows(self, key: object) -> bool:
        """Whether a visitor with this key may load models for everybody and cancel a load."""
        if self.key is None:
            return True
        text = key if isinstance(key, str) else ""
        return secrets.compare_digest(text.encode(errors="replace"), self.key.encode())

    def check(self, key: object) -> None:
        """Raise ValueError if this key is wrong."""
        if not self.knows(key):
            raise ValueError("The key is not the one that the server printed at its start.")

    def choice(self, name: str, target: str, draft: str, dtype: str, device: str) -> Choice:
        """The models that a visitor chose to load: a name of `known_pairs`, or "own" with target and draft.

        ValueError if the rule forbids the choice or a part of the choice is missing.
        """
        if self.rule == FIXED:
            raise ValueError("visitors can't load models here: the operator has chosen them")
        dtype, device = _text("dtype", dtype), _text("device", device)
        if _text("pair", name) == OWN:
            return self._own(target, draft, device, dtype)
        pair = known_pairs.BY_NAME[among("pair", name, known_pairs.BY_NAME)]
        return Choice(pair.title, *pair.hub_ids, device, dtype, name=name)

    def _own(self, target: str, draft: str, device: str, dtype: str) -> Choice:
        if self.rule != OWN:
            raise ValueError("own models can't be loaded on this server, only the listed pairs")
        target, draft = _text("target", target).strip(), _text("draft", draft).strip()
        if not target:
            raise ValueError("target is empty; give a hub id such as Qwen/Qwen3-8B, a folder or a GGUF file")
        names = [target, *([draft] if draft else [])]
        places = [self._place(*each) for each in zip(("target", "draft"), names, strict=False)]
        names_by_place = tuple(pair for pair in zip(places, names, strict=True) if pair[0] != pair[1])
        title = " with ".join([*map(short, names), *([] if draft else ["copies from the text"])])
        return Choice(title, places[0], places[1] if draft else None, device, dtype, names_by_place, OWN)

    def _place(self, role: str, name: str) -> str:
        """The path of the folder or GGUF file with this name below the root; if there is none, the name.

        role: target or draft, for the message of the ValueError about a name outside of the root.
        """
        if self.root is None:
            return name
        root = self.root.resolve()
        place = (root / name).resolve()
        if root not in place.parents:
            raise ValueError(f"{role} = {name!r:.80} is not in the folder whose models this server offers")
        is_file = place.suffix.lower() == ".gguf" and os.path.isfile(place)
        if is_file or os.path.isdir(place):  # both are false for a name that no file can have
            return str(place)
        # without this check, a folder outside of the root would be read, such as one beside app.py
        if name.count("/") > 1 or name.startswith((".", "~")) or os.path.exists(name):
            raise ValueError(
                f"{role} = {name!r:.80} is not a folder or GGUF file among the models of this server "
                "nor a hub id"
            )
        return name


def short(name: str) -> str:
    """A model's name for people. For a folder or file it is the last part of the path."""
    is_path = name.count("/") > 1 or name.startswith((".", "~", "/")) or name.endswith(".gguf")
    return Path(name).name if is_path else name


def _text(name: str, value: object) -> str:
    """Check that a value from a browser can be a name, and return it.

    ValueError if it is no text, too long or unprintable.
    """
    if not isinstance(value, str) or len(value) > 1000 or not value.isprintable():
        raise ValueError(f"{name} = {value!r:.60} is not a name")
    return value


def from_options(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Access:
    """The rule that the operator's options state.

    Without one, it depends on which machines can reach the page.
    """
    if zero_gpu.here(environment):
        return Access(FIXED)  # a model that is loaded later gets no GPU there
    host = options.host or environment.get("GRADIO_SERVER_NAME")
    behind = "SPACE_ID" in environment or (getattr(options, "proxy", None) or "0") != "0"
    public = behind or options.share or host not in _LOCAL
    rule = options.models or (FIXED if behind else LISTED if public else OWN)
    key = options.models_key or (secrets.token_urlsafe(12) if public and rule != FIXED else None)
    folder = options.models_folder
    return Access(rule, folder and Path(folder), key)
