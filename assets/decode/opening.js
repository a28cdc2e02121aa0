// The story of a run's first two rounds, a sentence for each moment: guessed, checked, replaced. For who opens the page.

import { visible } from "../shared/labels.js";
import { decisionsOf, lastDecision, seek, state } from "../shared/store.js";

const NUMBERS = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
const count = (n, word) => `${NUMBERS[n] ?? n} ${word}${n === 1 ? "" : "s"}`;
const quoted = (text) => `“\u2068${visible(text.trim() || text).replaceAll("␣", " ")}\u2069”`;

function kept(round) {
  const tokens = state.rounds[round].tokens.filter(({ kind }) => kind === "accepted");
  return tokens.length === 0 ? "none of them" : quoted(tokens.map(({ text }) => text).join(""));
}

// How a round ends, in words.
function end(round) {
  const { tokens } = state.rounds[round];
  const { kind, text } = tokens.at(-1);
  const own = quoted(text);
  const gain = `${count(tokens.length, "token")} for one target call`;
  if (kind === "bonus") return `All of a path is kept, and the target adds ${own}: ${gain}.`;
  if (kind === "accepted") return `The target keeps ${kept(round)}: ${gain}.`;
  return `Where no guess was right, the target writes its own ${own}: ${gain}.`;
}

// Moments for the player: { move, words, seconds }.
export function story() {
  const [first, second] = state.rounds;
  if (!second || first.nodes.length === 0) return [];
  const before = decisionsOf(0).findLastIndex(({ kind }) => kind === "accepted");
  return [
    {
      move: () => seek(0, 0),
      words: `Guessed: a small draft model proposes ${count(first.nodes.length, "token")}, as a tree.`,
      seconds: 2.6,
    },
    {
      move: () => seek(0, Math.max(before, 0)),
      words: `Checked: one call of the large target model reads them all and keeps ${kept(0)}.`,
      seconds: 3,
    },
    { move: () => seek(0, lastDecision(0)), words: end(0), seconds: 3.2 },
    {
      move: () => seek(1, 0),
      words: `The draft guesses on from there: ${count(second.nodes.length, "token")}.`,
      seconds: 2,
    },
    { move: () => seek(1, lastDecision(1)), words: end(1), seconds: 3 },
  ];
}
