// The p-value after each token of a text on a logarithmic axis, one line per version of the text.

import { fillMarks, setAll, svg } from "../shared/drawing.js";
import { ticks } from "../shared/lab_view.js";
import { setText } from "../shared/view.js";

const MARGIN = { left: 52, right: 12, top: 10, bottom: 38 };
const FEWEST = 8; // decades on the axis

const superscript = (number) => [...String(number)].map((sign) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(sign)]).join("");

function tickElement() {
  const group = svg("g");
  group.append(svg("line"), svg("text"));
  return group;
}

/** The number of decades below 1 that the axis needs for these p-values. */
export const decades = (values) =>
  Math.max(FEWEST, Math.ceil(Math.max(...values.map((p) => -Math.log10(Math.max(p, Number.MIN_VALUE))))));

export class Fall {
  constructor(element, names, certain) {
    this.svg = element;
    this.certain = certain;
    this.grid = svg("g", { class: "grid" });
    this.columns = svg("g", { class: "grid" });
    this.level = svg("line", { class: "certain" });
    this.levelLabel = svg("text", { class: "certain-label", "text-anchor": "end" });
    this.axis = svg("text", { class: "axis", "text-anchor": "middle" });
    this.lines = Object.fromEntries(names.map((name) => [name, svg("path", { class: `line ${name}`, fill: "none" })]));
    this.token = svg("line", { class: "token-line" });
    element.append(this.grid, this.columns, this.level, this.token, ...Object.values(this.lines), this.levelLabel);
    element.append(this.axis);
  }

  // versions: by name, { p_values }. chosen: the version in front. lit: the number of a token in it, or null.
  draw(versions, chosen, lit, width, height) {
    const most = Math.max(...Object.values(versions).map(({ p_values }) => p_values.length));
    const tall = height - MARGIN.top - MARGIN.bottom;
    const wide = width - MARGIN.left - MARGIN.right;
    const low = decades(Object.values(versions).flatMap(({ p_values }) => p_values));
    const x = (count) => MARGIN.left + (wide * count) / most;
    const y = (p) => MARGIN.top + (tall * Math.min(low, -Math.log10(Math.max(p, Number.MIN_VALUE)))) / low;
    setAll(this.svg, { width, height });
    this.drawAxes(x, y, { most, low, width });
    for (const [name, line] of Object.entries(this.lines)) {
      const points = (versions[name]?.p_values ?? []).map((p, i) => `${x(i + 1).toFixed(1)} ${y(p).toFixed(1)}`);
      setAll(line, { d: points.length > 0 ? `M${x(0)} ${y(1)}L${points.join("L")}` : "" });
      line.classList.toggle("chosen", name === chosen);
    }
    const at = lit === null ? 0 : x(lit + 1);
    setAll(this.token, { x1: at, x2: at, y1: MARGIN.top, y2: MARGIN.top + tall });
    this.token.style.visibility = lit === null ? "hidden" : "visible";
  }

  drawAxes(x, y, { most, low, width }) {
    const step = Math.ceil(low / 7);
    const powers = Array.from({ length: Math.floor(low / step) + 1 }, (_, i) => i * step);
    fillMarks(this.grid, powers, tickElement, (group, power) => {
      const at = y(10 ** -power);
      setAll(group.children[0], { x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at });
      setAll(group.children[1], { x: MARGIN.left - 6, y: at + 4, "text-anchor": "end" });
      setText(group.children[1], power === 0 ? "p = 1" : `10⁻${superscript(power)}`);
    });
    const bottom = y(10 ** -low);
    fillMarks(this.columns, ticks(most, 5), tickElement, (group, count) => {
      setAll(group.children[0], { x1: x(count), x2: x(count), y1: bottom, y2: bottom + 5 });
      setAll(group.children[1], { x: x(count), y: bottom + 18, "text-anchor": "middle" });
      setText(group.children[1], String(count));
    });
    setAll(this.level, { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(this.certain), y2: y(this.certain) });
    setAll(this.levelLabel, { x: width - MARGIN.right, y: y(this.certain) - 5 });
    setText(this.levelLabel, "one in a million");
    setAll(this.axis, { x: (MARGIN.left + width - MARGIN.right) / 2, y: bottom + 34 });
    setText(this.axis, "tokens read");
  }
}
