"""The table of the settings of a run.

The decoder, the record, the command, the server's endpoint, the page and its address read this table.
`SETTINGS` describes each setting: its values, its name on the page and its help. `RunSettings` holds the
values of one run. `components.page.settings` adds the settings that only the page has.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple

from specdec.checks import among, truth, whole
from specdec.drafters.catalogue import DRAFTERS, checked_drafter
from specdec.drafters.proposed import Drafting, drafter_name
from specdec.methods import METHODS
from specdec.probs import HOTTEST, Sampling
from specdec.race import checked_seed
from specdec.race.keys import MASK
from specdec.trace import MOST_WHOLE, Method


@dataclass(frozen=True)
class Setting:
    """The description of one setting.

    name: the name of the argument of `specdec.stream` and of the field of `RunSettings` or `Sampling`.
    kind, default: the kind of its values, and the value that is used if the caller gives none.
    least, most: the smallest and the largest allowed number; None for no limit.
    choices: the allowed values with their meanings, for the kind "choice".
    label, help: its name and its explanation on the page.
    address: its name in the page's address, and in messages to visitors.
    option: the command's option, without the "--".
    recorded: whether the record of a run contains the setting.
    unless: names and values of other settings; a run with one of these values ignores this setting.
    """

    name: str
    kind: Literal["text", "flag", "choice", "whole", "number"]
    default: Any
    least: float | None = None
    most: float | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    help: str = ""
    address: str = ""
    option: str = ""
    recorded: bool = True
    unless: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def type(self) -> type:
        """The Python type of its values, except None."""
        return {"flag": bool, "whole": int, "number": float}.get(self.kind, str)

    def is_used(self, settings: object) -> bool:
        """Whether a run uses this setting. settings: an object whose attributes are the run's values."""
        return not any(getattr(settings, name) in values for name, values in self.unless.items())

    def words(self, default: Any, most: float | None = None) -> str:
        """The help text, followed by the allowed values, the default, and the cases in which a run does not
        use the setting.

        most: the largest allowed number to show; None for the setting's own.
        """
        most = self.most if most is None else most
        parts = [f"{value}: {meaning}" for value, meaning in self.choices.items()]
        if self.least is not None:
            is_open = most is None or most >= MOST_WHOLE
            parts.append(f"{self.least:g} or more" if is_open else f"{self.least:g} to {most:g}")
        if default not in (None, ""):
            parts.append(f"default: {default}")
        unused = [f"{name} {' or '.join(map(str, values))}" for name, values in self.unless.items()]
        parts += [f"unused with {', '.join(unused)}"] if unused else []
        return (self.help or self.label) + (f" ({'; '.join(parts)})" if parts else "")


NO_DRAFT = {"method": tuple(name for name, entry in METHODS.items() if not entry.drafts)}
"""A value of `Setting.unless` for settings that are only used in drafting: it names the methods that draft
nothing."""
_NO_MODEL = {"drafter": tuple(name for name, entry in DRAFTERS.items() if not entry.uses_model)}


def _by_name(*settings: Setting) -> dict[str, Setting]:
    with_address = (replace(each, address=each.address or each.name) for each in settings)
    return {each.name: replace(each, option=each.option or each.address) for each in with_address}


SETTINGS = _by_name(
    Setting(
        "method", "choice", "ersd", choices={name: entry.long_name for name, entry in METHODS.items()},
        label="Method", help="the rule that accepts or rejects drafted tokens",
    ),
    Setting(
        "max_new_tokens", "whole", 64, 1, MOST_WHOLE, label="Length in tokens", help="the largest number of "
        "new tokens",
        address="length", option="tokens",
    ),
    Setting("temperature", "number", 1.0, 0, HOTTEST, label="Temperature", help="0 always takes the "
            "likeliest token"),
    Setting("top_k", "whole", 0, 0, label="Top-k", help="0 is off", address="top-k"),
    Setting("top_p", "number", 1.0, 0, 1, label="Top-p", help="above 0; 1 is off", address="top-p"),
    Setting("seed", "whole", None, 0, MASK, label="Seed", help="Same seed, same text."),
    Setting(
        "drafter", "choice", "model", choices={name: entry.label for name, entry in DRAFTERS.items()},
        label="Source of the guesses", unless=NO_DRAFT,
    ),
    Setting(
        "draft_temperature", "number", None, 0, HOTTEST, label="Temperature of the draft",
        help="changes only the speed; by default it is the target's temperature", address="draft-temperature",
        unless=NO_DRAFT | _NO_MODEL,
    ),
)  # fmt: skip
"""Descriptions of the decoder's settings, by name. Settings with values of other kinds, such as the topology,
are not among them."""


class RunSettings(NamedTuple):
    """The settings of one run, except its models and its topology. `specdec.stream` explains each."""

    method: Method = "ersd"
    max_new_tokens: int = 64
    sampling: Sampling = Sampling()
    seed: int | None = None
    detail: bool = False
    draft_temperature: float | None = None
    drafter: Drafting = "model"

    @classmethod
    def of(cls, **values: Any) -> RunSettings:
        """Creates settings from keyword arguments, and checks them.

        The fields of `Sampling` are given by their own names. ValueError names a value that does not fit.
        """
        sampling = {each.name: values.pop(each.name) for each in fields(Sampling) if each.name in values}
        return cls(sampling=Sampling(**sampling), **values).checked()

    def checked(self) -> RunSettings:
        """A checked copy, with numbers of Python's types. A ValueError names a value that does not fit."""
        among("method", self.method, METHODS)
        return self._replace(
            max_new_tokens=whole("max_new_tokens", self.max_new_tokens, 1, MOST_WHOLE),
            detail=truth("detail", self.detail),
            draft_temperature=self._checked_draft_temperature(),
            drafter=checked_drafter(self.drafter),
            seed=None if self.seed is None else checked_seed(self.seed),
        )

    @property
    def draft_sampling(self) -> Sampling:
        """The sampling settings of the draft model: those of the target, but with the draft temperature if
        one is given."""
        if self.draft_temperature is None:
            return self.sampling
        return replace(self.sampling, temperature=self.draft_temperature)

    def recorded(self) -> dict[str, Any]:
        """The settings that a run's record contains, under the names of `Generation`'s fields."""
        values = asdict(self.sampling) | self._asdict() | {"drafter": drafter_name(self.drafter)}
        return {name: values[name] for name, setting in SETTINGS.items() if setting.recorded}

    def _checked_draft_temperature(self) -> float | None:
        try:
            return None if self.draft_temperature is None else self.draft_sampling.temperature
        except ValueError as error:  # only the temperature can be wrong: the target's sampling is checked
            raise ValueError(f"draft_{error}") from None


def add_options(parser: ArgumentParser, *names: str) -> None:
    """Add an option for each of the settings with these names to the command's parser."""
    for name in names:
        setting = SETTINGS[name]
        parser.add_argument(
            f"--{setting.option}",
            dest=name,
            type=setting.type,
            default=setting.default,
            help=setting.words("%(default)s" if setting.default is not None else None),
        )
