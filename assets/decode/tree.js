// The draft tree of one round: depth to the right, a first child in its parent's row, its siblings below.

import { STATUSES } from "../shared/catalogue.js";
import { emission, isEmitted, statusAt } from "../shared/decisions.js";
import { Drawing, mountSwap, SHAPES, setAll, svg } from "../shared/drawing.js";
import { digits, quoted, shortened, visible } from "../shared/labels.js";
import { decisionsOf, litNow, onLight, select, selectedDecision, selectedRound, state } from "../shared/store.js";
import { placeRows } from "../shared/tree_rows.js";
import { fillRows, onceDrawn, setText } from "../shared/view.js";
import { Zoom } from "../shared/zoom.js";
import { mountLight, mountMarks, mountSelected, ofNode, ofToken, pathKey } from "./link.js";
import { enter, fly, timely } from "./motion.js";
import { nameOf, roundSentence } from "./sentences.js";
import { mountWalk } from "./walk.js";

const STATES = ["unvisited", "rejected", "accepted", "last"]; // later states are drawn above earlier ones
const SYMBOL = { root: "square", unvisited: "circle", rejected: "cross", accepted: "circle" };
const SYMBOL_OF_LAST = { correction: "up", bonus: "down" }; // as in the text; other kinds are diamonds
const SIZE = { root: 8, unvisited: 7, rejected: 7, accepted: 9, last: 8 }; // radii of the marks
const REACH = 14; // radius in which a finger hits a mark
const PILL = 22; // height of the coloured background of a label
const CHARACTER = 8; // pixels of a label for each of its characters
const BETWEEN = 30; // pixels of a column that marks and margins take from a label
const LONGEST = 12; // characters of a label
const NARROW = 8; // labels with fewer characters than this leave out the space before a word
const FALLING = 60; // pixels below the last row for labels that fall to the right, at 45 degrees
const CROWDED = 30; // if rows are closer than this, labels have no background
const FAR = 84; // the largest distance of rows
const LINE = 13; // pixels that a label without a background needs downwards
const MARGIN = { left: 16, top: 20, bottom: 20 }; // labels after the last marks take at most a third of the width
const WIDTHS = [1.5, 3, 5, 8]; // width of an edge, by the draft's probability of its token

// Places every node: x is its depth, y its row. The round's last token is right below its first sibling.
export function place(round) {
  const rows = new Map();
  const children = new Map();
  const last = lastToken(round);
  const all = last ? [...round.nodes, last] : round.nodes;
  for (const node of all) {
    const parent = pathKey(node.path.slice(0, -1));
    const siblings = children.get(parent) ?? children.set(parent, []).get(parent);
    siblings.splice(node === last ? 1 : siblings.length, 0, node);
  }
  const childrenOf = ({ path }) => children.get(pathKey(path)) ?? [];
  const { rows: height } = placeRows({ path: [] }, childrenOf, ({ path }, row) => rows.set(pathKey(path), row));
  return { all, rows, height };
}

// The token that ended the round, as one more child of the last verified node. null if it was drafted.
function lastToken(round) {
  const token = round.tokens.at(-1);
  if (token.kind === "accepted") return null;
  const parent = round.nodes.length > 0 ? (round.steps.at(-1)?.path ?? []) : [];
  return { path: [...parent, "last"], text: nameOf(round, round.tokens.length - 1), status: "last", kind: token.kind };
}

const digitsOf = (value) => (value === null || value === undefined ? "not evaluated" : digits(value));

// A sentence about a node, for the line below the tree and for screen readers.
function described(node, status) {
  const name = quoted(node.text);
  if (status === "last") return `${name}: ${node.kind}, from the large model`;
  const word = STATUSES[status];
  const source = node.copied ? "copied from the text" : `q = ${digitsOf(node.q)}`;
  return `${name}: ${word}, child index ${node.path.at(-1)}, ${source}, p = ${digitsOf(node.p)}`;
}

// Pixels from a mark's middle to the end of its label.
const pixelsOf = (text, status = "last") => SIZE[status] + 16 + CHARACTER * [...shortened(text, LONGEST)].length;

