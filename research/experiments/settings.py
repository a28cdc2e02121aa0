"""The settings of the paper's experiment: prompts, lengths, sampling, and the numbers k of drafted tokens."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from specdec.checks import whole
from specdec.probs import Sampling
from specdec.race import derived_seed
from specdec.trace import Method

METHODS: tuple[Method, ...] = ("gsd", "ersd")
STRATEGIES = ("sequence", "batch", "specinfer", "optimal")


class Point(NamedTuple):
    """A point of the paper's figures: a method, a drafting strategy and k, the number of drafted tokens."""

    method: str
    strategy: str
    k: int


@dataclass(frozen=True)
class Settings:
    """The settings of one experiment. Experiments with equal settings and versions give the same numbers.

    sequence, batch, specinfer, optimal: the k of each strategy, in rising order. ValueError names a setting
    that does not fit.
    """

    prompts: tuple[Any, ...]  # texts, or lists of token ids
    tokens: int = 20_000  # the least number of tokens decoded at a point
    max_new_tokens: int = 200  # of one text
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    positions: int = 2  # contexts per prompt at which acceptance by index is computed; may be 0
    sequence: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 16, 32)
    batch: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 16, 32, 64)
    specinfer: tuple[int, ...] = (4, 6, 8, 12, 20, 32)
    optimal: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 384)

    def __post_init__(self) -> None:
        whole("prompts", len(self.prompts), 1)
        for name, least in (("tokens", 1), ("max_new_tokens", 2), ("positions", 0)):
            whole(name, getattr(self, name), least)
        for name in STRATEGIES:
            grid = getattr(self, name)
            if list(grid) != sorted({*grid}) or any(k < 1 for k in grid):
                raise ValueError(f"{name} = {grid} must rise from 1 up")
            if name in ("sequence", "batch") and not grid:
                raise ValueError(f"{name} is empty, but acceptance by index is estimated from its runs")
        if max(self.sequence) >= self.max_new_tokens:
            raise ValueError(
                f"a whole sequence({max(self.sequence)}) never fits into texts of {self.max_new_tokens} "
                "tokens; raise max_new_tokens or lower k"
            )

    @property
    def sampling(self) -> Sampling:
        """Temperature, top-k and top-p as a `Sampling`."""
        return Sampling(self.temperature, self.top_k, self.top_p)

    @property
    def calibration(self) -> list[Point]:
        """The points that run first, because acceptance by index is measured in their runs."""
        largest = {"sequence": max(self.sequence), "batch": max(self.batch)}
        return [Point(method, *item) for method in METHODS for item in largest.items()]

    @property
    def points(self) -> list[Point]:
        """All points (method, strategy, k), in the order of the figures."""
        grid = [(strategy, k) for strategy in STRATEGIES for k in getattr(self, strategy)]
        return [Point(method, *item) for item in grid for method in METHODS]

    @classmethod
    def from_json(cls, entries: Mapping[str, Any]) -> Self:
        """Settings from `to_json`'s output, with empty prompts. ValueError if they are of another version."""
        plain: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in entries.items()}
        for name in ("prompts_sha256", "methods"):  # old files also list both methods
            plain.pop(name, None)
        try:
            return cls(**plain | {"prompts": ("",) * plain["prompts"]})
        except (KeyError, TypeError) as error:
            raise ValueError(f"the settings in line 1 are not those of this version ({error})") from None

    def to_json(self) -> dict[str, Any]:
        """The settings as plain data. The prompts are replaced by their number and a hash."""
        plain = json.loads(json.dumps(asdict(self)))
        digest = hashlib.sha256(json.dumps(plain.pop("prompts")).encode()).hexdigest()[:16]
        return plain | {"prompts": len(self.prompts), "prompts_sha256": digest}


def seed_of(seed: int, prompt: int, repeat: int) -> int:
    """The seed of a text. All points use it for this text, and so the same races."""
    return derived_seed(derived_seed(seed, prompt), repeat)


def read_prompts(path: Path) -> tuple[str, ...]:
    """The lines of a file, except empty lines. ValueError if there is no such file."""
    if not path.is_file():
        raise ValueError(f"no file of prompts at {path}; give a text file with one prompt a line")
    return tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
