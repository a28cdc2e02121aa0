// The p-value against the number of decodes, on a logarithmic axis with the alarm level.

import { fillMarks, SHAPES, setAll, svg } from "../shared/drawing.js";
import { ticks } from "../shared/lab_view.js";
import { setText } from "../shared/view.js";
import { count } from "./words.js";

const MARGIN = { left: 52, right: 14, top: 12, bottom: 40 };
const DECADES = 12; // decades below 1 on the axis; smaller values are drawn at the bottom

const superscript = (number) =>
  [...String(number)].map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(sign)])).join("");

function tickElement() {
  const group = svg("g");
  group.append(svg("line"), svg("text"));
  return group;
}

export class Path {
  rows;
  columns;
  tall;

  constructor(element, alarm) {
    this.svg = element;
    this.alarm = alarm;
    [this.rows, this.columns] = [svg("g", { class: "grid" }), svg("g", { class: "grid" })];
    this.level = svg("line", { class: "alarm" });
    this.levelLabel = svg("text", { class: "alarm-label" });
    this.line = svg("path", { class: "way", fill: "none" });
    this.end = svg("path", { class: "end", d: SHAPES.circle(5) });
    this.axis = svg("text", { class: "axis", "text-anchor": "middle" });
    element.append(this.rows, this.columns, this.level, this.line, this.end, this.levelLabel, this.axis);
  }

  // points: [decodes, p-value]; most: decodes of the whole check.
  draw(points, most, width, height) {
    this.tall = height - MARGIN.top - MARGIN.bottom;
    const inner = width - MARGIN.left - MARGIN.right;
    const x = (decodes) => MARGIN.left + (inner * decodes) / most;
    const y = (p) => MARGIN.top + (this.tall * Math.min(DECADES, -Math.log10(Math.max(p, 10 ** -DECADES)))) / DECADES;
    setAll(this.svg, { width, height });
    this.drawAxes(x, y, most, width);
    const places = points.map(([decodes, p]) => `${x(decodes).toFixed(1)} ${y(p).toFixed(1)}`);
    setAll(this.line, { d: places.length > 0 ? `M${places.join("L")}` : "" });
    setAll(this.end, {
      visibility: places.length > 0 ? "visible" : "hidden",
      transform: `translate(${places.at(-1) ?? "0 0"})`,
    });
  }

  drawAxes(x, y, most, width) {
    const powers = [0, -2, -4, -6, -8, -10, -12];
    fillMarks(this.rows, powers, tickElement, (group, power) => {
      const at = y(10 ** power);
      setAll(group.children[0], { x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at });
      setAll(group.children[1], { x: MARGIN.left - 6, y: at + 4, "text-anchor": "end" });
      setText(group.children[1], power === 0 ? "p = 1" : `${power === -DECADES ? "≤ " : ""}10${superscript(power)}`);
    });
    const bottom = MARGIN.top + this.tall;
    fillMarks(this.columns, ticks(most, width < 500 ? 3 : 6), tickElement, (group, decodes) => {
      setAll(group.children[0], { x1: x(decodes), x2: x(decodes), y1: bottom, y2: bottom + 5 });
      setAll(group.children[1], { x: x(decodes), y: bottom + 18, "text-anchor": "middle" });
      setText(group.children[1], count(decodes));
    });
    setAll(this.level, { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(this.alarm), y2: y(this.alarm) });
    setAll(this.levelLabel, { x: width - MARGIN.right, y: y(this.alarm) + 16, "text-anchor": "end" });
    setText(this.levelLabel, "alarm level");
    setAll(this.axis, { x: (MARGIN.left + width - MARGIN.right) / 2, y: bottom + 35 });
    setText(this.axis, "decodes");
  }
}
