"""The settings of a run, one row each. Decoder, record, command, endpoint, page and address read these rows.

`SETTINGS` says which values a setting takes and what it is called on the page; `RunSettings` holds the values
of a run. The page has further rows, in `components.page.settings`.
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
    """One setting.

    name: the argument of `specdec.stream`, and the field of `RunSettings` or of its sampling. kind: the kind
    of its values. default: the value if the caller gives none. least, most: the range of a number, None if it
    has no such end. choices: the values of a choice, each with its meaning. label, help: its name and an
    explanation for people. address: its name in the page's address and in messages to visitors. option: the
    command's option, without the "--". recorded: whether the record of a run has the setting, under the same
    name. unless: values of other settings, by their names, with which a run does not use this one.
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
        """The Python type of its values, apart from None."""
        return {"flag": bool, "whole": int, "number": float}.get(self.kind, str)

    def is_used(self, settings: object) -> bool:
        """Whether a run uses this setting. settings: an object with the run's values as attributes."""
        return not any(getattr(settings, name) in values for name, values in self.unless.items())

    def words(self, default: Any, most: float | None = None) -> str:
        """The help, the values, the default, and when a run does not use the setting.

        most: the largest number if it is below the setting's.
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
"""Methods that draft nothing, as `Setting.unless` takes them."""
_NO_MODEL = {"drafter": tuple(name for name, entry in DRAFTERS.items() if not entry.uses_model)}


def _named(*settings: Setting) -> dict[str, Setting]:
    named = (replace(each, address=each.address or each.name) for each in settings)
    return {each.name: replace(each, option=each.option or each.address) for each in named}


SETTINGS = _named(
    Setting(
        "method", "choice", "ersd", choices={name: entry.long_name for name, entry in METHODS.items()},
        label="Method", help="how drafts are verified",
    ),
    Setting(
        "max_new_tokens", "whole", 64, 1, MOST_WHOLE, label="Length in tokens", help="most new tokens",
        address="length", option="tokens",
    ),
    Setting("temperature", "number", 1.0, 0, HOTTEST, label="Temperature", help="0 is greedy"),
    Setting("top_k", "whole", 0, 0, label="Top-k", help="0 is off", address="top-k"),
    Setting("top_p", "number", 1.0, 0, 1, label="Top-p", help="1 is off", address="top-p"),
    Setting("seed", "whole", None, 0, MASK, label="Seed", help="Same seed, same text."),
    Setting(
        "drafter", "choice", "model", choices={name: entry.label for name, entry in DRAFTERS.items()},
        label="What drafts", unless=NO_DRAFT,
    ),
    Setting(
        "draft_temperature", "number", None, 0, HOTTEST, label="Temperature of the draft",
        help="changes only the speed; without one, the target's", address="draft-temperature",
        unless=NO_DRAFT | _NO_MODEL,
    ),
)  # fmt: skip
"""The settings of the decoder whose values are plain numbers, texts or choices, by name."""


class RunSettings(NamedTuple):
    """The settings of a run, without its models and its topology. `specdec.stream` explains them."""

    method: Method = "ersd"
    max_new_tokens: int = 64
    sampling: Sampling = Sampling()
    seed: int | None = None
    detail: bool = False
    draft_temperature: float | None = None
    drafter: Drafting = "model"

    @classmethod
    def of(cls, **values: Any) -> RunSettings:
        """Checked settings from these values by name; the names of `Sampling`'s fields are among them.

        ValueError names a value that does not fit.
        """
        sampling = {each.name: values.pop(each.name) for each in fields(Sampling) if each.name in values}
        return cls(sampling=Sampling(**sampling), **values).checked()

    def checked(self) -> RunSettings:
        """A copy whose numbers are those of Python. ValueError names a value that does not fit."""
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
        """The draft's sampling: the target's, but with the draft's own temperature if there is one."""
        if self.draft_temperature is None:
            return self.sampling
        return replace(self.sampling, temperature=self.draft_temperature)

    def recorded(self) -> dict[str, Any]:
        """The recorded settings, with the names of the fields of `Generation` as keys."""
        values = asdict(self.sampling) | self._asdict() | {"drafter": drafter_name(self.drafter)}
        return {name: values[name] for name, setting in SETTINGS.items() if setting.recorded}

    def _checked_draft_temperature(self) -> float | None:
        try:
            return None if self.draft_temperature is None else self.draft_sampling.temperature
        except ValueError as error:  # the rest comes from the target's sampling, which is already checked
            raise ValueError(f"draft_{error}") from None


def add_options(parser: ArgumentParser, *names: str) -> None:
    """Add these settings to the command's options, by `Setting.option`."""
    for name in names:
        setting = SETTINGS[name]
        parser.add_argument(
            f"--{setting.option}",
            dest=name,
            type=setting.type,
            default=setting.default,
            help=setting.words("%(default)s" if setting.default is not None else None),
        )
