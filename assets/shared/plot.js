// A figure with its title, legend and table. Views come from the server as plain data (`components/experiments`,
// `components/codecs`).

import { Figure } from "./figure.js";
import { legend } from "./legend.js";
import { fillTable, make, setText } from "./view.js";

// A folded table for readers who cannot see the plot. A long table can also be scrolled by keys.
export function tableOf(element, { caption, columns, rows }) {
  const table = make("table");
  table.append(make("caption", "", caption), make("thead"), make("tbody"));
  const head = make("tr");
  for (const column of columns) head.append(Object.assign(make("th", "", column), { scope: "col" }));
  table.tHead.append(head);
  fillTable(table.tBodies[0], rows);
  element.tabIndex = 0;
  element.setAttribute("role", "region");
  element.setAttribute("aria-label", caption);
  element.replaceChildren(table);
}

// One figure of a laboratory: title, description, legend, plot and table. `show` displays another view in the
// same place.
export class Plot {
  constructor(plotly, view) {
    this.element = make("article", "plot");
    this.parts = {};
    for (const [tag, name] of [
      ["h3", "title"],
      ["p", "sentence"],
      ["div", "legend"],
      ["div", "figure"],
      ["p", "key"],
      ["p", "place"],
    ]) {
      this.element.append((this.parts[name] = make(tag, name)));
    }
    this.parts.figure.setAttribute("role", "group"); // unlike the role "img", it leaves the buttons inside reachable
    const details = make("details");
    this.parts.table = make("div", "scroll");
    details.append(make("summary", "", "Table of these numbers"), this.parts.table);
    this.element.append(details);
    this.figure = new Figure(this.parts.figure, { skeleton: view.figure, plotly, fill: () => {} });
    this.show(view);
  }

  show(view) {
    for (const name of ["title", "sentence", "key", "place"]) setText(this.parts[name], view[name]);
    this.parts.figure.style.height = `${view.figure.layout.height}px`;
    this.parts.figure.setAttribute("aria-label", `${view.title}. ${view.sentence} A table follows.`);
    tableOf(this.parts.table, view.table);
    this.figure.skeleton = view.figure;
    legend(this.parts.legend, view.figure.data, () => this.figure.draw());
    this.figure.zoomOut(); // this also draws the figure
  }
}
