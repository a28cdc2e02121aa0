// A board: a few numbers as bars, for steps that have no figure in another tab, and for printed sheets.

import { make } from "../shared/view.js";

const sum = (parts) => parts.reduce((total, [, value]) => total + Number(value), 0);
const longest = (rows) =>
  Math.max(...rows.flatMap(({ bars = [], stack = [] }) => [...bars.map((each) => sum([each])), sum(stack)]), 1e-9);

// A piece in an actor's colour.
function sign(actor) {
  const piece = make("i");
  piece.dataset.actor = actor;
  return piece;
}

// A line of parts, [actor, value], one after the other, and the words for them.
function bar(parts, words, most) {
  const fills = parts.map(([actor, value]) => {
    const fill = sign(actor);
    fill.style.width = `${100 * (Number(value) / most)}%`;
    return fill;
  });
  return make("span", "amount", ...fills, make("b", "", words));
}

// A text, in two parts: the beginning that all texts share, and the rest.
const written = ([shared, own]) => make("span", "text", shared, make("u", "", own));

// The contents of a row: a text, one stack of parts, or several bars. isOpen: whether its words are left out.
function contents({ bars, stack, text, words }, most, isOpen) {
  if (text) return [written(isOpen ? ["", ""] : text)];
  if (stack) return [bar(stack, isOpen ? "" : words, most)];
  return bars.map(([actor, value, said]) => bar([[actor, value]], isOpen ? "" : (said ?? value), most));
}

// The meaning of the colours in the board's stacks.
function legend(rows) {
  const names = new Map(rows.flatMap(({ stack = [] }) => stack.map(([actor, , name]) => [name, actor])));
  const items = [...names].map(([name, actor]) => make("span", "", sign(actor), name));
  return items.length > 0 ? make("p", "legend", ...items) : null;
}

// board: { title, rows, note }. A row has a name and either bars, [[actor, value, words?]], or a stack,
// [[actor, value, name]] with words, or a text, [shared part, own part]. Print omits the contents of a row that is asked
// for; the style sheet hides them until the visitor makes a prediction.
export function drawBoard(board, { open = false } = {}) {
  const most = longest(board.rows);
  const rows = board.rows.map((row) => {
    const values = make("dd", "", ...contents(row, most, open && row.asked));
    return make("div", row.asked ? "asked" : "", make("dt", "", row.name), values);
  });
  const note = board.note && make("p", "note", board.note);
  return make("figure", "bars", make("figcaption", "", board.title), make("dl", "", ...rows), legend(board.rows), note);
}
