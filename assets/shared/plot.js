// A figure with title, legend and table. The views are plain data from the server (experiments, codecs).

import { Figure } from "./figure.js";
import { legend } from "./legend.js";
import { fillTable, make, setText } from "./view.js";

// Fills an element with a table of a figure's numbers, for readers who cannot see it. Keys scroll a long table.
export function tableOf(element, { caption, columns, rows }) {
  const body = make("tbody");
  fillTable(body, rows);
  Object.assign(element, { tabIndex: 0, role: "region", ariaLabel: caption });
  element.replaceChildren(make("table", "", make("caption", "", caption), headOf(columns), body));
}

// The head of a table.
export const headOf = (columns) =>
  make("thead", "", make("tr", "", ...columns.map((name) => Object.assign(make("th", "", name), { scope: "col" }))));

// A figure of a laboratory: title, description, legend, plot and table. `show` displays a view in its place.
export class Plot {
  figure = null;

  // host: the element in which the plot is shown.
  constructor(plotly, host = null) {
    this.plotly = plotly;
    const tags = { title: "h3", sentence: "p", legend: "div", figure: "div", key: "p", place: "p" };
    const parts = Object.fromEntries(Object.entries(tags).map(([name, tag]) => [name, make(tag, name)]));
    parts.figure.setAttribute("role", "group"); // unlike the role "img", it leaves the buttons inside reachable
    const table = make("div", "scroll");
    const details = make("details", "", make("summary", "", "Table of these numbers"), table);
    this.element = make("article", "plot", ...Object.values(parts), details);
    /** @type {Record<string, HTMLElement>} */
    this.parts = { ...parts, table };
    host?.append(this.element);
  }

  show(view) {
    for (const name of ["title", "sentence", "key", "place"]) setText(this.parts[name], view[name]);
    this.parts.figure.style.height = `${view.figure.layout.height}px`;
    this.parts.figure.setAttribute("aria-label", `${view.title}. ${view.sentence} A table follows.`);
    tableOf(this.parts.table, view.table);
    this.figure ??= new Figure(this.parts.figure, { plotly: this.plotly, skeleton: null, fill: () => {} });
    this.figure.skeleton = view.figure;
    legend(this.parts.legend, view.figure.data, () => this.figure.draw());
    this.figure.zoomOut(); // this also draws the figure
  }
}
