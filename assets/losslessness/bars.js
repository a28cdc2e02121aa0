// Draws observed shares and exact probabilities as SVG: a bar for each outcome, with its tokens below it.

import { drawAxis, hatching, setAll, svg, ticks } from "../shared/drawing.js";
import { fillRows, setText } from "../shared/view.js";

const MARGIN = { left: 44, right: 8, top: 10 };
const LEAST = 100; // pixels of the bars
const LINE = 18; // pixels of a level of horizontal labels
const LETTER = 7.2; // most pixels of a letter
const NARROWEST = 13; // pixels that a vertical label needs

// The tokens of outcome number i: the `length` digits of i in base `size`.
export function tokensOf(i, size, length) {
  return Array.from({ length }, (_, level) => Math.floor(i / size ** (length - 1 - level)) % size);
}

// Two standard errors of an observed share of n decodes.
export const spread = (p, n) => (n > 0 ? 2 * Math.sqrt((p * (1 - p)) / n) : 0);

export const isBeyond = (p, count, n) => n > 0 && Math.abs(count / n - p) > spread(p, n);

// The largest share on the axis. It is fixed, unless a bar is longer.
function ceiling(distribution, counts, n) {
  const most = Math.max(...distribution.map((p, i) => Math.max(p * 1.3, n > 200 ? (counts[i] / n) * 1.05 : 0)));
  return (
    [0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1].find((end) => end >= most) ?? 1
  );
}

// Lays out the labels below the bars: each token of an outcome has a level, the last token's nearest to the bars. A
// level whose labels fit neither horizontally nor vertically is left out. y: distance from the lower end of the bars.
function levels(tokens, length, width) {
  const longest = Math.max(...tokens.map((token) => token.length)) * LETTER;
  const rows = [];
  let y = 4;
  for (let level = length - 1; level >= 0; level--) {
    const room = width / tokens.length ** (level + 1);
    const standing = room < longest + 4;
    if (standing && room < NARROWEST) continue;
    const height = standing ? longest + 8 : LINE;
    rows.push({ level, y, room, standing, height });
    y += height;
  }
  return { planned: rows, height: y + 4 };
}

function labelsOf({ level, y, room, standing, height }, tokens) {
  return Array.from({ length: tokens.length ** (level + 1) }, (_, i) => {
    const x = MARGIN.left + (i + 0.5) * room;
    const middle = y + height / 2;
    const turn = standing ? `rotate(-90 ${x.toFixed(1)} ${middle.toFixed(1)})` : "";
    return { text: tokens[i % tokens.length], x, y: middle, turn };
  });
}

function barElement() {
  const rects = ["reach", "band", "bar"].map((name) => svg("rect", { class: name }));
  return svg("g", { class: "outcome" }, ...rects, svg("path", { class: "expected" }));
}

export class Bars {
  constructor(element, tokens) {
    this.svg = element;
    this.tokens = tokens;
    this.tall = 0; // pixels of the bars
    this.grid = svg("g", { class: "grid" });
    this.outcomes = svg("g");
    this.rules = svg("g", { class: "rules" });
    this.labels = svg("g");
    element.append(hatching("lossless-hatch"), this.grid, this.outcomes, this.rules, this.labels);
  }

  // length: the number of tokens of an outcome; lit: the one whose numbers are shown. Returns the number of labelled levels.
  draw({ distribution, counts, decodes, length }, [width, height], lit) {
    const inner = width - MARGIN.left - MARGIN.right;
    const { planned, height: below } = levels(this.tokens, length, inner);
    this.tall = Math.max(LEAST, height - MARGIN.top - below);
    for (const level of planned) level.y += MARGIN.top + this.tall;
    const end = ceiling(distribution, counts, decodes);
    const y = (value) => MARGIN.top + this.tall * (1 - Math.min(1, value / end));
    setAll(this.svg, { width, height });
    this.drawGrid(end, y, width);
    this.drawOutcomes(distribution, counts, decodes, inner / distribution.length, y, lit);
    this.drawLabels(planned, inner, height);
    return planned.length;
  }

  drawGrid(end, y, width) {
    const digits = end < 0.05 ? 1 : 0;
    const place = (value) => [
      { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) },
      { x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" },
    ];
    drawAxis(this.grid, ticks(end, 5), place, (value) => `${(100 * value).toFixed(digits)}%`);
  }

  drawOutcomes(distribution, counts, n, step, y, lit) {
    // the bar is narrower than the band behind it, so that both ends stay visible
    const [gap, inset] = [Math.min(8, step * 0.15), Math.min(40, step * 0.2)];
    fillRows(this.outcomes, distribution, barElement, (group, p, i) => {
      const x = MARGIN.left + i * step + gap / 2;
      const width = Math.max(1, step - gap);
      const observed = n > 0 ? counts[i] / n : 0;
      const error = spread(p, n);
      const [reach, band, bar, line] = group.children;
      const names = `outcome${isBeyond(p, counts[i], n) ? " beyond" : ""}${i === lit ? " lit" : ""}`;
      setAll(group, { class: names, "data-outcome": i });
      setAll(reach, { x: x - gap / 2, y: MARGIN.top, width: step, height: this.tall });
      const between = (low, high) => ({ y: y(high).toFixed(2), height: (y(low) - y(high)).toFixed(2) });
      setAll(bar, { x: x + inset / 2, width: Math.max(1, width - inset), ...between(0, observed) });
      setAll(band, { x, width, ...between(Math.max(0, p - error), p + error) });
      setAll(line, { d: `M${x.toFixed(2)} ${y(p).toFixed(2)}h${width.toFixed(2)}` });
    });
  }

  drawLabels(rows, inner, height) {
    const layout = JSON.stringify([inner, rows]);
    if (this.placed === layout) return; // labels do not move during a check
    this.placed = layout;
    const all = rows.flatMap((level) => labelsOf(level, this.tokens));
    const labelElement = () => svg("text", { "text-anchor": "middle", dy: "0.35em" });
    fillRows(this.labels, all, labelElement, (text, label) => {
      setAll(text, { x: label.x.toFixed(1), y: label.y.toFixed(1), transform: label.turn });
      setText(text, label.text);
    });
    // a gap separates groups of outcomes with the same first token
    const groups = this.tokens.slice(1).map((_, i) => MARGIN.left + ((i + 1) * inner) / this.tokens.length);
    const draw = (path, x) => setAll(path, { d: `M${x.toFixed(1)} ${MARGIN.top}V${height}` });
    fillRows(this.rules, rows.length > 1 ? groups : [], () => svg("path"), draw);
  }
}
