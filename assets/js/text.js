// The text panel. It only ever appends: what is on the page is never rewritten.

import { appendText } from "./labels.js";
import { select, state, subscribe } from "./store.js";
import { make, onFrame } from "./view.js";

const SHOWN_REJECTED = 3;

const NAMES = {
  accepted: "accepted draft token",
  bonus: "bonus token",
  residual: "token sampled from the residual",
  correction: "correction: the target's winner",
  sampled: "sampled token",
};

function tokenElement(token, round, step) {
  const element = make("span", `token ${token.kind}`);
  element.dataset.round = round;
  element.dataset.step = step;
  element.title = `round ${round + 1}: ${NAMES[token.kind]}`;
  appendText(element, token.text);
  return element;
}

// The drafted tokens that the round's last token replaced: rejected children of the last verified node.
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

function rejectedElement(node, round, step) {
  const element = make("s", "token rejected");
  element.dataset.round = round;
  element.dataset.step = step;
  element.title = `round ${round + 1}: drafted and rejected`;
  appendText(element, node.text);
  return element;
}

function appendRound(parent, round) {
  const group = make("span", "round");
  const last = round.tokens.length - 1;
  round.tokens.slice(0, last).forEach((token, i) => group.append(tokenElement(token, round.number, i)));
  const rejected = replaced(round);
  for (const node of rejected.slice(0, SHOWN_REJECTED)) {
    group.append(rejectedElement(node, round.number, last));
  }
  if (rejected.length > SHOWN_REJECTED) {
    group.append(make("span", "more-rejected", `+${rejected.length - SHOWN_REJECTED}`));
  }
  group.append(tokenElement(round.tokens[last], round.number, last));
  parent.append(group);
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
      appendRound(this.tokens, state.rounds[i]);
    }
    this.mark();
  }

  // On a phone the text grows below the controls: show where, once per run.
  showStart() {
    const starts = state.phase === "waiting" && this.phase !== "waiting";
    this.phase = state.phase;
    if (starts && this.story.parentElement.getBoundingClientRect().top > 0.85 * window.innerHeight) {
      this.story.parentElement.scrollIntoView({ block: "start" });
    }
  }

  reset() {
    this.run = state.run;
    this.prompt.replaceChildren();
    this.tokens.replaceChildren();
    if (!state.setup) return;
    appendText(this.prompt, state.setup.prompt);
    this.story.hidden = false;
    this.hint.hidden = true;
  }

  // Lights up the selected round and, in it, the selected position; once per selection.
  mark() {
    if (this.selected === state.selected) return;
    this.selected = state.selected;
    const group = this.tokens.children[state.selected.round];
    for (const element of this.marked) element.classList.remove("selected", "current");
    const current = group?.querySelector(`.token:not(.rejected)[data-step="${state.selected.step}"]`);
    group?.classList.add("selected");
    current?.classList.add("current");
    this.marked = [group, current].filter(Boolean);
    if (group) this.keepInView(group);
  }

  // Scrolls the story, never the page.
  keepInView(group) {
    const [story, round] = [this.story.getBoundingClientRect(), group.getBoundingClientRect()];
    if (round.bottom > story.bottom) this.story.scrollTop += round.bottom - story.bottom + 12;
    if (round.top < story.top) this.story.scrollTop -= story.top - round.top + 12;
  }
}

export function mountText(element) {
  const view = new TextView(element);
  subscribe(onFrame(() => view.draw()));
  view.tokens.addEventListener("click", (event) => {
    const token = event.target.closest(".token");
    if (token) select(Number(token.dataset.round), Number(token.dataset.step));
  });
  const toggle = element.querySelector(".show-rejected");
  toggle.addEventListener("change", () => {
    view.story.classList.toggle("without-rejected", !toggle.checked);
  });
}
