// The class as the draft: the text so far, the proposals, and the scores of the class and of the small model.

import { count } from "../shared/labels.js";
import { make } from "../shared/view.js";
import { answerBars } from "./histogram.js";

// Draws the text so far and highlights the part that the last round added.
export function drawText(host, { prompt, pieces, gained = 0 }) {
  const marked = pieces.map(([text, kind]) => make("span", `token ${kind}`, text));
  if (gained > 0) for (const token of marked.slice(-gained)) token.classList.add("new");
  host.replaceChildren(make("span", "prompt", prompt), ...marked);
}

const OUTCOMES = {
  accepted: { mark: "✓", meaning: "(accepted)" },
  begun: { mark: "◐", meaning: "(its beginning was accepted)" },
  rejected: { mark: "✗", meaning: "(rejected)" },
};

// Draws each proposal with its number of students, and marks what the target accepted.
export function drawProposals(host, { proposals, others }, mine = null) {
  const row = ([text, count, outcome]) => {
    return { text, count, isRight: outcome === "accepted", isMine: text === mine, ...OUTCOMES[outcome] };
  };
  const rows = proposals.map(row);
  const list = answerBars(rows, Math.max(...proposals.map(([, number]) => number)), "class-answers proposals");
  const guesses = others === 1 ? "1 other guess was" : `${others} other guesses were`;
  host.replaceChildren(list);
  if (others > 0) host.append(make("p", "note", `${guesses} not in the tree`));
}

export const rate = (accepted, rounds) => (accepted / Math.max(1, rounds)).toFixed(2);

// Draws the accepted tokens per target call of the class and of the small model.
export function drawScores(host, { accepted, by_model: byModel, rounds }) {
  const score = (name, value) => make("div", "", make("dt", "", name), make("dd", "", rate(value, rounds)));
  const list = make("dl", "", score("the class", accepted), score("the small model", byModel));
  const words = `accepted tokens per call, over ${count(rounds, "call")} of the large model`;
  host.replaceChildren(list, make("p", "note", words));
  host.classList.add("scores");
  host.hidden = rounds === 0;
}
