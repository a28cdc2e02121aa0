// Texts and numbers about the watermark of a text.

import { METHODS } from "../shared/catalogue.js";
import { pValue, superscript } from "../shared/labels.js";

const HIGHEST = 6; // higher scores are not drawn darker
const LEAST = 1e-300; // the server's numbers round smaller p-values to 0

/** @param {number} score */
export const level = (score) => Math.min(1, score / HIGHEST);

const LOW = 0.5; // temperatures below leave most positions one likely token
const MARKED = ["ar", "ersd"]; // methods whose tokens are the first arrivals under P

// A sentence about why a run's text has no watermark or only a weak one; empty if it has the full watermark.
function why({ method, temperature }) {
  if (temperature === 0) return "At temperature 0 nothing is random, so there is no watermark to find.";
  if (!MARKED.includes(method))
    return `Under ${METHODS[method]} the target's race does not decide, so the watermark is weaker or missing.`;
  return temperature < LOW ? "At a low temperature few tokens are left to chance, so the watermark is weak." : "";
}

// A large number in words, or as a power of ten if it has no name.
/** @param {number} number */
export const inWords = (number) =>
  number < 1e15
    ? number.toLocaleString("en", { notation: "compact", compactDisplay: "long", maximumSignificantDigits: 2 })
    : `10${superscript(Math.floor(Math.log10(number)))}`;

// A p-value in words: the number, or a bound if it is too small for the server's numbers.
const bounded = (p) => (p < LEAST ? `< ${pValue(LEAST)}` : pValue(p));

// The p-value of a whole text in words. values: the p-values of its beginnings.
export function pValueOf(values) {
  const p = values.at(-1);
  return `p ${p < LEAST ? "" : "= "}${bounded(p)}`;
}

// Sentences that name the scored run and explain its p-value.
/**
 * @param {{ method: string, temperature: number, seed: number }} setup
 * @param {number} tokens
 * @param {number} p
 * @param {number} certain
 */
export function about(setup, tokens, p, certain) {
  const run = `The run in Watch: ${METHODS[setup.method]}, seed ${setup.seed}, ${tokens} tokens.`;
  const proof = p < certain ? "." : ", so this is no proof.";
  const words = `${p < LEAST ? "Fewer than one" : "One"} in ${inWords(1 / Math.max(p, LEAST))} texts`;
  const [share, scores] = p > 0.1 ? [`${Math.round(100 * p)}% of the texts`, "score"] : [words, "scores"];
  const chance = `${share} that were written without the seed ${scores} at least as high${proof}`;
  return [run, chance, why(setup)].filter(Boolean).join(" ");
}

// Rows of the table: each token with its score and the p-value up to it.
export const rows = (texts, { places, scores, p_values }) =>
  places.map((place, i) => [String(i + 1), texts[place], scores[i].toFixed(2), bounded(p_values[i])]);
