"""Numbers of the lessons that were measured or recorded once. They are in `assets/results` and
`assets/traces`."""

from __future__ import annotations

import json
import math
from typing import Any

from components.decode import traces
from components.lessons.record_forwards import ROWS
from components.lessons.tables import Facts, P, Q, recorded_run, rejecting, residual_of
from components.losslessness import run as lossless_run
from components.page.assets import ASSETS
from components.runs.timing import decoding_seconds, medians

POWER = 0.99
"""The probability with which an audit finds a deviation of the size that its report states."""


def faster() -> Facts:
    """Recorded times of calls over several rows, the recorded run that the page opens with, and the fastest
    number of drafts for many texts."""
    results = _results("forward")
    ms = {int(rows): time for rows, time in results["target"]}
    assert tuple(ms) == ROWS, "forward.json has other numbers of rows: record it again"
    machine = results["machine"]
    return {
        "ms": ms,
        "times": {rows: time / ms[1] for rows, time in ms.items()},
        "eight": ms[8] / ms[1],
        "machine": f"{machine['processor']}, {machine['cores']} cores",
        "date": machine["date"],
        "passes": results["passes"],
        **_opening(),
        **_fastest_k(),
    }


def _opening() -> Facts:
    """The times of the opening run and of plain decoding in milliseconds, as the page's two timelines show.

    A round's time is divided into drafting, evaluating and verifying as in the recorded round.
    """
    run = recorded_run(traces.entries()[0]["name"])
    seconds = {name: medians([getattr(timing, name) for timing in run.timings]) for name in ("run", "plain")}
    parts = {"draft": 0.0, "evaluate": 0.0, "verify": 0.0}
    for round, round_seconds in zip(run.rounds, seconds["run"], strict=True):
        for name in parts:
            parts[name] += 1000 * round_seconds * getattr(round.seconds, name) / decoding_seconds(round)
    run_ms, plain_ms = (1000 * math.fsum(seconds[name]) for name in ("run", "plain"))
    calls, plain_calls = len(seconds["run"]), len(seconds["plain"])
    return {
        "tokens": plain_calls,
        "calls": calls,
        "plain_calls": plain_calls,
        "plain_ms": plain_ms,
        "run_ms": run_ms,
        "draft_ms": parts["draft"],
        "check_ms": parts["evaluate"],
        "choose_ms": parts["verify"],
        "fewer": plain_calls / calls,
        "longer": run_ms / calls / (plain_ms / plain_calls),
        "gain": plain_ms / run_ms,
        "repeats": len(run.timings),
        "models": f"{run.target} with {run.draft}",
    }


def _fastest_k() -> Facts:
    """For each number of texts at once, the fastest number of drafted tokens per round, measured with the
    embedded pair."""
    rows = [row for row in _results("serving")["points"] if row["tree"] != "auto"]
    sizes = (1, 4, 16, 40)  # more numbers were measured
    best = [max((row for row in rows if row["at_once"] == n), key=lambda row: row["value"]) for n in sizes]
    pairs = [[row["at_once"], row["k"]] for row in best]
    return {"many": pairs, "many_best": 0 if pairs[-1][1] == 0 else 1 if pairs[-1][1] == pairs[0][1] else 2}


def yourself() -> Facts:
    """A round of "You draft" whose first words are right. The tests play it."""
    typed, target = "She loved to dance", "She loved to play outside"
    pairs = zip(typed.split(), target.split(), strict=False)
    equal = next(i for i, (a, b) in enumerate(pairs) if a != b)
    return {
        "opening": "4",  # the opening about Lily
        "typed": typed,
        "target_text": target,
        "own": target.split()[equal],
        "kept_words": ("No words", "One word", "two words", "three words")[equal],
        "yielded": equal + 1,
        "wrong_first": 1,
        "same_story": 2,
    }


def _results(name: str) -> dict[str, Any]:
    return json.loads((ASSETS / "results" / f"{name}.json").read_bytes())


def rejection() -> Facts:
    """The recorded early rejection, with its test and the tokens that it costs, and another rejection whose
    residual can be computed by hand."""
    round, step = _moment("early-rejection")
    trial = step.trials[0]
    node = next(node for node in round.nodes if node.path == trial.path)
    residual = residual_of(P, Q)
    return rejecting() | {
        "round": round.number + 1,
        "last_decision": 1 + len(step.trials) + len(round.tokens),
        "drafted": len(round.nodes),
        "token": _quoted_text(node.text),
        "p_token": trial.p,
        "q_token": trial.q,
        "u": trial.u,
        "ratio": trial.p / trial.q,
        "verdict": 0 if trial.accepted else 1,
        "behind_word": ("No", "One", "Two", "Three", "Four")[len(round.nodes) - 1],
        "kept_behind": sum(node.status == "accepted" for node in round.nodes[1:]),
        "emitted": len(round.tokens),
        "residual_c": residual[2],
        "excess": ", ".join(f"{max(a - b, 0):g}" for a, b in zip(P, Q, strict=True)),
        "residual_words": ", ".join(
            f"“{name}” {part:.0%}" for name, part in zip("abc", residual, strict=True)
        ),
    }


def _moment(name: str) -> tuple[Any, Any]:
    """The round and the step at which a recorded run shows what it was recorded for, from the runs' index."""
    entry = next(entry for entry in traces.entries() if entry["name"] == name)
    run = recorded_run(name)
    return run.rounds[entry["round"]], run.rounds[entry["round"]].steps[entry["step"]]


def referee() -> Facts:
    """The false alarms of the losslessness check, and the deviations that the audit can find."""
    trial = _results("audit")["ours-ersd, top_k 4"]["trials"][0]
    return {
        "alarm": lossless_run.ALARM,
        "checks": round(1 / lossless_run.ALARM),
        "decodes": lossless_run.CheckSettings().decodes,
        "alarms_choice": 1,  # one alarm in this many checks, by the definition of a p-value
        "unseen": 2,  # the tests decode with the mistake and without, and compare
        "audit_decodes": trial["decodes"],
        "found": trial["evidence"][0]["would_find"],
        "power": POWER,
        "clean": 1,
    }


def _quoted_text(text: str) -> str:
    return f"“{text.replace(chr(10), '⏎').replace(' ', '␣')}”"
