// The sums of a run, for all views that show them.

/** @import { Round } from "../types.d.ts" */

// The middle of the known numbers; undefined if there are none.
/** @param {number[]} numbers */
export function median(numbers) {
  const sorted = numbers.filter((number) => number !== undefined).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

export const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** The number of tokens of these rounds. @param {Round[]} rounds */
export const tokensIn = (rounds) => sum(rounds.map(({ tokens }) => tokens.length));

export const STAGES = ["draft", "evaluate", "verify", "rest"];

// Tokens per target call, in words.
/** @param {number} tokens @param {number} calls */
export const blockEfficiency = (tokens, calls) => (calls > 0 ? (tokens / calls).toFixed(2) : "–");

// A round's seconds of decoding, without the time for the page's records.
/** @param {Round} round */
export const decodingSeconds = ({ seconds }) => seconds.draft + seconds.evaluate + seconds.verify;

// Sums over rounds. They are kept between updates, so that each round is read only once.
export class Totals {
  rounds = 0;
  tokens = 0;
  seconds = { draft: 0, evaluate: 0, verify: 0, rest: 0 };
  indices = [];
  kinds = {};
  // over the rounds with drafts: how many accepted 0, 1, 2, ... tokens; and the deepest drafted position
  histogram = [];
  depth = 0;
  levels = 0; // levels of all rounds that the small model drafted, without copies of the text
  drafted = 0;
  // over the positions with drafts: the number whose optimum is known, and the number of the others
  reached = { positions: 0, accepted: 0, optimum: 0, variance: 0, unknown: 0 };

  /** @param {Round[]} rounds @param {number} [end] */
  addAll(rounds, end = rounds.length) {
    for (; this.rounds < end; this.rounds++) this.add(rounds[this.rounds]);
    return this;
  }

  /** @param {Round} round */
  add(round) {
    this.tokens += round.tokens.length;
    for (const { kind } of round.tokens) this.kinds[kind] = (this.kinds[kind] ?? 0) + 1;
    for (const stage of STAGES) this.seconds[stage] += round.seconds[stage];
    if (round.nodes.length > 0) {
      const accepted = round.tokens.filter(({ kind }) => kind === "accepted").length;
      while (this.histogram.length <= accepted) this.histogram.push(0);
      this.histogram[accepted] += 1;
      this.depth = Math.max(this.depth, round.nodes.at(-1).path.length);
      this.levels += round.nodes.findLast(({ copied }) => !copied)?.path.length ?? 0;
      this.drafted += round.nodes.length;
    }
    const verified = new Set([""]); // Traversal verification also tests nodes below rejected ones
    for (const { path, status, copied } of round.nodes) {
      if (status === "accepted") verified.add(path.join());
      if (copied || status === "unvisited" || !verified.has(path.slice(0, -1).join())) continue;
      const index = (this.indices[path.at(-1)] ??= { accepted: 0, verified: 0 });
      index.verified += 1;
      index.accepted += status === "accepted";
    }
    for (const { optimum, kind, winner_q } of round.steps ?? []) {
      // the rounds of Compare have none
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

  // The run's acceptance under the names of `specdec.Generation.acceptance`.
  get acceptance() {
    const tail = (position) => sum(this.histogram.slice(position));
    return {
      mean_length: this.rounds ? this.tokens / this.rounds : 0,
      rate_by_position: Array.from({ length: this.depth }, (_, i) => tail(i + 1) / tail(0)),
      rate_by_index: Array.from(this.indices, ({ accepted, verified }) => accepted / verified),
      histogram: this.histogram,
      num_drafted: this.drafted,
      num_accepted: this.kinds.accepted ?? 0,
    };
  }

  get total() {
    return sum(Object.values(this.seconds));
  }

  // Seconds of decoding, without the time in which this page collects its data.
  get decoding() {
    return this.total - this.seconds.rest;
  }
}
