// The sums of a run, for all views that show them.

/** @import { Round } from "../types.d.ts" */

export const STAGES = ["draft", "evaluate", "verify", "rest"];

// Tokens per target call, in words.
/**
 * @param {number} tokens
 * @param {number} calls
 */
export const blockEfficiency = (tokens, calls) => (calls > 0 ? (tokens / calls).toFixed(2) : "–");

// A round's seconds of decoding, without the time for the page's records.
/** @param {Round} round */
export const decodingSeconds = ({ seconds }) => seconds.draft + seconds.evaluate + seconds.verify;

// Sums over rounds. They are kept between updates, so that each round is read once.
export class Totals {
  constructor() {
    const seconds = { draft: 0, evaluate: 0, verify: 0, rest: 0 };
    this.rounds = 0;
    this.tokens = 0;
    this.seconds = seconds;
    this.indices = [];
    this.kinds = {};
    // of positions with drafts whose optimum is known; and how many have one that is not
    this.reached = { positions: 0, accepted: 0, optimum: 0, variance: 0, unknown: 0 };
  }

  /**
   * @param {Round[]} rounds
   * @param {number} [end]
   */
  addAll(rounds, end = rounds.length) {
    for (; this.rounds < end; this.rounds++) this.add(rounds[this.rounds]);
    return this;
  }

  /** @param {Round} round */
  add(round) {
    this.tokens += round.tokens.length;
    for (const { kind } of round.tokens) this.kinds[kind] = (this.kinds[kind] ?? 0) + 1;
    for (const stage of STAGES) this.seconds[stage] += round.seconds[stage];
    for (const { path, status } of round.nodes) {
      if (status === "unvisited") continue;
      const index = (this.indices[path.at(-1)] ??= { accepted: 0, verified: 0 });
      index.verified += 1;
      index.accepted += status === "accepted";
    }
    for (const { optimum, kind, winner_q } of round.steps ?? []) {
      // Compare's rounds have none
      if (typeof optimum !== "number") {
        this.reached.unknown += Number(optimum === null && typeof winner_q === "number");
        continue;
      }
      this.reached.positions += 1;
      this.reached.accepted += Number(kind === "accepted");
      this.reached.optimum += optimum;
      this.reached.variance += optimum * (1 - optimum);
    }
  }

  get total() {
    return STAGES.reduce((sum, stage) => sum + this.seconds[stage], 0);
  }

  // Seconds of decoding: what this page collects to show it is left out, on both sides.
  get decoding() {
    return this.total - this.seconds.rest;
  }

  get speed() {
    return this.decoding > 0 ? this.tokens / this.decoding : 0;
  }
}
