// The records of `specdec.trace` as types. Written by `python -m components.page.schema`.

/** One token in the race at one position. */
export interface Arrival {
  token_id: number;
  text: string;
  exponential: number;
  q: number;
  p: number;
  arrival_q: number | null;
  arrival_p: number | null;
}

/** One of the trees among which "auto" chose. */
export interface Candidate {
  paths: number[][];
  expected_tokens: number;
  milliseconds: Milliseconds;
  tokens_per_second: number;
  chosen: boolean;
}

/** Expected milliseconds of one round of all texts. */
export interface Milliseconds {
  draft: number;
  target: number;
  rest: number;
}

/** One drafted token, a node of the draft tree. */
export interface Node {
  path: number[];
  token_id: number;
  text: string;
  status: "accepted" | "rejected" | "unvisited";
  q: number | null;
  p: number | null;
  copied: boolean;
}

/** A tree that consecutive rounds of a run used. */
export interface Planted {
  round: number;
  paths: number[][];
  depth: number | null;
}

/** The record of one target call, its drafted tree and its new tokens. */
export interface Round {
  number: number;
  position: number;
  tokens: Token[];
  nodes: Node[];
  steps: Step[];
  seconds: Seconds;
  text: string;
  finish: "length" | "context" | "eos" | null;
}

/** Seconds of each part of a round. */
export interface Seconds {
  draft: number;
  evaluate: number;
  verify: number;
  rest: number;
}

/** One verified position of a round. */
export interface Step {
  path: number[];
  position: number;
  leading: Arrival[];
  winner_q: number | null;
  winner_p: number;
  trials: Trial[];
  token_id: number;
  kind: "accepted" | "bonus" | "residual" | "correction" | "sampled";
  optimum: number | null;
}

/** Times of one repeat, in which a run and plain decoding took turns. */
export interface Timing {
  run: number[];
  plain: number[];
}

/** One emitted token. */
export interface Token {
  id: number;
  text: string;
  kind: "accepted" | "bonus" | "residual" | "correction" | "sampled";
}

/** One acceptance test. */
export interface Trial {
  path: number[];
  token_id: number;
  u: number;
  p: number;
  q: number;
  ratio: number | null;
  accepted: boolean;
}

/** The record of a whole run. */
export interface Generation {
  method: "ar" | "gsd" | "ersd" | "traversal" | "specinfer" | "spectr";
  paths: number[][];
  prompt: string;
  prompt_ids: number[];
  seed: number;
  temperature: number;
  top_k: number;
  top_p: number;
  max_new_tokens: number;
  target: string;
  draft: string;
  prefill_seconds: number;
  rounds: Round[];
  arithmetic: string;
  draft_temperature: number | null;
  drafter: string;
  baseline: Round[];
  timings: Timing[];
  chat: boolean;
  history: string[];
  choice: Candidate[] | null;
  trees: Planted[];
}
