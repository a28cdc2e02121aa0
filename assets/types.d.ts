// Types of the page's state. The types of a run's record are written from Python. Only the type checker reads them; the
// server does not serve them.

import type { Generation, Node, Round, Seconds, Timing, Token } from "./record.d.ts";

export type { Arrival, Generation, Node, Round, Step, Timing, Token, Trial } from "./record.d.ts";
export type Kind = Token["kind"];
export type Status = Node["status"];
export type Stage = keyof Seconds;
export type Path = number[];

export interface Model {
  role: string;
  name: string;
  dtype?: string;
  numbers?: string;
  device?: string;
  capability?: string;
}

/** The settings of a run, and its models. */
export type Setup = Omit<
  Generation,
  "target" | "draft" | "prefill_seconds" | "rounds" | "baseline" | "timings"
> & {
  models: Model[];
  num_draft_tokens: number;
  depth: number;
  baseline?: boolean;
  topology?: string;
  tree?: unknown;
};

/** A complete run. */
export interface Run {
  setup: Setup;
  rounds: Round[];
  prefillSeconds: number;
  /** Plain decoding of the same prompt and seed. It is empty if it was not measured. */
  baseline?: Round[];
  /** Repeats in which the run and plain decoding were timed in turns. */
  timings?: Timing[];
}

/** The smallest step of time in a run. `trial` is the number of a test of GSD, or null. */
export interface Decision {
  kind: Kind | "draft" | "rejected";
  step: number;
  trial: number | null;
}

/** What the store of the page holds. */
export interface State extends Run {
  run: string | null;
  phase: "idle" | "waiting" | "choosing" | "running" | "baseline" | "done" | "stopped" | "error";
  place: { number: number; of: number; seconds: number | null } | null;
  early: boolean;
  message: string;
  baseline: Round[];
  timings: Timing[];
  recorded: Record<string, any> | null;
  selected: { round: number; step: number };
  decision: number;
  veiled: boolean;
  follow: boolean;
}

/** A highlighted place: a node or token of a round, or a row of the statistics. */
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
