// The speed of a run relative to plain decoding, from repeats in which both were timed in turns.

/** @import { Round, Timing } from "../types.d.ts" */

import { INVARIANT } from "./catalogue.js";
import { count } from "./labels.js";
import { decodingSeconds, median, sum, tokensIn } from "./totals.js";

const LEAST = 3; // least number of repeats for a statement
const MANY = 5; // from this number of repeats on, the interval leaves out the lowest and the highest
const TOO_WIDE = 1.5; // if the ends of an interval have this ratio, it is too wide for a statement

// How many rounds and tokens all repeats have timed. For long runs, later repeats cover only the beginning.
function shared({ rounds, timings }) {
  const calls = Math.min(...timings.map(({ run }) => run.length));
  const tokens = tokensIn(rounds.slice(0, calls));
  return { calls, tokens, plain: Math.min(tokens, ...timings.map(({ plain }) => plain.length)) };
}

// The number of rounds of the whole run, and of tokens of the whole text.
function totals({ rounds, baseline }) {
  const tokens = tokensIn(rounds);
  return { calls: rounds.length, tokens, plain: Math.min(tokens, baseline.length) };
}

// How many times as fast as plain decoding a run is: the ratio of their times per token.
const perToken = (seconds, { calls, tokens, plain }) =>
  sum(seconds.plain.slice(0, plain)) / plain / (sum(seconds.run.slice(0, calls)) / tokens);

// The speed as a multiple of plain decoding's, { times, low, high, isBusy }. times: the ratio for the whole text, as
// both timelines show it. low, high: the range of the repeats, which may have timed only the text's beginning.
// isBusy: whether the repeats vary too much for a statement. null if there are too few repeats.
/** @param {{ rounds: Round[], baseline: Round[], timings: Timing[] }} run */
export function speed(run) {
  if (run.timings.length < LEAST || run.rounds.length === 0) return null;
  const [seconds, beginning] = [durations(run), shared(run)];
  const sorted = run.timings.map((timing) => perToken(timing, beginning)).sort((a, b) => a - b);
  const cut = sorted.length >= MANY ? 1 : 0;
  const times = perToken(seconds, totals(run));
  const scale = times / perToken(seconds, beginning);
  const [low, high] = [Math.min(times, scale * sorted[cut]), Math.max(times, scale * sorted[sorted.length - 1 - cut])];
  return { times, low, high, isBusy: !(high / low <= TOO_WIDE) };
}

// The seconds of each round of the run and of plain decoding: medians over the repeats, scaled to the median of their
// total. The latest result is cached, because the clock needs it in every frame.
/** @param {{ rounds: Round[], baseline: Round[], timings: Timing[] }} run */
export function durations({ rounds, baseline, timings }) {
  const key = [rounds, rounds.length, baseline, baseline.length, timings];
  const repeats = (name) => timings.map((timing) => timing[name]);
  if (!key.every((part, i) => part === latest.key[i]))
    latest = { key, seconds: { run: typical(rounds, repeats("run")), plain: typical(baseline, repeats("plain")) } };
  return latest.seconds;
}
let latest = { key: [], seconds: { run: [], plain: [] } };

// repeats: for each repeat, the seconds of its rounds; a repeat may lack the last rounds.
function typical(rounds, repeats) {
  const medians = rounds.map((_, i) => median(repeats.map((seconds) => seconds[i])));
  const count = Math.min(rounds.length, ...repeats.map(({ length }) => length));
  const sumOf = (seconds) => sum(seconds.slice(0, count));
  const scale = median(repeats.map(sumOf)) / sumOf(medians) || 1;
  return rounds.map((round, i) => (medians[i] === undefined ? decodingSeconds(round) : medians[i] * scale));
}

// Whether plain decoding has written its whole text. More repeats may still be timed.
/** @param {{ baseline: Round[] }} run */
export const isMeasured = ({ baseline }) => (baseline.at(-1)?.finish ?? null) !== null;

// The reason why there is no comparison with plain decoding.
export function missingWords({ baseline: { length }, setup, phase, recorded }) {
  return length > 0 || (setup.baseline && phase === "done" && !recorded)
    ? `Plain decoding was stopped after ${count(length, "token")}, so there is no comparison.`
    : "Plain decoding was not measured.";
}

const idsOf = (rounds) => rounds.flatMap(({ tokens }) => tokens.map(({ id }) => id));

// The number of positions at which a run and plain decoding have the same token.
/** @param {{ rounds: Round[], baseline: Round[] }} run */
export function equalTokens({ rounds, baseline }) {
  const plain = idsOf(baseline);
  return idsOf(rounds).filter((id, i) => id === plain[i]).length;
}

// The result of a run of this speed in words: "1.6 times as fast (1.5 to 1.7), the same 64 tokens".
export function resultWords(run, result, withInterval = true) {
  const { length } = idsOf(run.rounds);
  const text =
    equalTokens(run) === length
      ? `the same ${length} tokens`
      : INVARIANT.includes(run.setup.method)
        ? ""
        : "a text of the same distribution";
  const words = [speedWords(result, withInterval), text].filter(Boolean).join(", ");
  return words[0].toUpperCase() + words.slice(1);
}

const rounded = (value) => value.toFixed(1);

// The speed in words: "1.3 times as fast (1.2 to 1.4)". The interval is left out if its ends are equal in
// these digits, or where another line tells it.
/** @param {{ times: number, low: number, high: number }} speed */
export function speedWords({ times, low, high }, withInterval = true) {
  const interval = withInterval && rounded(low) !== rounded(high) ? ` (${rounded(low)} to ${rounded(high)})` : "";
  if (Number(rounded(low)) <= 1 && Number(rounded(high)) >= 1) return `about as fast as plain decoding here${interval}`;
  return times < 1
    ? `slower here: ${rounded(times)} times as fast${interval}`
    : `${rounded(times)} times as fast${interval}`;
}
