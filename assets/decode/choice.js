// The figure that shows why `auto` chose its tree. For each candidate tree, in the order of k, it shows the
// expected tokens, the milliseconds and the tokens per second.

/** @import { Candidate } from "../record.d.ts" */

import { setAll, svg } from "../shared/drawing.js";
import { fillTable, setText } from "../shared/view.js";

const [WIDTH, HEIGHT, LEFT, TOP, BOTTOM] = [150, 108, 8, 30, 20];

const total = ({ milliseconds: { draft, target, rest } }) => draft + target + rest;

const CURVES = [
  ["expected tokens", (each) => each.expected_tokens, (value) => value.toFixed(2)],
  ["milliseconds", total, (value) => value.toFixed(2)],
  ["tokens per second", (each) => each.tokens_per_second, (value) => value.toFixed(0)],
];

const candidatesOf = new WeakMap(); // the candidates that each element shows

// Draws the figure and its table into the element, which is hidden if no tree was chosen.
/** @param {HTMLElement} element @param {Candidate[]} [candidates] @param {string} [name] */
export function drawChoice(element, candidates, name = "") {
  element.hidden = !candidates?.length;
  setText(element.querySelector("summary"), `${name}: why this tree?`);
  if (element.hidden || candidatesOf.get(element) === candidates) return;
  candidatesOf.set(element, candidates);
  const index = candidates.findIndex((each) => each.chosen);
  const label = `Of ${candidates.length} trees, the one with ${candidates[index].paths.length} drafted tokens gives the most tokens per second`;
  const figure = element.querySelector(".figure");
  figure.setAttribute("aria-label", label);
  figure.replaceChildren(...CURVES.map((curve) => drawCurve(candidates, index, ...curve)));
  const rows = candidates.map((each) => [
    `${each.paths.length}${each.chosen ? " ★" : ""}`,
    each.expected_tokens.toFixed(2),
    ...["draft", "target", "rest"].map((stage) => each.milliseconds[stage].toFixed(2)),
    each.tokens_per_second.toFixed(0),
  ]);
  fillTable(element.querySelector("tbody"), rows);
}

// Draws one curve on an axis from 0 to its largest value, with the candidate trees in the order of k.
function drawCurve(candidates, index, title, measure, labelOf) {
  const values = candidates.map(measure);
  const most = Math.max(...values);
  const x = (i) => LEFT + (i * (WIDTH - 2 * LEFT)) / Math.max(1, values.length - 1);
  const y = (value) => HEIGHT - BOTTOM - (value / most) * (HEIGHT - TOP - BOTTOM);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}` });
  picture.append(
    svg("text", { x: LEFT, y: 12 }, title),
    svg("polyline", { points: values.map((value, i) => `${x(i)},${y(value)}`).join(" ") }),
    ...values.map((value, i) => svg("circle", { cx: x(i), cy: y(value), r: i === index ? 5 : 2 })),
    svg("text", { x: x(index), y: y(values[index]) - 8, class: "value" }, labelOf(values[index])),
    ...candidates.map(({ paths }, i) => svg("text", { x: x(i), y: HEIGHT - 5, class: "tick" }, paths.length)),
  );
  setAll(picture.querySelectorAll("circle")[index], { class: "chosen" });
  return picture;
}
