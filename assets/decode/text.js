// The panel of the text. New tokens are appended, and existing text is never changed.

/** @import { Node, Round, Token } from "../types.d.ts" */

import { KINDS } from "../shared/catalogue.js";
import { emission, rejection } from "../shared/decisions.js";
import { appendText, tokenElement, visible } from "../shared/labels.js";
import { decisionsOf, select, state, subscribe } from "../shared/store.js";
import { make, onceDrawn, onFrame, windowZoom, zoomOf } from "../shared/view.js";
import { Fences, linesOf } from "./code.js";
import { mountLanes } from "./lanes.js";
import { mountLight, mountMarks, ofNode, ofToken } from "./link.js";
import { mountOpening } from "./opening.js";
import { children } from "./sentences.js";

// The highlight of each element of the text, for link.js.
const meaning = new WeakMap();

/** @param {Token} token @param {Round} round @param {number} step */
function writtenElement(token, round, step) {
  const element = tokenElement(token.kind, token.text);
  mark(element, round, step, emission(decisionsOf(round.number), step), ofToken(round, step));
  element.title = `round ${round.number + 1}: ${KINDS[token.kind]}`;
  return element;
}

// decision: the decision at which the element appears.
function mark(element, round, step, decision, place) {
  Object.assign(element.dataset, { round: round.number, step, decision });
  meaning.set(element, place);
}

// The drafted tokens that the round's last token replaced: the rejected children of the last verified node.
/** @param {Round} round */
function replaced(round) {
  const { length } = round.tokens;
  if (round.tokens.at(-1).kind === "accepted") return [];
  const below = children(round, round.steps.at(-1) ?? { path: [] });
  return below.filter(({ path, status }) => status === "rejected" && path.length === length);
}

/** @param {Node} node @param {Round} round @param {number} step */
function rejectedElement(node, round, step) {
  const element = make("s", "token rejected");
  mark(element, round, step, rejection(decisionsOf(round.number), node), ofNode(round, node));
  element.title = `round ${round.number + 1}: drafted and rejected`;
  element.setAttribute("role", "img"); // otherwise few screen readers say that the token was rejected
  element.setAttribute("aria-label", `rejected: ${visible(node.text.trim() || node.text)}`);
  if (node.text.startsWith(" ")) element.classList.add("spaced");
  appendText(element, visible(node.text.trim() || node.text));
  return element;
}

/** @param {Element} parent @param {Round} round @param {Fences} fences */
function appendRound(parent, round, fences) {
  const group = make("span", "round");
  const last = round.tokens.length - 1;
  const rejected = replaced(round);
  round.tokens.forEach((token, step) => {
    const element = writtenElement(token, round, step);
    const isCode = fences.next(token.text);
    element.classList.toggle("code", isCode);
    element.classList.toggle("end", step === last && round.finish === "eos");
    const preceding = parent.lastElementChild?.lastElementChild ?? null;
    const previous = group.lastElementChild ?? preceding;
    if (!isCode && token.text === "\n" && previous?.textContent.endsWith("\n")) element.classList.add("again");
    group.append(step === last && rejected.length > 0 ? pairElement(element, rejected, round) : element);
  });
  parent.append(group);
}

// The token that ended a round, beside the likeliest rejected token that it replaced and the number of other ones. In
// code the rejected token comes second, because in front it would move the indentation.
/** @param {Element} token @param {Node[]} rejected @param {Round} round */
function pairElement(token, rejected, round) {
  const element = make("span", "place");
  const out = rejectedElement(rejected[0], round, round.tokens.length - 1);
  if (rejected.length > 1) out.dataset.more = `+${rejected.length - 1}`;
  element.append(...(token.classList.contains("code") ? [token, out] : [out, token]));
  return element;
}

// The prompt of a run, or its conversation up to the question.
function prompted({ prompt, chat, history = [] }) {
  const turns = chat ? [...history, prompt] : [prompt];
  return turns.map((text, i) => {
    const turn = make("span", chat ? `turn ${i % 2 === 0 ? "question" : "answer"}` : "");
    for (const { line, isCode } of linesOf(text))
      appendText(isCode ? turn.appendChild(make("span", "code")) : turn, line);
    if (chat) turn.append("\n"); // for a copied text
    return turn;
  });
}

