// Several drafts for one position: the rules, and the optimum of their kind of draft that none passes.

import { METHODS as NAMES } from "../shared/catalogue.js";
import { Figure } from "../shared/figure.js";
import { legend } from "../shared/legend.js";
import { cells, fillRows, setCells, setText } from "../shared/view.js";

const KINDS = { optimum: ["ersd", "gsd"], drawn: ["spectr", "specinfer"] };
const CURVES = ["optimum", "drawn", "ersd", "gsd", "specinfer", "spectr"]; // in the figure's order
const COLUMNS = ["ersd", "gsd", "specinfer", "spectr", "optimum", "drawn"];
const TOLD = 3; // drafts in the sentence

const share = (value) => `${(100 * value).toFixed(1)}%`;

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

// What rules of each kind reach with three drafts, and the most that any can.
export function draftsSentence(drafts, n = TOLD) {
  const at = (name) => share(drafts[name][n - 1]);
  const of = (kind, how) =>
    `${KINDS[kind].map((name) => `${NAMES[name]} ${at(name)}`).join(" and ")}, of at most ${at(kind)} ${how}`;
  return `With ${n} drafts: ${of("optimum", "without replacement")}; ${of("drawn", "with independent draws")}.`;
}

export class Drafts {
  drafts = null;

  constructor(section, props) {
    this.find = (selector) => section.querySelector(selector);
    const fill = (skeleton) => this.drafts && fillDrafts(skeleton, this.drafts);
    this.figure = new Figure(this.find(".plot"), { skeleton: props.drafts, plotly: props.plotly, fill });
    legend(this.find(".legend"), props.drafts.data, () => this.figure.draw());
  }

  show({ drafts }) {
    this.drafts = drafts;
    setText(this.find(".outcome"), draftsSentence(drafts));
    fillRows(
      this.find("tbody"),
      drafts.optimum,
      () => cells(COLUMNS.length + 1),
      (row, _, i) => setCells(row, [i + 1, ...COLUMNS.map((name) => share(drafts[name][i]))]),
    );
    this.figure.draw();
  }
}
