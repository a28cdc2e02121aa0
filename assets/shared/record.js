// The records of `specdec.trace` as JSON schema. Written by `python -m components.page.schema`.
// biome-ignore-all format: generated

export const RECORD = {
 "Arrival": {
  "token_id": {"type": "integer", "minimum": 0},
  "text": {"type": "string"},
  "exponential": {"type": "number", "minimum": 0},
  "q": {"type": "number", "wanted": "a probability", "minimum": 0, "maximum": 1.000001},
  "p": {"type": "number", "wanted": "a probability", "minimum": 0, "maximum": 1.000001},
  "arrival_q": {"type": "number", "minimum": 0, "nullable": true},
  "arrival_p": {"type": "number", "minimum": 0, "nullable": true}
 },
 "Candidate": {
  "paths": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
  "expected_tokens": {"type": "number", "minimum": 0},
  "milliseconds": {"record": "Milliseconds"},
  "tokens_per_second": {"type": "number", "minimum": 0},
  "chosen": {"type": "boolean", "default": false}
 },
 "Milliseconds": {
  "draft": {"type": "number", "minimum": 0, "maximum": 1000000000.0},
  "target": {"type": "number", "minimum": 0, "maximum": 1000000000.0},
  "rest": {"type": "number", "minimum": 0, "maximum": 1000000000.0}
 },
 "Node": {
  "path": {"type": "array", "items": {"type": "integer", "minimum": 0}},
  "token_id": {"type": "integer", "minimum": 0},
  "text": {"type": "string"},
  "status": {"enum": ["accepted", "rejected", "unvisited"]},
  "q": {"type": "number", "wanted": "a probability", "minimum": 0, "maximum": 1.000001, "nullable": true, "default": null},
  "p": {"type": "number", "wanted": "a probability", "minimum": 0, "maximum": 1.000001, "nullable": true, "default": null},
  "copied": {"type": "boolean", "default": false}
 },
 "Planted": {
  "round": {"type": "integer", "minimum": 0},
  "paths": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
  "depth": {"type": "integer", "minimum": 0, "nullable": true, "default": null}
 },
 "Round": {
  "number": {"type": "integer", "minimum": 0},
  "position": {"type": "integer", "minimum": 0},
  "tokens": {"type": "array", "items": {"record": "Token"}},
  "nodes": {"type": "array", "items": {"record": "Node"}},
  "steps": {"type": "array", "items": {"record": "Step"}},
  "seconds": {"record": "Seconds"},
  "text": {"type": "string"},
  "finish": {"enum": ["length", "context", "eos"], "nullable": true, "default": null}
 },
 "Seconds": {
  "draft": {"type": "number", "minimum": 0, "maximum": 1000000000.0, "default": 0.0},
  "evaluate": {"type": "number", "minimum": 0, "maximum": 1000000000.0, "default": 0.0},
  "verify": {"type": "number", "minimum": 0, "maximum": 1000000000.0, "default": 0.0},
  "rest": {"type": "number", "minimum": 0, "maximum": 1000000000.0, "default": 0.0}
 },
 "Step": {
  "path": {"type": "array", "items": {"type": "integer", "minimum": 0}},
  "position": {"type": "integer", "minimum": 0},
  "leading": {"type": "array", "items": {"record": "Arrival"}},
  "winner_q": {"type": "integer", "minimum": 0, "nullable": true},
  "winner_p": {"type": "integer", "minimum": 0},
  "trials": {"type": "array", "items": {"record": "Trial"}},
  "token_id": {"type": "integer", "minimum": 0},
  "kind": {"enum": ["accepted", "bonus", "residual", "correction", "sampled"]},
  "optimum": {"type": "number", "wanted": "a probability", "minimum": 0, "maximum": 1.000001, "nullable": true, "default": null}
 },
 "Timing": {
  "run": {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1000000000.0}},
  "plain": {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1000000000.0}}
 },
 "Token": {
  "id": {"type": "integer", "minimum": 0},
  "text": {"type": "string"},
  "kind": {"enum": ["accepted", "bonus", "residual", "correction", "sampled"]}
 },
 "Trial": {
  "path": {"type": "array", "items": {"type": "integer", "minimum": 0}},
  "token_id": {"type": "integer", "minimum": 0},
  "u": {"type": "number", "wanted": "a probability", "minimum": 0, "maximum": 1.000001},
  "p": {"type": "number", "wanted": "a probability", "minimum": 0, "maximum": 1.000001},
  "q": {"type": "number", "wanted": "a probability", "minimum": 0, "maximum": 1.000001},
  "ratio": {"type": "number", "minimum": 0, "nullable": true},
  "accepted": {"type": "boolean"}
 },
 "Generation": {
  "method": {"enum": ["ar", "gsd", "ersd", "traversal", "specinfer", "spectr"]},
  "paths": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
  "prompt": {"type": "string"},
  "prompt_ids": {"type": "array", "items": {"type": "integer", "minimum": 0}},
  "seed": {"type": "integer", "minimum": 0},
  "temperature": {"type": "number", "minimum": 0},
  "top_k": {"type": "integer", "minimum": 0},
  "top_p": {"type": "number", "minimum": 0},
  "max_new_tokens": {"type": "integer", "minimum": 0},
  "target": {"type": "string"},
  "draft": {"type": "string"},
  "prefill_seconds": {"type": "number", "minimum": 0, "maximum": 1000000000.0},
  "rounds": {"type": "array", "items": {"record": "Round"}},
  "arithmetic": {"type": "string", "default": ""},
  "draft_temperature": {"type": "number", "minimum": 0, "nullable": true, "default": null},
  "drafter": {"type": "string", "default": "model"},
  "baseline": {"type": "array", "items": {"record": "Round"}, "default": []},
  "timings": {"type": "array", "items": {"record": "Timing"}, "default": []},
  "chat": {"type": "boolean", "default": false},
  "history": {"type": "array", "items": {"type": "string"}, "default": []},
  "choice": {"type": "array", "items": {"record": "Candidate"}, "nullable": true, "default": null},
  "trees": {"type": "array", "items": {"record": "Planted"}, "default": []}
 }
};