// The nodes to draw for a round at a decision, with their positions in pixels. Parents come before children.
export function layout(round, decision, { width, height, zoom }) {
  const { all, rows, height: lowest } = place(round);
  const depth = Math.max(1, ...all.map(({ path }) => path.length));
  const behind = ({ path, text }) => (path.length < depth ? 0 : pixelsOf(text));
  const x = (width - MARGIN.left - Math.min(Math.max(...all.map(behind), width / 6), width / 3)) / depth;
  const across = Math.floor((x * zoom.scale - BETWEEN) / CHARACTER);
  const isFalling = across < 5; // labels fall where columns are too narrow for a short word
  const bottom = isFalling ? Math.min(FALLING, height / 3) : MARGIN.bottom;
  const inner = { x, y: Math.min(FAR, (height - MARGIN.top - bottom) / Math.max(lowest, 1)) };
  const row = (height + MARGIN.top - bottom - inner.y * lowest) / 2;
  const placeOf = (path) => zoom.apply(MARGIN.left + path.length * inner.x, row + inner.y * rows.get(pathKey(path)));
  const isEnd = isEmitted(decision) && decision.step === round.tokens.length - 1;
  const nodes = all
    .filter(({ status }) => status !== "last" || isEnd)
    .map((node) => {
      const status = node.status === "last" ? "last" : statusAt(node, decision, round);
      return { node, status, ...placeOf(node.path), from: placeOf(node.path.slice(0, -1)) };
    });
  const spacing = lowest === 0 ? height : inner.y * zoom.scale;
  const down = Math.min(spacing, height - row - inner.y * lowest) - LINE;
  const room = isFalling ? Math.max(2, Math.floor((down * Math.SQRT2) / CHARACTER)) : across;
  return { root: placeOf([]), nodes, spacing, isFalling, room };
}

// Chooses the labels to draw so that none overlap. Labels of accepted tokens and of the round's last token
// are chosen first. reach(node): pixels from the node's mark to the end of its label.
export function thinned(nodes, reach) {
  const chosen = [];
  const important = (item) => STATES.indexOf(item.status);
  const order = [...nodes].sort((a, b) => important(b) - important(a));
  return new Set(
    order.filter((item) => {
      const free = chosen.every((other) => {
        const first = other.x < item.x ? other : item;
        return Math.abs(other.y - item.y) >= LINE || Math.abs(other.x - item.x) >= reach(first);
      });
      if (free) chosen.push(item);
      return free;
    }),
  );
}

function nodeElement() {
  return svg(
    "g",
    {},
    svg("rect", { class: "reach", x: -REACH, y: -REACH, width: 2 * REACH, height: 2 * REACH }),
    svg("rect", { class: "pill", rx: PILL / 2, height: PILL, y: -PILL / 2 }),
    svg("path"),
    svg("text", { y: 4.5 }, svg("tspan")), // only this part has an outline: that of a line through the text would cover the letters
  );
}

// An edge leaves its parent horizontally and enters its child horizontally, so parallel branches stay apart.
function edge({ from, x, y }) {
  const [near, far] = [from.x + 0.6 * (x - from.x), from.x + 0.5 * (x - from.x)];
  const [x0, y0, x1, y1] = [from.x, from.y, x, y].map((value) => value.toFixed(1));
  return `M${x0} ${y0}C${near.toFixed(1)} ${y0} ${far.toFixed(1)} ${y1} ${x1} ${y1}`;
}

// An edge's width, as an index of WIDTHS: the likelier under the draft, the thicker. The target's own is thickest.
const thickness = ({ q }) => Math.min(WIDTHS.length - 1, Math.floor((q ?? 1) * WIDTHS.length));

class TreeView {
  relight;

  constructor(element) {
    this.plot = element.querySelector(".figure");
    this.detail = element.querySelector(".inspected");
    this.hint = [...this.detail.childNodes];
    this.svg = svg("svg", { class: "drawing", "aria-hidden": "true" });
    // few elements, however many edges: one for each state and width
    this.edges = STATES.flatMap((status) => WIDTHS.map(() => svg("path", { class: `edge ${status}` })));
    this.root = svg("path", { class: "mark root", d: SHAPES.square(SIZE.root) });
    this.nodes = svg("g");
    this.svg.append(...this.edges, this.root, this.nodes);
    this.plot.append(this.svg);
    this.zoom = new Zoom(this.plot, () => this.drawing.draw());
    this.drawing = new Drawing(this.plot, (width, height) => this.draw(width, height));
    this.meaning = new WeakMap();
  }

  draw(width, height) {
    const round = selectedRound();
    if (!round) return;
    const { zoom } = this;
    setAll(this.svg, { width, height });
    const { root, nodes, ...shape } = layout(round, selectedDecision(), { width, height, zoom });
    setAll(this.root, { transform: `translate(${root.x.toFixed(1)} ${root.y.toFixed(1)})` });
    this.drawEdges(nodes, Math.min(1, shape.spacing / CROWDED));
    const isNear = ({ x, y }) => x > -30 && x < width + 30 && y > -20 && y < height + 20;
    this.drawNodes(nodes.filter(isNear), shape);
    this.relight(litNow());
    this.inspect(litNow());
  }

  drawEdges(nodes, room) {
    const paths = this.edges.map(() => "");
    for (const item of nodes) paths[STATES.indexOf(item.status) * WIDTHS.length + thickness(item.node)] += edge(item);
    paths.forEach((d, i) =>
      setAll(this.edges[i], { d, "stroke-width": Math.max(1, WIDTHS[i % WIDTHS.length] * room) }),
    );
  }

