"""The table of a visitor's settings.

The class `VisitorSettings` is the table: each field has a default and a `Row`, which describes the setting.
The form, the endpoint, the page's address and the checks are made from these rows. An object of the class
holds the values of one run. If the decoder has the setting too, the row takes name, kind and range from
`specdec.settings`, and the value is passed to `specdec.stream`.
"""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal

from components.page.assets import ASSETS, constants
from components.page.catalogue import drafter_menu, method_menu, topology_menu
from components.page.values import LARGEST, number, whole, words
from components.visitors import addresses, limits
from specdec.checks import among
from specdec.drafters.catalogue import DRAFTERS
from specdec.figures.topologies import TOPOLOGIES
from specdec.settings import NO_DRAFT, SETTINGS, RunSettings, Setting

Limit = float | str | None
"""A limit of a setting's value: a number, the name of a field of `limits.Limits`, or None for no limit."""


@dataclass(frozen=True)
class Row:
    """The description of one setting of the page.

    setting: its name, kind, default, range, label and help. longest: the largest number that visitors may
    send, or for a text the most characters. form: the method of `forms.Form` that writes its input. shown:
    the ends of the slider, if it is narrower than the allowed range. step: the step of the input. menu: label
    and value of each choice. opening: the input's first value if it is not the default. remote: the
    endpoint's default if it is not the setting's default. check: a function that checks a value, in place of
    the usual check for the setting's kind. shapes: whether the tree that is measured for a run depends on
    this setting.
    """

    setting: Setting
    longest: Limit = None
    form: Literal["text", "slider", "number", "flag", "radio", "menu", "hidden"] = "text"
    shown: tuple[float | None, float | None] = (None, None)
    step: float | None = None
    menu: Sequence[tuple[str, str]] = ()
    opening: Any = None
    remote: Any = None
    check: Callable[[str, Any], Any] | None = None
    shapes: bool = False

    @property
    def most(self) -> float | None:
        """The largest allowed number, or for a text the largest number of characters; None for no limit."""
        limit = getattr(limits.current(), self.longest) if isinstance(self.longest, str) else self.longest
        return self.setting.most if limit is None else limit

    @property
    def first(self) -> Any:
        """The first value of the form's input."""
        return self.setting.default if self.opening is None else self.opening

    def checked(self, value: Any) -> Any:
        """A visitor's value, checked and converted to the setting's Python type.

        A ValueError names the setting as the page does.
        """
        setting, name = self.setting, self.setting.address
        if self.check is not None:
            return self.check(name, value)
        match setting.kind:
            case "choice":
                return among(name, value, setting.choices)
            case "flag":
                return bool(value)
            case "text":
                return words(name, value, int(self.most or LARGEST))
        if value is None and setting.default is None:
            return None
        check = whole if setting.kind == "whole" else number
        return check(name, value, int(setting.least or 0), int(LARGEST if self.most is None else self.most))


def _row(setting: str | Setting, **row: Any) -> Any:
    """A field of the table. setting: the name of a setting of the decoder, or a setting that only the page
    has."""
    base = SETTINGS[setting] if isinstance(setting, str) else setting
    with_address = replace(base, address=base.address or base.name)
    return field(default=with_address.default, metadata={"row": Row(with_address, **row)})


def _text(name: str, value: Any) -> str:
    """Check that a value can be a prompt, and return it. ValueError if it is empty or too long."""
    if not words(name, value, limits.current().prompt_characters).strip():
        raise ValueError(f"The {name} is empty. Write something first.")
    return str(value)


def _conversation(_: str, value: Any) -> tuple[str, ...]:
    """Check the earlier conversation, which is a list of texts, or a JSON list of texts from the page.

    ValueError if it is neither.
    """
    try:
        messages = json.loads(value or "[]") if isinstance(value, str) else list(value)
    except (TypeError, ValueError, RecursionError):  # RecursionError: too many brackets within brackets
        messages = None
    if not isinstance(messages, list) or len(messages) % 2 or not all(isinstance(m, str) for m in messages):
        raise ValueError(f"history = {value!r:.60} is not a list of questions and answers in turn")
    limits.at_most("conversation", sum(map(len, messages)), limits.current().prompt_characters, "characters")
    return tuple(messages)


def _tree(name: str, value: Any) -> str:
    return words(name, value, 4 * limits.current().draft_tokens)


def _seed(name: str, value: Any) -> int:
    return random.randrange(2**31) if value is None else whole(name, value)


_NO_TREE = NO_DRAFT | {"drafter": tuple(name for name, entry in DRAFTERS.items() if not entry.has_tree)}
_NO_K = _NO_TREE | {"topology": tuple(name for name, entry in TOPOLOGIES.items() if not entry.takes_k)}


