// The tree of the laboratory as plain data, and its drawing, with children right of their parent, siblings below.

import { setAll, svg } from "../shared/drawing.js";
import { placeRows } from "../shared/tree_rows.js";
import { fillRows, setText } from "../shared/view.js";

const MARGIN = { left: 16, right: 40, top: 32, bottom: 18 };
const WIDEST = 170; // most pixels between two depths
const TALLEST = 96; // most pixels between two rows
const CLEAR = 22; // pixels above a node that must be free of other nodes for its label
const LABEL = { width: 40, height: 14 };
const LARGE = 48; // from this k on, the caption of the curves says what further tokens gain

// Nodes { path, acceptance, children } from rows [parent, child index], in which parents come first.
export function nodesOf(rows, acceptance) {
  const nodes = [];
  rows.forEach(([parent, index], number) => {
    const above = nodes[parent];
    const node = {
      number,
      parent: above ?? null,
      index,
      children: [],
      depth: above ? above.depth + 1 : 0,
      acceptance: above ? above.acceptance * acceptance[index] : 1,
    };
    node.path = above ? [...above.path, index] : [];
    above?.children.push(node);
    nodes.push(node);
  });
  return nodes;
}

// What the largest trees gain over trees of `LARGE` tokens, in words. tokens: tokens per call by topology, for each k.
export function gained(tokens) {
  const gain = (name) => (tokens[name].at(-1) - tokens[name][LARGE]).toFixed(2);
  return `From k = ${LARGE} to ${tokens.optimal.length - 1}, the optimal tree gains ${gain("optimal")} tokens per call, a sequence ${gain("sequence")} and a batch ${gain("batch")}.`;
}

// Gives each node its row. If GSD's decisions are shown, its samples get places too: a sample from the target
// is right of a leaf, and a sample from the residual is below the last sibling.
export function layout(nodes, decisions) {
  const terminals = [];
  const ends = new Map(nodes.map((node) => [node, decisions ? endOf(node) : []]));
  const childrenOf = (item) => [...(item.children ?? []), ...(ends.get(item) ?? [])];
  const extent = placeRows(nodes[0], childrenOf, (item, row) => {
    item.row = row;
    if (item.kind) terminals.push(item);
  });
  return { terminals, ...extent };
}

function endOf(node) {
  const last = node.children.at(-1);
  if (last) return [{ from: last, kind: "reject", depth: last.depth }];
  return node.parent ? [{ from: node, kind: "accept", depth: node.depth + 1 }] : [];
}

// The labels that overlap no other label and no node: the newest node's first, then in the queue's order.
export function thinned(nodes) {
  const chosen = [];
  const near = (a, b) => Math.abs(a.x - b.x) < LABEL.width && Math.abs(a.y - b.y) < LABEL.height;
  const under = ({ x, y }) => nodes.some((other) => other.x === x && other.y < y - 0.5 && other.y > y - CLEAR);
  for (const node of [nodes.at(-1), ...nodes.slice(0, -1)]) {
    if (node && !under(node) && !chosen.some((other) => near(node, other))) chosen.push(node);
  }
  return new Set(chosen);
}

const percent = (value) =>
  value >= 0.1 ? `${Math.round(100 * value)}%` : `${(100 * value).toPrecision(value >= 0.01 ? 2 : 1)}%`;

function nodeElement() {
  const circles = [svg("circle", { class: "reach", r: 12 }), svg("circle", { class: "dot" })];
  return svg("g", {}, ...circles, svg("text", { "text-anchor": "middle" }));
}

