// The text panel. It only ever appends: what is on the page is never rewritten.

/** @import { Node, Round, Token } from "../types.d.ts" */

import { KINDS } from "../shared/catalogue.js";
import { emission, rejection } from "../shared/decisions.js";
import { appendInk, appendText, visible } from "../shared/labels.js";
import { decisionsOf, select, state, subscribe } from "../shared/store.js";
import { make, onceDrawn, onFrame } from "../shared/view.js";
import { mountLanes } from "./lanes.js";
import { mountLight, mountMarks, ofNode, ofToken } from "./link.js";

const ROOM = 12; // characters of rejected tokens above the one that replaced them; the others are counted
const SMALL = 0.64; // width of such a character, in letters of the text

// What each element of the text stands for, as link.js wants it.
const meaning = new WeakMap();

/**
 * @param {Token} token
 * @param {Round} round
 * @param {number} step
 */
function tokenElement(token, round, step) {
  const element = make("span", `token ${token.kind}`);
  mark(element, round, step, emission(decisionsOf(round.number), step), ofToken(round, step));
  element.title = `round ${round.number + 1}: ${KINDS[token.kind]}`;
  appendInk(element, token.text);
  return element;
}

// decision: the one with which the element appears.
function mark(element, round, step, decision, what) {
  Object.assign(element.dataset, { round: round.number, step, decision });
  meaning.set(element, what);
}

// The drafted tokens that the round's last token replaced: rejected children of the last verified node.
/** @param {Round} round */
function replaced(round) {
  const last = round.tokens.at(-1);
  if (last.kind === "accepted") return [];
  const depth = round.tokens.length;
  const parent = JSON.stringify(round.steps.at(-1)?.path ?? []);
  return round.nodes.filter(
    ({ path, status }) =>
      status === "rejected" && path.length === depth && JSON.stringify(path.slice(0, -1)) === parent,
  );
}

/**
 * @param {Node} node
 * @param {Round} round
 * @param {number} step
 */
function rejectedElement(node, round, step) {
  const element = make("s", "token rejected");
  mark(element, round, step, rejection(decisionsOf(round.number), node), ofNode(round, node));
  element.title = `round ${round.number + 1}: drafted and rejected`;
  element.setAttribute("role", "img"); // else few screen readers say that it is out
  element.setAttribute("aria-label", `rejected: ${visible(node.text.trim() || node.text)}`);
  appendText(element, node.text.trimStart() || node.text);
  return element;
}

// taken: letters of the text above which rejected tokens of the round before still stand; returns the same for the next.
/**
 * @param {Element} parent
 * @param {Round} round
 * @param {number} taken
 */
function appendRound(parent, round, taken) {
  const group = make("span", "round");
  const last = round.tokens.length - 1;
  round.tokens.slice(0, last).forEach((token, i) => group.append(tokenElement(token, round, i)));
  const before = lengthOf(round.tokens.slice(0, last));
  const place = placed(round, last, taken - before);
  group.append(place.element);
  parent.append(group);
  return place.taken;
}

const lengthOf = (tokens) => tokens.reduce((sum, { text }) => sum + [...text].length, 0);
const fitting = (nodes) => nodes.filter((_, i) => lengthOf(nodes.slice(0, i + 1)) <= ROOM).length;

// The token that ended a round, below the drafted ones that it replaced. Where those of the round before still stand
// above it, it keeps off, or within a word only counts its own.
/**
 * @param {Round} round
 * @param {number} step
 * @param {number} taken
 */
function placed(round, step, taken) {
  const token = tokenElement(round.tokens[step], round, step);
  const rejected = replaced(round);
  const { text } = round.tokens[step];
  const after = (width) => Math.max(0, width - [...text].length);
  if (rejected.length === 0) return { element: token, taken: after(taken) };
  const spaced = text.startsWith(" ");
  const element = make("span", spaced ? "place spaced" : "place");
  const shown = taken > 0 && !spaced ? [] : rejected.slice(0, Math.max(1, fitting(rejected)));
  if (spaced && taken > 0) element.style.marginLeft = `${Math.min(0.5 * taken, 3).toFixed(2)}em`;
  element.append(stacked(round, step, rejected, shown), token);
  return { element, taken: after(SMALL * (lengthOf(shown) + 3)) };
}