@dataclass(frozen=True)
class VisitorSettings:
    """The settings of one run, as the visitor sent them. Each field's `Row` describes the setting.

    seed: None means that a seed is drawn. The values come from the browser and may be wrong; `checked`
    returns a checked copy.
    """

    prompt: str = _row(Setting("prompt", "text", "", label="Prompt"), check=_text)
    method: str = _row("method", form="radio", menu=method_menu(), shapes=True)
    topology: str = _row(
        Setting(
            "topology", "choice", "sequence",
            choices={name: entry.sentence for name, entry in TOPOLOGIES.items()},
            label="Topology of the draft", recorded=False, unless=_NO_TREE,
            help="auto chooses trees by measured times. With any method but ERSD, the same seed may then "
                 "give another text.",
        ),
        form="menu", menu=topology_menu(), opening="auto", shapes=True,
    )  # fmt: skip
    k: int = _row(
        Setting("k", "whole", 4, 1, label="k: drafted tokens per round", recorded=False, unless=_NO_K),
        longest="draft_tokens", form="slider", step=1, shapes=True,
    )  # fmt: skip
    drafter: str = _row("drafter", form="menu", menu=drafter_menu())
    max_new_tokens: int = _row("max_new_tokens", longest="new_tokens", form="slider", step=1)
    temperature: float = _row("temperature", form="slider", shown=(0, 2), step=0.05, shapes=True)
    top_k: int = _row("top_k", form="number", step=1, shapes=True)
    top_p: float = _row("top_p", form="slider", shown=(0.05, 1), step=0.05, shapes=True)
    seed: int | None = _row("seed", form="number", step=1, check=_seed, remote=0)
    baseline: bool = _row(
        Setting(
            "baseline", "flag", False, label="Measure plain decoding too", recorded=False, unless=NO_DRAFT,
            help="Plain decoding gets the same prompt and seed. It and the run are timed in turns.",
        ),
        form="flag", opening=True,
    )  # fmt: skip
    chat: bool = _row(
        Setting(
            "chat", "flag", False, label="Chat template",
            help="whether to format the prompt with the models' chat template, if they have one",
        ),
        form="flag",
    )  # fmt: skip
    history: Sequence[str] | str = _row(
        Setting(
            "history", "text", (), label="Conversation", unless={"chat": (False,)},
            help="the conversation before the prompt: a JSON list of a question, its answer, the next "
                 "question and so on",
        ),
        form="hidden", remote="", check=_conversation,
    )  # fmt: skip
    tree: str = _row(
        Setting(
            "tree", "text", "", label="Tree", recorded=False, unless=_NO_TREE,
            help="a tree to use instead of a measured one, written as in the page's address",
        ),
        form="hidden", check=_tree,
    )  # fmt: skip

    def checked(self) -> VisitorSettings:
        """A checked copy.

        Whole numbers are of type `int`, and a setting that the run does not use has its default. A ValueError
        names a value that is missing, not whole or too large. Limits that depend on the models are checked in
        `specdec`.
        """
        rows = {name: row for name, row in TABLE.items() if row.setting.is_used(self)}
        return type(self)(**{name: row.checked(getattr(self, name)) for name, row in rows.items()})

    def decoding(self, detail: bool) -> RunSettings:
        """The settings for the decoder. detail: as in `specdec.stream`."""
        return RunSettings.of(
            detail=detail, **{name: getattr(self, name) for name in TABLE if name in SETTINGS}
        )


TABLE: Mapping[str, Row] = {each.name: each.metadata["row"] for each in fields(VisitorSettings)}
"""Each setting's row, which describes it. The keys are the settings' names."""
ADDRESSES = {row.setting.address: name for name, row in TABLE.items()}
"""The settings' names. The keys are their names in the page's address."""


def described(names: Iterable[str] = TABLE) -> str:
    """The help for these settings, a line each, for the documentation of an endpoint.

    Gradio adds the defaults.
    """
    return "\n".join(f"{name}: {TABLE[name].setting.words(None, TABLE[name].most)}." for name in names)


def declared(
    updates: Callable[[VisitorSettings, str], Iterator[str]], request: type, description: str
) -> Callable[..., Iterator[str]]:
    """The function `updates` with one parameter for each setting, because Gradio makes an endpoint from a
    function's parameters.

    A client passes the settings by name; only the prompt is necessary. updates: a function of the settings
    and the visitor's address. request: the class of the request that Gradio passes. description: the
    beginning of the endpoint's documentation, to which this function adds the settings.
    """

    # Not `async`: the run ends after the current round when its visitor leaves, and ZeroGPU can run it.
    def endpoint(request: Any, *values: Any) -> Iterator[str]:
        settings = VisitorSettings(**dict(zip(TABLE, values, strict=True)))
        yield from updates(settings, addresses.of(request))

    parameter = partial(inspect.Parameter, kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [parameter("request", annotation=request)]
    for name, row in TABLE.items():
        default = row.setting.default if row.remote is None else row.remote
        default = inspect.Parameter.empty if name == "prompt" else default
        parameters.append(parameter(name, default=default, annotation=row.setting.type))
    endpoint.__doc__ = f"{description}\n{described()}"
    endpoint.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": Iterator[str]}
    signature = inspect.Signature(parameters, return_annotation=Iterator[str])
    endpoint.__signature__ = signature  # type: ignore[attr-defined]  # a function takes any attribute
    return endpoint


SCRIPT = ASSETS / "shared" / "settings.js"


def script() -> str:
    """The text of a JavaScript module that describes the settings to the browser.

    It contains no limits, because these differ between servers.
    """
    return constants(
        "The settings of a run, in their order. Written by `python -m components.page.settings`.",
        SETTINGS=[
            {
                "name": name,
                "kind": "number" if row.setting.kind == "whole" else row.setting.kind,
                "default": row.first,
                "address": row.setting.address,
                "recorded": row.setting.recorded,
                "shapes": row.shapes,
                "unless": row.setting.unless,
            }
            for name, row in TABLE.items()
        ],
    )


if __name__ == "__main__":
    SCRIPT.write_text(script(), encoding="utf-8")
