// The draft tree of one round: depth to the right, first children straight on, siblings below.

import { Figure } from "./figure.js";
import { digits, plotlyLabel } from "./labels.js";
import { selectedRound, state, subscribe } from "./store.js";
import { onFrame, setText } from "./view.js";

const STATES = ["unvisited", "rejected", "accepted", "last"]; // the order of the skeleton's traces
const LABELS = 40; // more nodes than this: only what the target looked at is labelled

const key = (path) => path.join(".");

// Places every node: x is its depth, y its row; a first child shares its parent's row.
export function place(round) {
  const rows = new Map([["", 0]]);
  const children = new Map();
  const last = lastToken(round);
  const all = last ? [...round.nodes, last] : round.nodes;
  for (const node of all) {
    const parent = key(node.path.slice(0, -1));
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(node);
  }
  let free = 0;
  const visit = (id) => {
    const list = children.get(id) ?? [];
    // The round's last token goes right below its parent, before the branches that lost to it.
    if (list.length > 1 && list.at(-1) === last) rows.set(key(last.path), ++free);
    list.forEach((node, i) => {
      if (!rows.has(key(node.path))) rows.set(key(node.path), i === 0 ? rows.get(id) : ++free);
      visit(key(node.path));
    });
  };
  visit("");
  return { all, rows, height: free };
}

// The token that ended the round, as one more child of the last verified node; null if it was drafted.
function lastToken(round) {
  const token = round.tokens.at(-1);
  if (token.kind === "accepted") return null;
  const parent = round.steps.at(-1)?.path ?? [];
  return { path: [...parent, "last"], text: token.text, status: "last", kind: token.kind };
}

function hover(node) {
  const name = plotlyLabel(node.text, 60);
  if (node.status === "last") return `${name}<br>${node.kind}: from the target`;
  return `${name}<br>${node.status}, child index ${node.path.at(-1)}<br>draft q = ${known(node.q)}<br>target p = ${known(node.p)}`;
}

const known = (value) => (value === null || value === undefined ? "not evaluated" : digits(value));

// Right, down, right: parallel branches stay apart however many there are.
function fillEdges(trace, nodes, rows) {
  const bend = 0.35;
  trace.x = nodes.flatMap(({ path: { length } }) => [length - 1, length - 1 + bend, length - 1 + bend, length, null]);
  trace.y = nodes.flatMap(({ path }) => {
    const [parent, child] = [-rows.get(key(path.slice(0, -1))), -rows.get(key(path))];
    return [parent, parent, child, child, null];
  });
}

function fillNodes(trace, nodes, rows, label) {
  trace.x = nodes.map(({ path }) => path.length);
  trace.y = nodes.map(({ path }) => -rows.get(key(path)));
  trace.text = nodes.map(label);
  trace.hovertext = nodes.map(hover);
}

// Puts one round's tree into the figure's skeleton.
export function fillTree({ data, layout }, round, width) {
  if (!round) return;
  const { all, rows, height } = place(round);
  const depth = Math.max(1, ...all.map(({ path }) => path.length));
  const room = Math.max(4, Math.floor(width / (depth + 1) / 8)); // characters that fit beside a node
  const label = (node) =>
    all.length > LABELS && node.status === "unvisited" ? "" : plotlyLabel(node.text, Math.min(room, 14));
  STATES.forEach((status, i) => {
    const nodes = all.filter((node) => node.status === status);
    fillEdges(data[i], nodes, rows);
    fillNodes(data[5 + i], nodes, rows, label);
  });
  Object.assign(data[4], { x: [0], y: [0], text: [""], hovertext: ["root: the text so far"] });
  layout.xaxis.range = [-0.4, depth + 0.6];
  layout.yaxis.range = [-Math.max(height, 1) - 0.5, 0.9];
}

// As high as the run's first tree needs: later ones are the same or smaller, and nothing jumps.
export function treeHeight(round) {
  const { height } = place(round);
  return Math.min(Math.max(150, 70 + 36 * (height + 1)), 640);
}

export function summary(round) {
  const accepted = round.nodes.filter((node) => node.status === "accepted").length;
  const drafted = round.nodes.length;
  if (drafted === 0) return `Round ${round.number + 1}: nothing drafted, so one target evaluation yields one token.`;
  return `Round ${round.number + 1}: ${drafted} drafted, ${accepted} accepted, so one target evaluation yields ${round.tokens.length} token${round.tokens.length === 1 ? "" : "s"}.`;
}

export function mountTree(element, props) {
  const sentence = element.querySelector(".verdict");
  const plot = element.querySelector(".figure");
  const figure = new Figure(plot, {
    skeleton: props.figure,
    plotly: props.plotly,
        fill: (skeleton, width) => {
      if (state.rounds.length > 0) skeleton.layout.height = treeHeight(state.rounds[0]);
      plot.style.height = `${skeleton.layout.height}px`;
      fillTree(skeleton, selectedRound(), width);
    },
  });
  let drawn = null;
  subscribe(
    onFrame(() => {
      const round = selectedRound();
      if (drawn === round) return;
      drawn = round;
      if (round) {
        setText(sentence, summary(round));
        plot.setAttribute("aria-label", `Draft tree. ${sentence.textContent}`);
      }
      figure.draw();
    }),
  );
}