function stacked(round, step, rejected, shown) {
  const stack = make("span", "stack");
  stack.append(...shown.map((node) => rejectedElement(node, round, step)));
  if (shown.length < rejected.length) {
    const more = make("span", "more-rejected", `+${rejected.length - shown.length}`);
    more.dataset.decision = emission(decisionsOf(round.number), step);
    stack.append(more);
  }
  return stack;
}

class TextView {
  constructor(element) {
    this.story = element.querySelector(".story");
    this.hint = element.querySelector(".hint");
    this.prompt = element.querySelector(".prompt");
    this.tokens = element.querySelector(".tokens");
    this.run = null;
    this.marked = [];
  }

  draw() {
    this.showStart();
    if (state.run !== this.run) this.reset();
    for (let i = this.tokens.childElementCount; i < state.rounds.length; i++) {
      this.taken = appendRound(this.tokens, state.rounds[i], this.taken);
    }
    this.mark();
  }

  // Who pressed Generate further down sees the text grow.
  showStart() {
    const starts = state.phase === "waiting" && this.phase !== "waiting";
    this.phase = state.phase;
    if (!starts) return;
    const { top } = this.story.parentElement.getBoundingClientRect();
    if (top < 0 || top > 0.85 * window.innerHeight) window.scrollTo({ top: 0 });
  }

  reset() {
    this.run = state.run;
    this.prompt.replaceChildren();
    this.tokens.replaceChildren();
    this.taken = 0;
    if (!state.setup) return;
    appendText(this.prompt, state.setup.prompt);
    this.story.hidden = false;
    this.hint.hidden = true;
  }

  // Marks the selected round and, in it, the selected position; hides what comes later; once per selection.
  mark() {
    this.tokens.classList.toggle("veiled", state.veiled);
    if (this.selected === state.selected) return;
    this.selected = state.selected;
    const group = this.tokens.children[state.selected.round];
    for (const element of this.marked) element.classList.remove("selected", "current", "later", "partial");
    if (!group) return;
    const later = [...group.querySelectorAll("[data-decision]")].filter(
      (element) => Number(element.dataset.decision) > state.decision,
    );
    const current = group.querySelector(`[data-decision="${state.decision}"]:not(.rejected, .more-rejected)`);
    const rejected = current ?? group.querySelector(`[data-decision="${state.decision}"]`);
    group.classList.add("selected");
    group.classList.toggle("partial", later.length > 0);
    for (const element of later) element.classList.add("later");
    rejected?.classList.add("current");
    this.marked = [group, rejected, ...later].filter(Boolean);
    onceDrawn(() => this.keepInView(group));
  }

  // Scrolls the story by whole lines, never the page.
  keepInView(group) {
    const [story, round] = [this.story.getBoundingClientRect(), group.getBoundingClientRect()];
    const [below, above] = [round.bottom - story.bottom, story.top - round.top];
    if (below <= 0 && above <= 0) return;
    const line = Number.parseFloat(getComputedStyle(this.story).lineHeight);
    const by = above > 0 ? -Math.ceil(above / line) : Math.ceil(below / line);
    this.story.scrollTop = (Math.round(this.story.scrollTop / line) + by) * line;
  }
}

export function mountText(element) {
  mountLanes(element);
  const view = new TextView(element);
  subscribe(onFrame(() => view.draw()));
  view.tokens.addEventListener("click", (event) => {
    const token = event.target.closest(".token");
    if (token) select(Number(token.dataset.round), Number(token.dataset.step));
  });
  const what = (target) => meaning.get(target.closest(".token")) ?? null;
  mountLight(view.tokens, what);
  // Of one place only its round is searched; of a row of the statistics, all of the text.
  const candidates = (lit) =>
    (lit.path === undefined ? view.tokens : view.tokens.children[lit.round])?.querySelectorAll(".token") ?? [];
  mountMarks(candidates, (element) => meaning.get(element));
  const toggle = element.querySelector(".show-rejected");
  toggle.addEventListener("change", () => {
    view.story.classList.toggle("without-rejected", !toggle.checked);
  });
}
