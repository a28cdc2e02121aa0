// The explanation of a run, one sentence per moment: guessed, checked, replaced.

import { INVARIANT } from "../shared/catalogue.js";
import { visible } from "../shared/labels.js";
import { isMeasured, missingWords, resultWords } from "../shared/speed.js";
import { decisionsOf, explain, isExpecting, lastDecision, seek, state } from "../shared/store.js";
import { paceNow } from "./player.js";

const NUMBERS = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
const count = (n, word) => `${NUMBERS[n] ?? n} ${word}${n === 1 ? "" : "s"}`;
const quoted = (text) => `“\u2068${visible(text.trim() || text).replaceAll("␣", " ")}\u2069”`;
const LANES = 6; // seconds that both lanes take in the opening
const FEWER = "A call reads the large model once, for one token or for several: fewer calls, less to read.";

// What both lanes show. The visitor may stop plain decoding meanwhile.
function both() {
  if (!isMeasured(state) && !isExpecting()) return missingWords(state);
  return INVARIANT.includes(state.setup.method) ? `The same text. ${FEWER}` : FEWER;
}

function accepted(round) {
  const tokens = state.rounds[round].tokens.filter(({ kind }) => kind === "accepted");
  return tokens.length === 0 ? "none of them" : quoted(tokens.map(({ text }) => text).join(""));
}

// The end of a round in words.
function end(round) {
  const { tokens } = state.rounds[round];
  const { kind, text } = tokens.at(-1);
  const own = quoted(text);
  const gain = `${count(tokens.length, "token")} for one slow call`;
  if (kind === "bonus") return `All guesses of a path are right, and the large model adds ${own}: ${gain}.`;
  if (kind === "accepted") return `The large model accepts ${accepted(round)}: ${gain}.`;
  return `Where no guess is right, the large model writes its own ${own}: ${gain}.`;
}

// The moments of one round. move(round, decision) shows the decision on the page.
function moments(round, move, seconds) {
  const before = decisionsOf(round).findLastIndex(({ kind }) => kind === "accepted");
  const { nodes } = state.rounds[round];
  const isRow = nodes.every(({ path }) => path.length === 1 || path.every((index) => index === 0));
  const shape = isRow && nodes.at(-1).path.length === nodes.length ? "in a row" : "as a tree";
  const guesses = count(nodes.length, "token");
  return [
    {
      move: () => move(round, 0),
      words: `Guessed: the small model guesses ${guesses}, ${shape}.`,
      seconds: seconds[0],
    },
    {
      move: () => move(round, Math.max(before, 0)),
      words: `Checked: one call of the large model checks all of them and accepts ${accepted(round)}.`,
      seconds: seconds[1],
    },
    { move: () => move(round, lastDecision(round)), words: end(round), seconds: seconds[2] },
  ];
}

// The story for a new visitor: both lanes, then the most instructive round.
export function story() {
  const { recorded, rounds } = state;
  const round = recorded?.round ?? 0;
  if (rounds[round].nodes.length === 0) return [{}];
  const lanes = { seconds: LANES, words: state.baseline.length > 0 ? both : "" };
  const result = { move: () => {}, words: resultWords(state), seconds: 3 };
  return [lanes, ...(result.words ? [result] : []), ...moments(round, explain, [3, 3.4, 3.4])];
}

// The story after Generate. In real time the answer plays as it comes, then once more beside plain decoding. A faster run
// is slowed down: the first round, then the whole run.
export function ownStory() {
  if (state.rounds[0].nodes.length === 0) return [{}];
  if (paceNow() === "real") return [{}, { again: true, words: both }];
  return [...moments(0, seek, [1.4, 1.6, 1.4]), { words: state.setup.baseline ? both : "" }];
}
