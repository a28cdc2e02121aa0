// Writes and reads columns in the notation of the address: method, topology, k and draft, as in "ersd.sequence.4.own".
// Equal notation means equal settings. A topology without k leaves k out. Autoregressive decoding is "ar".

import { quoted } from "../shared/labels.js";

let last = 0; // number of the newest column

// choices: { method, topology, draft }, each a list of [label, name]; withoutK: topologies that have no k.
export class Columns {
  constructor({ choices, withoutK, mostColumns, mostDrafted }) {
    this.choices = choices;
    this.withoutK = withoutK;
    this.mostColumns = mostColumns;
    this.mostDrafted = mostDrafted;
  }

  written = ({ method, topology, k, draft }) => {
    if (method === "ar") return method;
    return [method, topology, ...(this.withoutK.includes(topology) ? [] : [k]), draft].join(".");
  };

  writtenAll = (columns) => columns.map(this.written).join(",");

  // Parses a list of columns. The Error names the wrong column and says what would be right.
  parsedAll(text) {
    const columns = text.split(",").map((part) => this.parsed(part));
    if (columns.length > this.mostColumns)
      throw new Error(`the address has ${columns.length} columns; at most ${this.mostColumns} can be compared`);
    return columns;
  }

  parsed(text) {
    const column = { id: `c${(last += 1)}`, method: "ar", topology: "sequence", k: 4, draft: "own" };
    if (text === "ar") return column;
    const parts = text.split(".");
    [column.method, column.topology] = parts;
    if (!this.withoutK.includes(column.topology)) column.k = Number(parts[2]);
    column.draft = parts.at(-1);
    if (this.fits(column) && this.written(column) === text) return column;
    throw new Error(
      `${quoted(text, 60)} in the address is not a column; write a column like ersd.sequence.4.own, or ar`,
    );
  }

  fits(column) {
    const isListed = ["method", "topology", "draft"].every((name) =>
      this.choices[name].some(([, value]) => value === column[name]),
    );
    return isListed && Number.isInteger(column.k) && column.k >= 1 && column.k <= this.mostDrafted;
  }
}
