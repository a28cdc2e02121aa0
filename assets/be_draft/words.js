// Sentences about a guess and about the end of a story.

import { count, percent, quoted } from "../shared/labels.js";
import { blockEfficiency, median } from "../shared/totals.js";
import { shared } from "./game.js";

const list = (tokens) => tokens.map(({ text }) => quoted(text)).join(" ");

function chance(p) {
  if (p === null) return "";
  const share = p < 0.001 ? "less than 0.1%" : `${(100 * p).toFixed(p < 0.1 ? 1 : 0)}%`;
  const reason = p > 0.3 ? ", but another word won the race" : "";
  return ` The large model gave your token a probability of ${share}${reason}.`;
}

// A sentence that says which words of a guess the target accepted, and which token it added.
/** @param {import("./game.js").Played} round */
export function guessWords({ guess, tokens }) {
  const own = quoted(tokens.at(-1).text);
  const accepted = guess.filter(({ status }) => status === "accepted");
  const yields = tokens.length > 1 ? `: ${tokens.length} tokens from one call` : "";
  if (guess.length === 0) return `The large model wrote ${own} alone: one call, one token.`;
  if (accepted.length === tokens.length) return `${list(accepted)} accepted, and the story ends${yields}.`;
  if (accepted.length === guess.length) return `${list(accepted)} accepted, and the large model adds ${own}${yields}.`;
  const rejected = guess[accepted.length];
  const start = accepted.length > 0 ? `${list(accepted)} accepted, ` : "";
  const unread = guess.length > accepted.length + 1 ? " The words after it are dropped." : "";
  return `${start}${quoted(rejected.text)} rejected: the large model writes ${own}${yields}.${chance(rejected.p)}${unread}`;
}

function time(seconds) {
  if (seconds.length === 0) return "–";
  const typical = median(seconds);
  return typical < 1 ? `${(1000 * typical).toFixed(typical < 0.01 ? 1 : 0)} ms` : `${typical.toFixed(1)} s`;
}

// The table's rows: a name, then the cells for you, the small model and n-grams.
/** @param {import("./game.js").Game} game */
export function rows(game) {
  const { you, draft, ngram } = game.totals;
  const all = [you, draft, ngram];
  const share = ({ accepted, drafted }) =>
    drafted > 0 ? `${accepted} of ${drafted}, ${percent(accepted, drafted)}` : "–";
  return [
    ["tokens accepted", ...all.map(share)],
    ["tokens per call", ...all.map(({ tokens }) => blockEfficiency(tokens, game.rounds.length))],
    ["time to draft", ...all.map(({ seconds }) => time(seconds))],
  ];
}

// Compares the story with the text that the target writes alone.
/** @param {import("./game.js").Game} game */
export function outcome(game) {
  if (!game.isOver) return "When the story ends, the large model writes it once more without your guesses.";
  if (!game.alone) return "The large model writes the story once more, alone …";
  const { written, rounds, alone } = game;
  const calls = `${count(alone.ids.length, "call")}; with you it needed ${rounds.length}`;
  const same = shared(written, alone.ids);
  if (same === written.length && same === alone.ids.length && alone.text === game.text)
    return `The same text, letter by letter: guesses can change the speed only. The large model alone needed ${calls}.`;
  return `The two texts differ after ${same} of ${written.length} tokens, because a call over several tokens rounds differently from a call over one token. The large model alone needed ${calls}.`;
}
