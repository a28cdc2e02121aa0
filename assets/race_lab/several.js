// The data and the sentence of the figure of several drafts, without the page.

import { METHODS as NAMES } from "../shared/catalogue.js";

const KINDS = { optimum: ["ersd", "gsd"], drawn: ["spectr", "specinfer"] };
const CURVES = ["optimum", "drawn", "ersd", "gsd", "specinfer", "spectr"]; // in the figure's order
export const COLUMNS = ["ersd", "gsd", "specinfer", "spectr", "optimum", "drawn"];
const TOLD = 3; // drafts in the sentence

export const share = (value) => `${(100 * value).toFixed(1)}%`;

export function fillDrafts({ data, layout }, drafts) {
  CURVES.forEach((name, i) => {
    const y = drafts[name];
    const text = y.map((value, n) => `${data[i].name}, ${n + 1} ${n ? "drafts" : "draft"}: ${share(value)}`);
    Object.assign(data[i], { x: y.map((_, n) => n + 1), y, hovertemplate: "%{text}<extra></extra>", text });
  });
  layout.xaxis.range = [0.7, drafts.optimum.length + 0.3];
  const least = Math.min(...CURVES.flatMap((name) => drafts[name]));
  layout.yaxis.range = [Math.max(-0.03, least - 0.06), 1.03];
}

// The acceptance of each rule with three drafts, and the optimum.
export function draftsSentence(drafts, n = TOLD) {
  const at = (name) => share(drafts[name][n - 1]);
  const of = (kind, how) =>
    `${KINDS[kind].map((name) => `${NAMES[name]} ${at(name)}`).join(" and ")}, of at most ${at(kind)} ${how}`;
  return `With ${n} drafts: ${of("optimum", "without replacement")}; ${of("drawn", "with independent draws")}.`;
}
