"""The output of each record in a notebook, for IPython's method `_repr_mimebundle_`: MIME type -> content."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from specdec.notebook import still, tree
from specdec.notebook.colours import card
from specdec.notebook.framed import framed
from specdec.notebook.player import page

Bundle = dict[str, str]
MOST_BYTES = 5_000_000
"""The most characters of a record that the player opens. `assets/shared/trace.js` has the same limit."""


def generation(trace: str) -> Bundle:
    """A run as a player that steps through its rounds. trace: the run as JSON."""
    run = _with_ids(json.loads(trace))
    tokens = [token for round in run["rounds"] for token in round["tokens"]]
    kinds = [token["kind"] for token in tokens]
    words = _summary(run, len(tokens))
    picture = still.text(run["prompt"], [(token["text"], token["kind"]) for token in tokens])
    picture += still.legend(kinds) + still.small(words)
    text = "".join(token["text"] for token in tokens)
    plain = f"{text[:2000]!r}\n{words}"
    if not tokens:
        return {"text/plain": plain, "text/html": card(picture)}
    if len(trace) > MOST_BYTES:
        picture += still.small("Too long to be played here; a run with detail=False is shorter.")
        return {"text/plain": plain, "text/html": card(picture)}
    player = page(json.dumps(_rounded(run), ensure_ascii=False, separators=(",", ":")), framed=True)
    return {"text/plain": plain, "text/html": framed(player, picture, "A run of speculative decoding")}


def round(trace: str) -> Bundle:
    """A drawing of one round: its tree, the drafted tokens' status, its new tokens. trace: the round as
    JSON."""
    record = json.loads(trace)
    nodes = {tuple(node["path"]): node for node in record["nodes"]}
    labels = {path: _visible(node["text"], node["token_id"]) for path, node in nodes.items()}
    accepted = sum(token["kind"] == "accepted" for token in record["tokens"])
    words = f"round {record['number'] + 1}: {len(nodes)} drafted, {accepted} accepted, "
    words += f"{len(record['tokens'])} tokens for one target call"
    content = still.text(
        "", [(_visible(token["text"], token["id"]), token["kind"]) for token in record["tokens"]]
    )
    content += still.legend(token["kind"] for token in record["tokens"])
    if nodes and len(nodes) <= tree.MOST_NODES:
        content += tree.drawing([*nodes], labels, {path: node["status"] for path, node in nodes.items()})
    plain = f"{''.join(token['text'] for token in record['tokens'])!r}, {words}"
    return {"text/plain": plain, "text/html": card(content + still.small(words))}


def topology(paths: Sequence[tuple[int, ...]], plain: str) -> Bundle:
    """A drawing of a tree whose tokens are not known. plain: the text for notebooks that do not show HTML."""
    depth = max(map(len, paths), default=0)
    words = f"{len(paths)} drafted tokens, depth {depth}"
    picture = tree.drawing(paths, {}, {}) if 0 < len(paths) <= tree.MOST_NODES else ""
    return {"text/plain": plain, "text/html": card(picture + still.small(words))}


def counts(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], plain: str) -> Bundle:
    """A table of numbers. plain: the text for notebooks that do not show HTML."""
    return {"text/plain": plain, "text/html": card(still.table(caption, head, rows))}


def _summary(run: dict[str, Any], tokens: int) -> str:
    calls = len(run["rounds"])
    each = f", {tokens / calls:.2f} per call" if calls else ""
    return f"{tokens} tokens in {calls} target calls{each}; {run['method']}, seed {run['seed']}"


def _with_ids(run: dict[str, Any]) -> dict[str, Any]:
    """Replaces empty token texts with token ids, for a run that was decoded without a tokenizer."""
    tokens = [token for round in run["rounds"] for token in round["tokens"]]
    if any(token["text"] for token in tokens):
        return run
    for round in run["rounds"]:
        for token in round["tokens"]:
            token["text"] = f" {token['id']}"
        round["text"] = "".join(token["text"] for token in round["tokens"])
        steps = [entry for step in round["steps"] for entry in step["leading"]]
        for entry in [*round["nodes"], *steps]:
            entry["text"] = f" {entry['token_id']}"
    return run


def _rounded(value: Any) -> Any:
    """Rounds numbers to six digits, which halves the compressed record; the player shows three."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return {name: _rounded(each) for name, each in value.items()} if isinstance(value, dict) else value


def _visible(text: str, token_id: int) -> str:
    return text.replace("\n", "⏎") or f" {token_id}"
