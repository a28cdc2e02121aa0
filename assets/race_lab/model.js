// The data of the race laboratory, a list of tokens { name, p, q, e }, and what is computed from it.

/** @import { Step } from "../types.d.ts" */

import { sum } from "../shared/totals.js";

/** @param {number} e @param {number} probability */
export const arrival = (e, probability) => (probability > 0 ? e / probability : Infinity);
export const exponential = () => -Math.log1p(-Math.random());

export const [FEWEST, MOST] = [2, 8]; // how many tokens the laboratory can have
export const START_SEED = 20; // seed of the first race, all of whose arrivals are visible

// `count` exponentials for a seed. Each uses 32 bits of Mulberry's generator, which is enough for a drawing.
/** @param {number} seed @param {number} count @returns {number[]} */
export function exponentials(seed, count) {
  let state = seed >>> 0;
  return Array.from({ length: count }, () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return -Math.log1p(-((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32);
  });
}

// Index of the first arrival under "p" or "q".
/** @param {{ p?: number, q?: number, e: number }[]} tokens @param {"p" | "q"} side */
export function first(tokens, side) {
  const times = tokens.map((token) => arrival(token.e, token[side]));
  return times.indexOf(Math.min(...times));
}

// A copy of a distribution whose entry i is `value`. The others are scaled in proportion to `base`, for a sum of 1.
/** @param {number[]} base @param {number} i @param {number} value @returns {number[]} */
export function withEntry(base, i, value) {
  const set = Math.min(Math.max(value, 0), 1);
  const total = base.reduce((sum, entry, j) => (j === i ? sum : sum + entry), 0);
  const share = (entry) => (total > 0 ? entry / total : 1 / (base.length - 1));
  return base.map((entry, j) => (j === i ? set : (1 - set) * share(entry)));
}

const DUST = 1e-12; // rounding error of sums of probabilities

/** @param {{ p: number, q: number }} token */
export const excess = ({ p, q }) => (p - q > DUST ? p - q : 0);

// normalise(max(p - q, 0)), or null if P equals Q.
/** @param {{ p: number, q: number }[]} tokens @returns {number[] | null} */
export function residual(tokens) {
  const excesses = tokens.map(excess);
  const mass = sum(excesses);
  return mass > 0 ? excesses.map((entry) => entry / mass) : null;
}

// The tokens of the laboratory for a verified position of a run: its likeliest tokens, the winners of both
// races, and one token “other” that stands for all the rest.
/** @param {Step} step @param {(text: string) => string} visible */
export function fromStep(step, visible) {
  const winners = [step.winner_p, step.winner_q];
  const leading = step.leading.filter(({ p, q }) => p > 0 || q > 0);
  const order = (row) => (winners.includes(row.token_id) ? 2 : Math.max(row.p, row.q));
  const rows = leading.sort((a, b) => order(b) - order(a)).slice(0, MOST - 1);
  const tokens = rows.map((row) => ({ name: visible(row.text), p: row.p, q: row.q, e: row.exponential }));
  return [...tokens, otherToken(tokens)];
}

// No other token won a race in the run, so “other” gets an e with which it arrives after both winners.
function otherToken(tokens) {
  const missing = (side) => Math.max(0, 1 - sum(tokens.map((token) => token[side])));
  const [p, q] = [missing("p"), missing("q")];
  const earliest = (side) => Math.min(...tokens.map((token) => arrival(token.e, token[side])));
  return { name: "other", p, q, e: Math.max(p * earliest("p"), q * earliest("q")) + exponential() };
}
