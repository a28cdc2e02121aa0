// The data and the sentence of the figure “Several drafts”, computed from the server's answer.

import { INDEPENDENT, METHODS as NAMES } from "../shared/catalogue.js";
import { share } from "../shared/labels.js";

const OPTIMA = ["optimum", "drawn"]; // methods with drafts without replacement, and methods with independent draws
const TOLD = 3; // number of drafts in the sentence

const rules = (drafts) => Object.keys(NAMES).filter((name) => name in drafts);

// The names of the table's columns, in its order.
export const columns = (drafts) => [...rules(drafts), ...OPTIMA];

export function fillDrafts({ data, layout }, drafts) {
  const curves = [...OPTIMA, ...rules(drafts)]; // the methods in the figure's order
  curves.forEach((name, i) => {
    const y = drafts[name];
    const text = y.map((value, n) => `${data[i].name}, ${n + 1} ${n ? "drafts" : "draft"}: ${share(value)}`);
    Object.assign(data[i], { x: y.map((_, n) => n + 1), y, hovertemplate: "%{text}<extra></extra>", text });
  });
  layout.xaxis.range = [0.7, drafts.optimum.length + 0.3];
  const least = Math.min(...curves.flatMap((name) => drafts[name]));
  layout.yaxis.range = [Math.max(-0.03, least - 0.06), 1.03];
}

// The acceptance of each rule with three drafts, and the optimum.
export function draftsSentence(drafts, n = TOLD) {
  const shareOf = (name) => share(drafts[name][n - 1]);
  const wordsOf = (optimum, independent, how) => {
    const names = rules(drafts).filter((name) => INDEPENDENT.includes(name) === independent);
    return `${names.map((name) => `${NAMES[name]} ${shareOf(name)}`).join(" and ")}, where at most ${shareOf(optimum)} is possible ${how}`;
  };
  return `Acceptance with ${n} drafts: ${wordsOf("optimum", false, "without replacement")}; ${wordsOf("drawn", true, "with independent draws")}.`;
}
