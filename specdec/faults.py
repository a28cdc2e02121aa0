"""Verifiers that are broken on purpose, so that checks of exactness can show that they would notice.

Each is an `Engine` whose verification does one thing wrong; drafting, evaluation and bookkeeping are the real
ones. Only who asks for a fault by name gets one: `decode.stream` and `decode.generate` always run the right
engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from torch import Tensor

from specdec.draft import Drafted
from specdec.engine import Engine
from specdec.probs import LazyLogProbs
from specdec.race import Noise, Stream, log_exponentials, uniform, winner
from specdec.trace import Method
from specdec.verify import Remaining, Undrawn, Verdict, verify_ersd, verify_gsd


@dataclass(frozen=True)
class Fault:
    """One mistake in verification.

    method: whose verification it breaks. siblings: it acts only where a node has two or more children.
    length: tokens that must be looked at together to see it.
    """

    name: str
    method: Method
    engine: type[Engine]
    siblings: bool = False
    length: int = 1


def _with(function: Callable[..., Any], **names: Any) -> Any:
    """The very code of `function` with other helpers under these names; the original keeps its own."""
    assert names.keys() <= set(function.__code__.co_names), f"{function.__name__} uses none of {[*names]}"
    return staticmethod(FunctionType(function.__code__, function.__globals__ | names, function.__name__))


class Gsd(Engine):
    """GSD as it should be, in parts that can be broken one by one."""

    verify = staticmethod(verify_gsd)

    def _verify(self, drafted: Drafted, log_p: LazyLogProbs, log_e: Noise, position: int) -> Verdict:
        topology, token_ids, log_q = drafted
        return self.verify(
            topology,
            token_ids,
            log_p,
            log_q,
            uniform=lambda depth, child_index: self._uniform(position + depth, child_index),
            residual_uniform=lambda depth: self._residual_noise(position + depth, log_e[depth]),
        )

    def _uniform(self, position: int, child_index: int) -> float:
        return uniform(self.seed, position, child_index)

    def _residual_noise(self, position: int, race: Tensor) -> Any:  # noqa: ARG002
        return self._residual_uniform(position)


class _Raced(Remaining):
    """A target's distribution that is sampled by a race instead of one uniform."""

    def sample(self, race: Tensor) -> int:
        return int(winner(self._left(slice(None)).log(), race))


class _Kept(Remaining):
    """A target's distribution that no rejection changes."""

    def reject(self, q: Undrawn) -> None:
        pass


class _KeptAll(Undrawn):
    """A draft's distribution that no rejection changes."""

    def reject(self, token_id: int) -> None:
        pass


class _KeptTarget(Gsd):
    """After a rejection the target's distribution stays P instead of becoming the residual."""

    verify = _with(verify_gsd, Remaining=_Kept)


class _KeptDraft(Gsd):
    """After a rejection the rejected token stays in q."""

    verify = _with(verify_gsd, Undrawn=_KeptAll)


class _SharedUniform(Gsd):
    """All children of a node are tested with one uniform."""

    def _uniform(self, position: int, child_index: int) -> float:  # noqa: ARG002
        return uniform(self.seed, position, 0)


class _UniformFromRace(Gsd):
    """The tests' uniforms come from the race that chose the draft."""

    def _uniform(self, position: int, child_index: int) -> float:
        return uniform(self.seed, position, child_index, Stream.RACE)


class _ResidualFromRace(Gsd):
    """The residual is sampled with the race that chose the draft."""

    verify = _with(verify_gsd, Remaining=_Raced)

    def _residual_noise(self, position: int, race: Tensor) -> Any:  # noqa: ARG002
        return race


class _RaceUnderDraft(Engine):
    """ERSD races under Q where it should race under P: so the draft always wins."""

    def _verify(self, drafted: Drafted, log_p: LazyLogProbs, log_e: Noise, position: int) -> Verdict:  # noqa: ARG002
        raced = [q if q is not None else log_p[row] for row, q in enumerate(drafted.log_q)]
        return verify_ersd(drafted.topology, drafted.token_ids, raced, log_e)


class _OneRace(Engine):
    """ERSD races at every position of a round on the exponentials of the first."""

    def _verify(self, drafted: Drafted, log_p: LazyLogProbs, log_e: Noise, position: int) -> Verdict:  # noqa: ARG002
        return verify_ersd(drafted.topology, drafted.token_ids, log_p, log_e[:1].expand_as(log_e))


class _NewRace(Engine):
    """ERSD whose correction is a new sample of P instead of the winner that nobody drafted."""

    def _verify(self, drafted: Drafted, log_p: LazyLogProbs, log_e: Noise, position: int) -> Verdict:
        verdict = verify_ersd(drafted.topology, drafted.token_ids, log_p, log_e)
        if verdict.kind != "correction":
            return verdict
        row, depth = (0, *verdict.rows)[-1], len(verdict.rows)
        [noise] = log_exponentials(
            self.seed, [position + depth], self.pair.vocab_size, stream=Stream.RESIDUAL
        )
        return verdict._replace(token_id=int(winner(log_p[row], noise)))


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("kept-target", "gsd", _KeptTarget),
        Fault("kept-draft", "gsd", _KeptDraft, siblings=True),
        Fault("shared-uniform", "gsd", _SharedUniform, siblings=True),
        Fault("uniform-from-race", "gsd", _UniformFromRace),
        Fault("residual-from-race", "gsd", _ResidualFromRace),
        Fault("race-under-draft", "ersd", _RaceUnderDraft),
        Fault("new-race", "ersd", _NewRace),
        Fault("one-race", "ersd", _OneRace, length=2),
    )
}
"""All faults by name."""
