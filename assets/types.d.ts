// What the scripts know of a run: `specdec.trace` as JSON, and the page's state. For the type checker alone:
// nothing of this is served.

export type Kind = "accepted" | "bonus" | "residual" | "correction" | "sampled";
export type Status = "accepted" | "rejected" | "unvisited";
export type Path = number[];
export type Stage = "draft" | "evaluate" | "verify" | "rest";

export interface Token {
  id: number;
  text: string;
  kind: Kind;
}

/** A drafted token. */
export interface Node {
  path: Path;
  token_id: number;
  text: string;
  status: Status;
  q: number | null;
  p: number | null;
}

/** A token in a race: null stands for infinity. */
export interface Arrival {
  token_id: number;
  text: string;
  exponential: number;
  q: number;
  p: number;
  arrival_q: number | null;
  arrival_p: number | null;
}

/** A test of a drafted token: accepted when u < ratio. */
export interface Trial {
  path: Path;
  token_id: number;
  u: number;
  p: number;
  q: number;
  ratio: number | null;
  accepted: boolean;
}

/** A verified position. */
export interface Step {
  path: Path;
  position: number;
  leading: Arrival[];
  winner_q: number | null;
  winner_p: number;
  trials: Trial[];
  token_id: number;
  kind: Kind;
  /** The most that any rule can accept here. */
  optimum?: number | null;
}

export interface Round {
  number: number;
  position: number;
  tokens: Token[];
  nodes: Node[];
  steps: Step[];
  seconds: Record<Stage, number>;
  text: string;
  finish: "length" | "context" | "eos" | null;
}

export interface Model {
  role: string;
  name: string;
  dtype?: string;
  device?: string;
  capability?: string;
}

export interface Setup {
  method: string;
  paths: Path[];
  prompt: string;
  prompt_ids: number[];
  seed: number;
  temperature: number;
  top_k: number;
  top_p: number;
  max_new_tokens: number;
  baseline?: boolean;
  arithmetic?: string;
  draft_temperature?: number | null;
  models: Model[];
  num_draft_tokens: number;
  depth: number;
  topology?: string;
  tree?: unknown;
}

/** A run that is known from start to end. */
export interface Run {
  setup: Setup;
  rounds: Round[];
  prefillSeconds: number;
  /** Autoregressive decoding of the same prompt and seed, measured beside it; empty where it was not. */
  baseline?: Round[];
}

/** The file of a run, as Python writes it. */
export type Generation = Omit<Setup, "models" | "num_draft_tokens" | "depth" | "topology" | "tree"> & {
  target: string;
  draft: string;
  prefill_seconds: number;
  rounds: Round[];
};

/** The smallest step of time: `trial` is the number of GSD's test, null without one. */
export interface Decision {
  kind: Kind | "draft" | "rejected";
  step: number;
  trial: number | null;
}

/** What the store of the page holds. */
export interface State extends Run {
  run: string | null;
  seq: number;
  phase: "idle" | "waiting" | "choosing" | "running" | "baseline" | "done" | "stopped" | "error";
  place: { number: number; of: number; seconds: number | null } | null;
  early: boolean;
  message: string;
  baseline: Round[];
  recorded: Record<string, any> | null;
  selected: { round: number; step: number };
  decision: number;
  veiled: boolean;
  follow: boolean;
}

/** What is lit on the page: a place of a round, or a row of the statistics. */
export interface Lit {
  round?: number;
  path?: string;
  token_id?: number;
  index?: number | null;
  kind?: Kind | null;
}

declare global {
  interface Window {
    specdec: any;
    Plotly: any;
  }
}
