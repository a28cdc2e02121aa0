// Tools for SVG figures. They reuse a few elements, so that ten rounds a second cost little time.

import { fillRows, setText } from "./view.js";

const NS = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(NS, tag);
  setAll(element, attributes);
  element.append(...children);
  return element;
}

// Writes only the attributes that changed.
export function setAll(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

// The end of a race's time axis. An axis for all arrivals would make the bars of early ones too short. If it
// were much longer than `enough`, it ends at `enough`, and longer bars are cut off.
export function raceEnd(times, enough) {
  const longest = Math.max(...times);
  return longest <= 2.5 * enough ? 1.02 * longest : enough;
}

// Round numbers from 0 to `end`, about `count` of them.
export function ticks(end, count) {
  const rough = end / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, i) => Number((i * step).toPrecision(6)));
}

// The lines of an axis with their labels. place(value): the attributes of the line and of the label.
export function drawAxis(group, values, place, label) {
  const create = () => svg("g", {}, svg("line"), svg("text"));
  fillRows(group, values, create, ({ children: [line, text] }, value) => {
    const [lineAt, textAt] = place(value);
    setAll(line, lineAt);
    setAll(text, textAt);
    setText(text, label(value));
  });
}

// A pattern of stripes for fills, so that they differ without colour. The style sheet colours its parts.
export function hatching(id) {
  const size = { width: 5, height: 5 };
  const place = { id, ...size, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  const fill = svg("rect", { class: "hatch-fill", ...size });
  return svg("defs", {}, svg("pattern", place, fill, svg("rect", { class: "hatch-line", width: 1.1, height: 5 })));
}

function cross(r) {
  const [t, u] = [r * 0.42, r * 0.58];
  const quarters = [`0 ${-t}L${u} ${-r}L${r} ${-u}`, `${t} 0L${r} ${u}L${u} ${r}`];
  return `M${[...quarters, `0 ${t}L${-u} ${r}L${-r} ${u}`, `${-t} 0L${-r} ${-u}L${-u} ${-r}`].join("L")}Z`;
}

function star(r) {
  const points = Array.from({ length: 10 }, (_, i) => {
    const [radius, angle] = [(i % 2 ? 0.45 : 1.15) * r, (Math.PI * i) / 5 - Math.PI / 2];
    return `${(radius * Math.cos(angle)).toFixed(2)} ${(radius * Math.sin(angle)).toFixed(2)}`;
  });
  return `M${points.join("L")}Z`;
}

const triangle = (r, way) => `M0 ${-way * 1.2 * r}L${1.2 * r} ${way * 0.9 * r}H${-1.2 * r}Z`;

// The shapes of marks, as SVG paths around (0, 0). Each state has its own shape.
export const SHAPES = {
  square: (r) => `M${-r} ${-r}H${r}V${r}H${-r}Z`,
  circle: (r) => `M${-r} 0A${r} ${r} 0 1 1 ${r} 0A${r} ${r} 0 1 1 ${-r} 0Z`,
  // a triangle that points up (1) or down (-1)
  up: (r) => triangle(r, 1),
  down: (r) => triangle(r, -1),
  diamond: (r) => `M0 ${-r * 1.3}L${r * 1.3} 0L0 ${r * 1.3}L${-r * 1.3} 0Z`,
  cross,
  star,
};

// Calls `draw(width, height)` when the element changes its size, and when `draw()` was asked for. While the element is
// not on the screen, nothing is drawn; a missed drawing follows when it becomes visible or the page is printed.
export class Drawing {
  width = 0;
  height = 0;
  seen = true;
  stale = false;

  constructor(element, draw) {
    this.drawNow = draw;
    this.measure(element);
    const nearby = { rootMargin: "300px 200px" };
    // On a busy machine several changes arrive together, in order.
    new IntersectionObserver((changes) => this.shown(changes.at(-1)?.isIntersecting), nearby).observe(element);
    new ResizeObserver(() => this.measure(element) && this.draw()).observe(element);
    addEventListener("beforeprint", () => this.stale && this.draw(true));
  }

  shown(isVisible) {
    this.seen = isVisible;
    if (isVisible && this.stale) this.draw();
  }

  // Returns whether the element's size has changed.
  measure({ clientWidth: width, clientHeight: height }) {
    const isOther = width !== this.width || height !== this.height;
    Object.assign(this, { width, height });
    return isOther;
  }

  draw(isNeeded = this.seen) {
    this.stale = !isNeeded || this.width === 0;
    if (!this.stale) this.drawNow(this.width, this.height);
  }
}

// If there is room for only one drawing, this button switches to the other.
export function mountSwap(element) {
  const button = element.querySelector(".swap");
  button.addEventListener("click", () =>
    document.getElementById(button.dataset.other).scrollIntoView({ block: "nearest", inline: "start" }),
  );
}
