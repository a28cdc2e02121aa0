"""The findings of an audit, and its verdict."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from specdec.commands import write_json
from specdec.exactness.audit.evidence import POWER, Duplicates, Evidence

BEYOND_DOUBT = 1e-9
"""The verdict is “wrong” only if a test's p-value is below this in two independent runs."""

_UNCUT = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}

Verdict = Literal["no difference found", "in doubt", "wrong"]


@dataclass(frozen=True)
class Deviation:
    """One outcome, its probability, and the number of texts with it (`seen`) among all texts (`of`)."""

    outcome: str
    probability: float
    seen: int
    of: int


@dataclass(frozen=True)
class Trial:
    """One run of decodes, with seeds from `first_seed` on.

    impossible: how many decodes have a token of probability 0, or stop where no text can end. deviations: the
    outcomes of the first tokens whose frequencies are furthest from their probabilities. longer: how many
    decodes have more tokens than requested; only the requested tokens were tested.
    """

    first_seed: int
    decodes: int
    evidence: tuple[Evidence | Duplicates, ...]
    impossible: int
    deviations: tuple[Deviation, ...]
    longer: int = 0

    def below(self, level: float) -> set[str]:
        """Names of the tests with a p-value below `level`; also "impossible" if any decode is impossible."""
        names = {each.name for each in self.evidence if each.p_value < level}
        return names | ({"impossible"} if self.impossible else set())


@dataclass(frozen=True)
class Report:
    """The audit of an engine.

    false_alarm: the probability that a correct engine is doubted. level: the same for each test. trials: the
    run, and a second run if the first one found something. length: how many first tokens are tested together.
    reproduced: how many seeds gave the same tokens again, and how many were tried. arguments: the sampling
    settings. versions: of the engine's packages. rule: see `Engine`. model: the target's name. date: of the
    audit. tokens_per_call: new tokens per target call in longer texts; None if calls were not counted.
    """

    engine: str
    versions: dict[str, str]
    prompt: str
    arguments: dict[str, float]
    length: int
    false_alarm: float
    level: float
    trials: tuple[Trial, ...]
    reproduced: tuple[int, int]
    seconds: float
    rule: str = ""
    model: str = ""
    date: str = ""
    tokens_per_call: float | None = None

    @property
    def name(self) -> str:
        """The engine and its settings. A file of reports stores this report under this name."""
        cut = [f"{name} {value:g}" for name, value in self.arguments.items() if value != _UNCUT[name]]
        return f"{self.engine}, {', '.join(cut) or 'full vocabulary'}"

    @property
    def verdict(self) -> Verdict:
        """ "in doubt" if the first run found something; "wrong" if one test is beyond doubt in both runs."""
        first = self.trials[0]
        if not first.below(self.level):
            return "no difference found"
        certain = [trial.below(BEYOND_DOUBT) for trial in self.trials]
        return "wrong" if len(certain) > 1 and set.intersection(*certain) else "in doubt"

    def check(self) -> None:
        """Raise AssertionError with the whole report if a difference was found."""
        if self.verdict != "no difference found":
            raise AssertionError(self.text())

    def text(self) -> str:
        """The verdict and the numbers behind it, in a few lines."""
        facts = [f"{name} {version}" for name, version in self.versions.items()]
        facts += [f"{name} {value:g}" for name, value in self.arguments.items()]
        lines = [
            f"{self.engine}: {self.verdict} ({', '.join(facts)}; {self.prompt!r:.60}; {self.seconds:.0f} s)",
            f"  false alarm {self.false_alarm:.0e} in all, {self.level:.0e} a test; deviations of the stated "
            f"sizes or more are found with probability {POWER}",
        ]
        lines += [f"  {each.text()}" for trial in self.trials for each in trial.evidence]
        for trial in self.trials:
            if trial.impossible:
                reason = "contain a token without probability, or stop where no text can end"
                lines.append(f"  {trial.impossible} decodes {reason}")
            if trial.longer:
                reason = "have more tokens than requested; only new tokens were requested, without the prompt"
                lines.append(f"  {trial.longer} decodes {reason}")
            for each in trial.deviations if self.verdict != "no difference found" else ():
                share = f"{each.seen:,} of {each.of:,} ({each.seen / each.of:.4f})"
                lines.append(f"  {each.outcome!r}: {share}, probability {each.probability:.4f}")
        same, seeds = self.reproduced
        return "\n".join([*lines, f"  seeds: {same} of {seeds} gave the same tokens again"])

    def to_json(self) -> dict[str, Any]:
        """The report and its verdict as plain data; an infinite statistic becomes None."""
        return asdict(self, dict_factory=_finite) | {"verdict": self.verdict}

    def save(self, path: Path) -> None:
        """Write the report to a file of reports under `name`. It replaces an older report of this name.

        ValueError as in `saved`.
        """
        reports = saved(path) | {self.name: self.to_json()}
        write_json(path, dict(sorted(reports.items())))


def saved(path: Path) -> dict[str, Any]:
    """The reports in this file, by name; none if the file does not exist.

    ValueError if the file contains anything else, or if its folder does not exist.
    """
    if not path.exists():
        if not path.parent.is_dir():
            raise ValueError(f"{path}: there is no folder {path.parent}")
        return {}
    try:
        report = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} can't be read as JSON: {error}") from None
    if not isinstance(report, dict):
        raise ValueError(f"{path} does not contain reports by name")
    return report


def _finite(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    # JSON has no infinity, so None replaces it
    return {
        name: None if isinstance(value, float) and math.isinf(value) else value for name, value in entries
    }
