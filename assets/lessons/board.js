// A board: a few numbers as bars, for steps that have no figure in another tab, and for printed sheets.

import { make } from "../shared/view.js";

const sum = (parts) => parts.reduce((total, [, value]) => total + Number(value), 0);
const longest = (rows) =>
  Math.max(...rows.flatMap(({ bars = [], stack = [] }) => [...bars.map((each) => sum([each])), sum(stack)]), 1e-9);

// A line of parts, [actor, value], one after the other, and the words for them.
function bar(parts, words, most) {
  const line = make("span", "amount");
  for (const [actor, value] of parts) {
    const fill = make("i");
    fill.dataset.actor = actor;
    fill.style.width = `${100 * (Number(value) / most)}%`;
    line.append(fill);
  }
  line.append(make("b", "", words));
  return line;
}

// A text, in two parts: the beginning that all texts share, and the rest.
function written([shared, own]) {
  const line = make("span", "text", shared);
  line.append(make("u", "", own));
  return line;
}

// The contents of a row: a text, one stack of parts, or several bars. isOpen: whether its words are left out.
function contents({ bars, stack, text, words }, most, isOpen) {
  if (text) return [written(isOpen ? ["", ""] : text)];
  if (stack) return [bar(stack, isOpen ? "" : words, most)];
  return bars.map(([actor, value, said]) => bar([[actor, value]], isOpen ? "" : (said ?? value), most));
}

// The meaning of the colours in the board's stacks.
function legend(rows) {
  const names = new Map(rows.flatMap(({ stack = [] }) => stack.map(([actor, , name]) => [name, actor])));
  const list = make("p", "legend");
  for (const [name, actor] of names) {
    const item = make("span", "", name);
    const sign = make("i");
    sign.dataset.actor = actor;
    item.prepend(sign);
    list.append(item);
  }
  return names.size > 0 ? [list] : [];
}

// board: { title, rows, note }. A row has a name and either bars, [[actor, value, words?]], or a stack,
// [[actor, value, name]] with words, or a text, [shared part, own part]. Print omits the contents of a row that is asked
// for; the style sheet hides them until the visitor makes a prediction.
export function drawBoard(board, { open = false } = {}) {
  const figure = make("figure", "bars");
  const most = longest(board.rows);
  const list = make("dl");
  for (const row of board.rows) {
    const line = make("div", row.asked ? "asked" : "");
    const values = make("dd");
    values.append(...contents(row, most, open && row.asked));
    line.append(make("dt", "", row.name), values);
    list.append(line);
  }
  figure.append(make("figcaption", "", board.title), list, ...legend(board.rows));
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
    note: `Measured just now on this page's server, with ${model}; the fastest of ${passes} passes.`,
  };
}
