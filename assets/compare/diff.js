// Compares two texts token by token: where they first differ, and what that means for the method.

import { INVARIANT, METHODS } from "../shared/catalogue.js";
import { count, quoted } from "../shared/labels.js";
import { blockEfficiency } from "../shared/totals.js";

const AROUND = 18; // characters that are shown before and after the first difference

// The index of the first token in which two runs differ, or -1 if they agree so far. If one of two finished
// runs is longer, they differ after the end of the shorter one.
export function parting(lane, other) {
  const [a, b] = [lane.tokens, other.tokens];
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) if (a[i].id !== b[i].id) return i;
  const finished = lane.phase === "finished" && other.phase === "finished";
  return finished && a.length !== b.length ? shorter : -1;
}

const name = (token) => (token ? quoted(token.text) : "the end");

// Compares a run's text with that of plain decoding: { same, at, line }. same: true, false, or null if not
// known yet. at: the first token that differs. line: a sentence about it.
export function verdict(lane, reference) {
  const place = parting(lane, reference);
  const length = lane.tokens.length;
  if (place >= 0) {
    const line = `First difference at token ${place + 1}: ${name(lane.tokens[place])} instead of ${name(reference.tokens[place])}`;
    return { same: false, at: place, line };
  }
  if (lane.phase === "finished")
    return { same: true, at: place, line: `The same ${count(length, "token")} as plain decoding` };
  return { same: null, at: place, line: length > 0 ? `Same as plain decoding so far: ${count(length, "token")}` : "" };
}

// Why the texts are equal or differ. greedy: whether the temperature is 0; dtype: the target's type of numbers.
export function reason(method, { same, at }, { greedy, dtype }) {
  if (same === null) return "";
  if (INVARIANT.includes(method)) return same ? keepsText(method, dtype) : rounded(at, dtype);
  if (!same) return greedy ? rounded(at, dtype) : otherNoise(METHODS[method]);
  return greedy
    ? "At temperature 0 every method takes the token that the large model finds likeliest."
    : byChance(METHODS[method]);
}

const otherNoise = (name) =>
  `${name} decides with random numbers of its own, so it writes another text. Both texts come from the same distribution: the large model’s.`;
const byChance = (name) =>
  `The texts are equal by chance, because ${name} decides with random numbers of its own. With another seed, or in longer texts, they would probably differ.`;

// These counts are in assets/results/rounding.json. ERSD drafted a sequence of four tokens.
const HOW_OFTEN =
  "We decoded texts with the story models of this page. In bfloat16, rounding changed 22 of 40 texts of up to 140 tokens with torch’s operations, and none with this project’s compiled code. In float32 it changed none.";

function keepsText(method, dtype) {
  if (dtype === "float32")
    return `The noise depends on seed and position alone, so draft, topology and k cannot change ${METHODS[method]}’s text.`;
  return `The models ran in ${dtype}. Rounding can change a text there, and did not change this one. ${HOW_OFTEN}`;
}

function rounded(place, dtype) {
  const agreement = `Measured in ${dtype}: the first ${count(place, "token")} of both texts are equal.`;
  if (dtype === "float32")
    return `${agreement} At the next token two choices were almost equally likely, and rounding decided between them.`;
  return `${agreement} A call of the large model over several tokens rounds differently from one over a single token. Here the rounding decided between two almost equally likely tokens. ${HOW_OFTEN}`;
}

// A sentence about what the visitor's change of a column did to its text and to its tokens per target call.
export function change(lane) {
  const { before } = lane;
  if (!before || lane.phase !== "finished") return "";
  const place = parting(lane, before);
  const text =
    place < 0
      ? `all ${count(lane.tokens.length, "token")} of the text are the same`
      : `the text differs from token ${place + 1} on`;
  return `After your change, ${text}. Tokens per call: ${efficiency(before)} before, ${efficiency(lane)} now.`;
}

export const efficiency = ({ totals }) => blockEfficiency(totals.tokens, totals.rounds);

// A short excerpt of a text around the token at a position: { before, token, after }.
export function around(tokens, place) {
  const text = (part) => part.map((token) => token.text).join("");
  const [before, after] = [[...text(tokens.slice(0, place))], [...text(tokens.slice(place + 1))]];
  return {
    before: (before.length > AROUND ? "…" : "") + before.slice(-AROUND).join(""),
    token: tokens[place]?.text ?? "",
    after: after.slice(0, AROUND).join("") + (after.length > AROUND ? "…" : ""),
  };
}