  // Draws the labels. room: their most characters. isFalling: whether they are drawn at an angle, downwards.
  drawNodes(items, { spacing, isFalling, room }) {
    const words = ({ node: { text } }) =>
      shortened(room < NARROW ? text.trim() || text : text, Math.min(room, LONGEST));
    const wide = (item) => pixelsOf(words(item), item.status);
    const labelled = thinned(items, isFalling ? () => LINE * Math.SQRT2 : wide);
    const small = Math.min(1, Math.max(0.3, spacing / 20));
    const withPills = spacing >= CROWDED && !isFalling;
    fillRows(this.nodes, items, nodeElement, (group, item) => {
      const { status, x, y } = item;
      const size = SIZE[status] * (["accepted", "last"].includes(status) ? Math.max(small, 0.7) : small);
      const [, pill, mark, text] = group.children;
      const label = labelled.has(item) ? words(item) : "";
      const bare = withPills ? "" : " bare";
      setAll(group, { class: `node ${status}${bare}`, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
      const symbol = SYMBOL[status] ?? SYMBOL_OF_LAST[item.node.kind] ?? "diamond";
      setAll(mark, { d: SHAPES[symbol](size), class: `mark ${status}` });
      setAll(text, { x: size + (withPills ? 8 : 4), transform: `rotate(${isFalling ? 45 : 0})` });
      setText(text.firstChild, label);
      setAll(pill, withPills && label ? { x: 0, width: wide(item), display: "inline" } : { display: "none" });
      this.meaning.set(group, item);
    });
  }

  what(target) {
    const item = this.meaning.get(target.closest?.(".node"));
    if (!item) return null;
    const round = selectedRound();
    return item.status === "last" ? ofToken(round, round.tokens.length - 1) : ofNode(round, item.node);
  }

  // Describes the highlighted node in words below the figure.
  inspect(lit) {
    const items = [...this.nodes.children].map((group) => this.meaning.get(group));
    const isHere = lit?.path !== undefined && lit.round === state.selected.round;
    const item = isHere && items.find((item) => item && lit.path === pathKey(item.node.path));
    if (item) setText(this.detail, described(item.node, item.status));
    else if (this.detail.firstChild !== this.hint[0]) this.detail.replaceChildren(...this.hint);
  }
}

// A click on a node selects the position at which the node was decided.
function choose(view, target) {
  const mark = view.what(target);
  const round = selectedRound();
  if (!mark) return;
  const depth = mark.path.split(".").length - 1;
  const item = view.meaning.get(target.closest(".node"));
  if (item.node.status !== "unvisited" && depth < round.tokens.length) select(round.number, depth);
}

// Animates a decision: the draft enters the tree, and accepted tokens fly into the text.
function move(view, round, decision) {
  if (decision.kind === "draft") return enter(view.nodes);
  const flights = [...view.nodes.children].flatMap((group) => {
    const { node, status } = view.meaning.get(group);
    const token = status === "accepted" && tokenOf(round, node.path.length - 1);
    if (!token) return [];
    return [[visible(node.text), group.lastChild.getBoundingClientRect(), token.getBoundingClientRect()]];
  });
  for (const flight of flights) fly(...flight);
}

const tokenOf = ({ number }, step) =>
  document.querySelector(`#text [data-round="${number}"][data-step="${step}"].token.accepted > .ink`);

// The tree in words, for screen readers.
const walked = () => {
  const [round, decision] = [selectedRound(), selectedDecision()];
  return (round?.nodes ?? []).map(
    (node) => `depth ${node.path.length}, ${described(node, statusAt(node, decision, round))}`,
  );
};

export function mountTree(element) {
  const view = new TreeView(element);
  mountSwap(element);
  mountWalk(element, "The draft tree as a list", walked);
  const sentence = element.querySelector(".verdict");
  const isDrawn = mountSelected(element, (round, decision) => {
    const all = decisionsOf(round.number);
    const complete = decision === all.at(-1) || decision === all[emission(all, round.tokens.length - 1)];
    setText(sentence, roundSentence(round, decision, complete));
    sentence.title = sentence.textContent; // a narrow panel cuts the sentence
    view.plot.setAttribute("aria-label", `Draft tree. ${sentence.textContent}`);
    view.drawing.draw();
    if (timely(state.selected)) onceDrawn(() => move(view, round, decision));
  });
  const what = (target) => (isDrawn() ? view.what(target) : null);
  view.relight = mountMarks(() => view.nodes.children, what);
  mountLight(view.plot, what, () => [...view.nodes.children]);
  onLight((lit) => view.inspect(lit));
  view.plot.addEventListener("click", (event) => isDrawn() && choose(view, event.target));
}
