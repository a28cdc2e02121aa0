"""Record the comparisons that the view opens with: `python -m components.compare.record_columns`.

Prompt and seed decide the texts. The seconds were measured on the recording machine. They are medians of
several recordings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from statistics import median
from typing import Any

import specdec
from components.compare import run as compare_run
from components.compare.drafts import Drafts
from components.compare.panel import EXAMPLES, RECORDED, SHARED
from specdec.pair import Pair

_SECONDS = ("draft", "evaluate", "verify", "rest")
_RECORDINGS = 7


def main() -> None:
    """Decode the columns of the first example with both pairs, and write both comparisons to their files."""
    for name in ("smollm2", "stories"):
        write(specdec.load_pair(name))


def write(pair: Pair) -> None:
    """Record the comparison of this pair in its file."""
    path = RECORDED[pair.chats]
    recordings = [record(pair) for _ in range(_RECORDINGS)]
    path.write_text(json.dumps(_with_median_seconds(recordings), separators=(",", ":")) + "\n")
    print(f"written: {path.name}, {path.stat().st_size:,} bytes", flush=True)


def record(pair: Pair) -> dict[str, Any]:
    """Decode all columns, and return the comparison as data.

    The data has these parts. shared: the settings that all columns share. models: the models. lanes: tree and
    rounds of each column; the keys are the columns in the notation of the address.
    """
    columns = next(iter(EXAMPLES.values())).split(",")
    drafted = [column for column in columns if column != "ar"]
    values = SHARED[pair.chats]
    request = values | {
        "max_new_tokens": values["length"],
        "columns": [{"name": column, **_parsed(column)} for column in drafted],
        "reference": True,
    }
    updates = [json.loads(text) for text in compare_run.updates(Drafts(pair), request)]
    lanes = {name: _lane(updates, name) for name in (compare_run.REFERENCE, *drafted)}
    return {"shared": values, "models": updates[0]["setup"]["models"], "lanes": lanes}


def _with_median_seconds(recordings: list[dict[str, Any]]) -> dict[str, Any]:
    """The first recording, with the seconds of each round replaced by their medians over all recordings."""
    for name, lane in recordings[0]["lanes"].items():
        for number, round in enumerate(lane["rounds"]):
            all_seconds = [each["lanes"][name]["rounds"][number]["seconds"] for each in recordings]
            round["seconds"] = {stage: median(each[stage] for each in all_seconds) for stage in _SECONDS}
    return recordings[0]


def _parsed(column: str) -> dict[str, Any]:
    method, topology, k, draft = column.split(".")
    return {"method": method, "topology": topology, "k": int(k), "draft": draft}


def _lane(updates: list[dict[str, Any]], name: str) -> dict[str, Any]:
    own = [update for update in updates if update.get("column") == name]
    tree = next(update["tree"] for update in own if "tree" in update)
    return {"tree": tree, "rounds": [_round(round) for update in own for round in update["rounds"]]}


def _round(round: Mapping[str, Any]) -> dict[str, Any]:
    tokens = [{part: token[part] for part in ("id", "text", "kind")} for token in round["tokens"]]
    seconds = {stage: float(f"{round['seconds'][stage]:.3g}") for stage in _SECONDS}
    return {"tokens": tokens, "seconds": seconds, "nodes": [], "finish": round["finish"]}


if __name__ == "__main__":
    main()
