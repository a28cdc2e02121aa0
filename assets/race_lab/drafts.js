// Several drafts for one position: the acceptance of each rule, and the optimum that no rule exceeds.

import { Figure } from "../shared/figure.js";
import { legend } from "../shared/legend.js";
import { cells, fillRows, setCells, setText } from "../shared/view.js";
import { COLUMNS, draftsSentence, fillDrafts, share } from "./several.js";

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