class TextView {
  constructor(element) {
    this.story = element.querySelector(".story");
    this.hint = element.querySelector(".hint");
    this.prompt = element.querySelector(".prompt");
    this.tokens = element.querySelector(".tokens");
    this.run = null;
    this.fences = new Fences();
    this.marked = [];
  }

  draw() {
    this.showStart();
    if (state.run !== this.run) this.reset();
    for (let i = this.tokens.childElementCount; i < state.rounds.length; i++)
      appendRound(this.tokens, state.rounds[i], this.fences);
    this.story.classList.toggle("with-code", this.tokens.querySelector(".code") !== null);
    this.mark();
  }

  // Scrolls up to the growing text if the visitor pressed Generate further down.
  showStart() {
    const starts = state.phase === "waiting" && this.phase !== "waiting";
    this.phase = state.phase;
    if (!starts) return;
    const { top } = this.story.closest("section").getBoundingClientRect();
    if (top < 0 || top > (0.85 * innerHeight) / windowZoom()) window.scrollTo({ top: 0 });
  }

  reset() {
    this.run = state.run;
    this.prompt.replaceChildren(...(state.setup ? prompted(state.setup) : []));
    this.tokens.replaceChildren();
    this.fences = new Fences();
    this.story.hidden = !state.setup;
    this.hint.hidden = !this.story.hidden;
  }

  // Marks the selected round and position, and hides what comes later, once per selection.
  mark() {
    this.tokens.classList.toggle("veiled", state.veiled);
    if (this.selected === state.selected) return;
    this.selected = state.selected;
    const group = this.tokens.children[state.selected.round];
    for (const element of this.marked) element.classList.remove("selected", "current", "later", "partial");
    if (!group) return;
    const isLater = ({ dataset }) => Number(dataset.decision) > state.decision;
    const later = [...group.querySelectorAll("[data-decision]")].filter(isLater);
    const current = group.querySelector(`[data-decision="${state.decision}"]:not(.rejected)`);
    const rejected = current ?? group.querySelector(`[data-decision="${state.decision}"]`);
    group.classList.add("selected");
    group.classList.toggle("partial", later.length > 0);
    for (const element of later) element.classList.add("later");
    rejected?.classList.add("current");
    this.marked = [group, rejected, ...later].filter(Boolean);
    onceDrawn(() => this.keepInView(group));
  }

  // Scrolls the story by whole lines, and never the page.
  keepInView(group) {
    const [story, round] = [this.story.getBoundingClientRect(), group.getBoundingClientRect()];
    const [below, above] = [round.bottom - story.bottom, story.top - round.top];
    if (below <= 0 && above <= 0) return;
    const line = Number.parseFloat(getComputedStyle(this.story).lineHeight);
    const height = line * zoomOf(this.story);
    const lines = above > 0 ? -Math.ceil(above / height) : Math.ceil(below / height);
    this.story.scrollTop = (Math.round(this.story.scrollTop / line) + lines) * line;
  }
}

// A copied selection is the text of the run itself, with all line ends and without rejected tokens.
function onCopy(event) {
  const part = getSelection().getRangeAt(0).cloneContents();
  for (const element of part.querySelectorAll(".rejected")) element.remove();
  event.clipboardData.setData("text/plain", part.textContent);
  event.preventDefault();
}

export function mountText(element) {
  mountLanes(element);
  mountOpening(element);
  const view = new TextView(element);
  subscribe(onFrame(() => view.draw()));
  view.tokens.addEventListener("click", (event) => {
    const token = event.target.closest(".token");
    if (token) select(Number(token.dataset.round), Number(token.dataset.step));
  });
  view.story.addEventListener("copy", onCopy);
  const what = (target) => meaning.get(target.closest(".token")) ?? null;
  mountLight(view.tokens, what);
  // The elements that may match a highlight: those of its round, or the whole text for a row of the statistics.
  const candidates = (lit) =>
    (lit.path === undefined ? view.tokens : view.tokens.children[lit.round])?.querySelectorAll(".token") ?? [];
  mountMarks(candidates, (element) => meaning.get(element));
  const toggle = element.querySelector(".show-rejected");
  toggle.addEventListener("change", () => {
    view.story.classList.toggle("without-rejected", !toggle.checked);
  });
}
