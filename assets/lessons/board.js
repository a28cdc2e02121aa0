// A board: a few numbers as bars, for steps that have no figure in another tab, and for printed sheets.

import { make } from "../shared/view.js";

const longest = (rows) => Math.max(...rows.flatMap(({ bars }) => bars.map(([, value]) => Number(value))), 1e-9);

function bar([actor, value, words], most, open) {
  const line = make("span", "amount");
  line.dataset.actor = actor;
  const fill = make("i");
  fill.style.width = `${100 * (Number(value) / most)}%`;
  line.append(fill, make("b", "", open ? "" : (words ?? value)));
  return line;
}

// board: { title, rows: [{ name, bars: [[actor, value, words?]], asked? }], note }. Print omits the bars in question;
// the style sheet hides them until the visitor makes a prediction.
export function drawBoard(board, { open = false } = {}) {
  const figure = make("figure", "bars");
  const most = longest(board.rows);
  const list = make("dl");
  for (const { name, bars, asked } of board.rows) {
    const row = make("div", asked ? "asked" : "");
    const values = make("dd");
    values.append(...bars.map((each) => bar(each, most, open && asked)));
    row.append(make("dt", "", name), values);
    list.append(row);
  }
  figure.append(make("figcaption", "", board.title), list);
  if (board.note) figure.append(make("p", "note", board.note));
  return figure;
}

// The board of forward passes with times of this server: { rows: [[rows, ms]], passes, model }.
export function measuredBoard(board, { rows, passes, model }) {
  const one = rows[0][1];
  return {
    ...board,
    rows: board.rows.map((row, i) => {
      const [count, ms] = rows[i];
      const words = count === 1 ? ms.toFixed(2) : `${ms.toFixed(2)}, ${(ms / one).toFixed(1)} times one row`;
      return { ...row, bars: [["target", String(ms), words]] };
    }),
    note: `Measured just now where this page is served, on ${model}; the fastest of ${passes} passes.`,
  };
}
