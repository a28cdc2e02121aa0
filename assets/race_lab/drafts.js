// Several drafts for one position: the acceptance of each rule, and the optimum that no rule exceeds.

import { Figure } from "../shared/figure.js";
import { share } from "../shared/labels.js";
import { fillTable, setText } from "../shared/view.js";
import { columns, draftsSentence, fillDrafts } from "./several.js";

export class Drafts {
  drafts = null;

  constructor(section, props) {
    this.find = (selector) => section.querySelector(selector);
    const fill = (skeleton) => this.drafts && fillDrafts(skeleton, this.drafts);
    const own = { skeleton: props.drafts, keys: this.find(".legend") };
    this.figure = new Figure(this.find(".plot"), { ...own, plotly: props.plotly, fill });
  }

  show({ drafts }) {
    this.drafts = drafts;
    setText(this.find(".outcome"), draftsSentence(drafts));
    const rows = drafts.optimum.map((_, i) => [i + 1, ...columns(drafts).map((name) => share(drafts[name][i]))]);
    fillTable(this.find("tbody"), rows);
    this.figure.draw();
  }
}
