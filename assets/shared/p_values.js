// A drawing of p-values against a count, such as the number of decodes. The axis is logarithmic, and a line
// marks the level below which p-values are significant.

import { drawAxis, SHAPES, setAll, svg, ticks } from "./drawing.js";
import { superscript } from "./labels.js";

const MARGIN = { left: 60, right: 14, top: 12, bottom: 40 };
const FEWEST = 8; // powers of ten on the axis

const power = (p) => -Math.log10(Math.max(p, Number.MIN_VALUE));

/** The powers of ten below 1 that the axis needs for these p-values. */
export const decades = (values) => Math.max(FEWEST, Math.ceil(Math.max(...values.map(power))));

export class PValues {
  // names: of the lines. level: p-values below it are significant; levelName: its name. counted: what is counted.
  constructor(element, { names, level, levelName, counted }) {
    this.svg = element;
    this.level = level;
    this.lines = names.map((name) => svg("path", { class: `line ${name}`, fill: "none" }));
    this.rows = svg("g", { class: "grid" });
    this.columns = svg("g", { class: "grid" });
    this.levelLine = svg("line", { class: "level" });
    this.here = svg("line", { class: "here" });
    this.end = svg("path", { class: "end", d: SHAPES.circle(5) });
    this.levelLabel = svg("text", { class: "level-label", "text-anchor": "end" }, levelName);
    this.axis = svg("text", { class: "axis", "text-anchor": "middle" }, counted);
    this.side = svg("text", { class: "axis", "text-anchor": "middle" }, "p-value");
    element.append(this.rows, this.columns, this.levelLine, this.here, ...this.lines);
    element.append(this.end, this.levelLabel, this.axis, this.side);
  }

  // lines: for each name, its points [number, p-value]. most: the largest number. low: powers of ten below 1;
  // smaller p-values are drawn at the bottom. chosen: the line in front. here: the marked number, or null.
  draw(lines, { most, low, chosen = 0, here = null }, width, height) {
    const [right, bottom] = [width - MARGIN.right, height - MARGIN.bottom];
    const x = (number) => MARGIN.left + ((right - MARGIN.left) * number) / most;
    const y = (p) => MARGIN.top + ((bottom - MARGIN.top) * Math.min(low, power(p))) / low;
    setAll(this.svg, { width, height });
    const isCut = lines.flat().some(([, p]) => power(p) > low);
    this.drawAxes(x, y, { most, low, right, bottom, isCut });
    const places = lines.map((points) => points.map(([number, p]) => `${x(number).toFixed(1)} ${y(p).toFixed(1)}`));
    this.lines.forEach((line, i) => {
      setAll(line, { d: places[i].length > 0 ? `M${places[i].join("L")}` : "" });
      line.classList.toggle("chosen", i === chosen);
    });
    const last = places[chosen].at(-1);
    setAll(this.end, { visibility: last ? "visible" : "hidden", transform: `translate(${last ?? "0 0"})` });
    const x1 = here === null ? 0 : x(here);
    setAll(this.here, { x1, x2: x1, y1: MARGIN.top, y2: bottom, visibility: here === null ? "hidden" : "visible" });
  }

  drawAxes(x, y, { most, low, right, bottom, isCut }) {
    const step = Math.ceil(low / 7);
    const powers = Array.from({ length: Math.floor(low / step) + 1 }, (_, i) => i * step);
    const row = (power) => {
      const y1 = y(10 ** -power);
      const line = { x1: MARGIN.left, x2: right, y1, y2: y1 };
      return [line, { x: MARGIN.left - 6, y: y1 + 4, "text-anchor": "end" }];
    };
    const label = (power) => `${isCut && power === low ? "≤ " : ""}10⁻${superscript(power)}`;
    drawAxis(this.rows, powers, row, (power) => (power === 0 ? "1" : label(power)));
    const column = (number) => {
      const line = { x1: x(number), x2: x(number), y1: bottom, y2: bottom + 5 };
      return [line, { x: x(number), y: bottom + 18, "text-anchor": "middle" }];
    };
    drawAxis(this.columns, ticks(most, right < 500 ? 3 : 6), column, (number) => number.toLocaleString("en"));
    const level = y(this.level);
    setAll(this.levelLine, { x1: MARGIN.left, x2: right, y1: level, y2: level });
    setAll(this.levelLabel, { x: right, y: level - 5 });
    setAll(this.axis, { x: (MARGIN.left + right) / 2, y: bottom + 35 });
    setAll(this.side, { transform: `translate(12 ${(MARGIN.top + bottom) / 2}) rotate(-90)` });
  }
}
