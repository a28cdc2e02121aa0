// A board shows a few numbers as bars, on printed sheets and for steps that no other figure illustrates.

import { make } from "../shared/view.js";

const sum = (parts) => parts.reduce((total, [, value]) => total + Number(value), 0);
const longest = (rows) =>
  Math.max(...rows.flatMap(({ bars = [], stack = [] }) => [...bars.map((each) => sum([each])), sum(stack)]), 1e-9);

// A coloured piece of a bar. actor: the draft or the target, which have a colour each.
function sign(actor) {
  const piece = make("i");
  piece.dataset.actor = actor;
  return piece;
}

// A bar made of coloured parts, each given as [actor, value], and the words beside it.
function bar(parts, words, most) {
  const fills = parts.map(([actor, value]) => {
    const fill = sign(actor);
    fill.style.width = `${100 * (Number(value) / most)}%`;
    return fill;
  });
  return make("span", "amount", ...fills, make("b", "", words));
}

// The contents of a row that shows a text: the beginning, which all texts share, and the underlined rest.
const textOf = ([shared, own]) => make("span", "text", shared, make("u", "", own));

// The contents of a row: a text, one stack of parts, or several bars. isOpen: whether its words are left out.
function contents({ bars, stack, text, words }, most, isOpen) {
  if (text) return [textOf(isOpen ? ["", ""] : text)];
  if (stack) return [bar(stack, isOpen ? "" : words, most)];
  return bars.map(([actor, value, words]) => bar([[actor, value]], isOpen ? "" : (words ?? value), most));
}

// The meaning of the colours in the board's stacks.
function legend(rows) {
  const names = new Map(rows.flatMap(({ stack = [] }) => stack.map(([actor, , name]) => [name, actor])));
  const items = [...names].map(([name, actor]) => make("span", "", sign(actor), name));
  return items.length > 0 ? make("p", "legend", ...items) : null;
}

// Draws a board: { title, rows, note }. A row has a name and its contents: bars, [[actor, value, words?]], or a stack,
// [[actor, value, name]] with words, or a text, [shared part, own part]. Contents that a question asks for are left out
// of printed sheets, and hidden on the page until the visitor has made a prediction.
export function drawBoard(board, { open = false } = {}) {
  const most = longest(board.rows);
  const rows = board.rows.map((row) => {
    const values = make("dd", "", ...contents(row, most, open && row.asked));
    return make("div", row.asked ? "asked" : "", make("dt", "", row.name), values);
  });
  const note = board.note && make("p", "note", board.note);
  return make("figure", "bars", make("figcaption", "", board.title), make("dl", "", ...rows), legend(board.rows), note);
}