const at = ({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`;
const line = (from, to) => `M${at(from)}L${at(to)}`;
const arc = (from, to, size) => {
  const top = { x: (from.x + to.x) / 2, y: from.y - Math.min(22, 3.5 * size) };
  return `M${at(from)}Q${at(top)} ${at(to)}`;
};
// An edge goes right, down, then right again, so that parallel branches never overlap.
const branch = (from, to) =>
  `M${at(from)}h${(0.35 * (to.x - from.x)).toFixed(1)}V${to.y.toFixed(1)}H${to.x.toFixed(1)}`;

export class Growth {
  // zoom.apply(x, y) maps a point of the whole drawing to the visible part.
  constructor(element, zoom) {
    this.svg = element;
    this.zoom = zoom;
    this.lit = null;
    this.edges = ["draft", "accept", "reject"].map((kind) => svg("path", { class: `edge ${kind}`, fill: "none" }));
    this.terminals = svg("g");
    this.nodes = svg("g");
    element.append(...this.edges, this.terminals, this.nodes);
    this.meaning = new WeakMap();
  }

  draw(nodes, decisions, width, height) {
    const { terminals, rows, depth } = layout(nodes, decisions);
    setAll(this.svg, { width, height });
    const [across, down] = [width - MARGIN.left - MARGIN.right, height - MARGIN.top - MARGIN.bottom];
    const step = { x: Math.min(WIDEST, across / Math.max(depth, 1)), y: Math.min(TALLEST, down / Math.max(rows, 1)) };
    const first = MARGIN.top + (down - rows * step.y) / 2; // a tree of few rows is centred
    const place = (item) =>
      Object.assign(item, this.zoom.apply(MARGIN.left + item.depth * step.x, first + item.row * step.y));
    nodes.forEach(place);
    terminals.forEach(place);
    const size = Math.min(9, Math.max(1.6, (step.y * this.zoom.scale) / 4));
    this.drawEdges(nodes, terminals, decisions, size);
    this.drawTerminals(terminals, size);
    const isInside = ({ x, y }) => x > -40 && x < width + 40 && y > -20 && y < height + 20;
    this.drawNodes(nodes.filter(isInside), nodes.at(-1), size);
  }

  drawEdges(nodes, terminals, decisions, size) {
    const [draft, accept, reject] = this.edges;
    const below = nodes.slice(1);
    setAll(draft, { d: below.map((node) => branch(node.parent, node)).join("") });
    const ends = (kind) => terminals.filter((terminal) => terminal.kind === kind);
    const onwards = below
      .filter((node) => node.index === 0 && node.parent.parent)
      .map((node) => arc(node.parent, node, size));
    const sideways = below
      .filter((node) => node.index > 0)
      .map((node) => line(node.parent.children[node.index - 1], node));
    const toEnds = (kind) => ends(kind).map((terminal) => line(terminal.from, terminal));
    setAll(accept, { d: decisions ? [...onwards, ...toEnds("accept")].join("") : "" });
    setAll(reject, { d: decisions ? [...sideways, ...toEnds("reject")].join("") : "" });
  }

  drawTerminals(terminals, size) {
    const r = 1.1 * size;
    const draw = (mark, { x, y }) => setAll(mark, { d: `M${x} ${y - r}L${x + r} ${y}L${x} ${y + r}L${x - r} ${y}Z` });
    fillRows(this.terminals, terminals, () => svg("path", { class: "terminal" }), draw);
  }

  drawNodes(nodes, newest, size) {
    const labelled = thinned(nodes);
    fillRows(this.nodes, nodes, nodeElement, (group, node) => {
      const kind = node.number === 0 ? "root" : node === newest ? "newest" : "drafted";
      const radius = kind === "newest" ? Math.max(size, 3) + 2 : size;
      const lit = node === this.lit ? " lit" : "";
      setAll(group, { class: `node ${kind}${lit}`, transform: `translate(${at(node)})` });
      setAll(group.children[1], { r: radius.toFixed(1) });
      setAll(group.children[2], { y: -radius - 4 });
      setText(group.children[2], node.number > 0 && labelled.has(node) ? percent(node.acceptance) : "");
      this.meaning.set(group, node);
    });
  }

  // The node of an element of the drawing, or null.
  at(target) {
    return this.meaning.get(target.closest?.(".node")) ?? null;
  }
}
