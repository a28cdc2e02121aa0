// The server's models and the progress of a load. Names were typed by people, so they are only inserted as text.

import { state as run, subscribe } from "../shared/store.js";
import { fillRows, make, setText } from "../shared/view.js";

const CAPABILITY = {
  tree: "checks a whole tree of drafts in one evaluation",
  sequence: "checks a single sequence of drafts in one evaluation",
  ar: "can't check drafts: one token after the other",
};
const OUTCOME = {
  ready: ({ title, seconds }) => `${title} is loaded (${seconds.toFixed(0)} s).`,
  cancelled: ({ title }) => `Cancelled: ${title} was not loaded. What was downloaded is kept.`,
  cancelling: () => "Cancelling …",
};

const bytes = (n) => (n >= 1e9 ? `${(n / 1e9).toFixed(2)} GB` : `${(n / 1e6).toFixed(1)} MB`);
const STAGE = {
  asking: ({ name }) => `Asking the hub for ${name}`,
  fetching: ({ name, done, total }) => `Downloading ${name}: ${bytes(done)} of ${bytes(total)}`,
  reading: ({ name, done, total }) => `Reading ${name}${total ? `: ${done} of ${total} weights` : ""}`,
  checking: ({ name }) => `Checking what ${name} can do`,
};

function lines({ role, name, dtype, device, capability, note }) {
  const facts = [`${dtype} on ${device}`, CAPABILITY[capability] ?? capability, ...(note ? [note] : [])];
  return [role === "target" ? "Target" : "Draft", name, facts.join("; ")];
}

const OWN_EVERY = 1000; // milliseconds between two looks at a load that was begun here
const EVERY = 3000; // and at a load that somebody else began
const SPREAD = 1000; // milliseconds over which the watching tabs spread their requests at its end

const isActive = ({ status }) => ["loading", "cancelling"].includes(status);

let state = null; // the latest state from the server
const views = new Set();

/** @type {(news: any) => void} */
let see = () => {};

export function receive(text) {
  if (text) see(JSON.parse(text));
}

function show(news) {
  if (news.status) state = news;
  if (state) for (const view of views) view({ ...state, ...news });
}

function drawProgress(element, state) {
  const box = element.querySelector(".loading");
  const bar = box.querySelector("progress");
  box.hidden = !isActive(state);
  const stage = STAGE[state.stage]?.(state) ?? `Beginning with ${state.title}`;
  setText(box.querySelector(".stage"), `${stage}; ${Math.floor(state.seconds ?? 0)} s`);
  bar.setAttribute("aria-label", stage);
  if (state.total) Object.assign(bar, { max: state.total, value: state.done });
  else bar.removeAttribute("value");
}

function draw(element, state) {
  fillRows(
    element.querySelector(".now"),
    state.models,
    () => {
      const item = make("li");
      item.append(make("b"), " ", make("span", "name"), make("small"));
      return item;
    },
    (item, model) => [...item.children].forEach((child, i) => setText(child, lines(model)[i])),
  );
  drawProgress(element, state);
  setText(element.querySelector(".outcome"), OUTCOME[state.status]?.(state) ?? "");
  const error = element.querySelector(".models-error");
  const failed =
    state.status === "failed" ? `${state.title} was not loaded: ${state.message}. The pair in use stays.` : "";
  setText(error, state.refused ?? failed);
  error.hidden = error.textContent === "";
}

// Asks for the state of a load until it ends, without Gradio's queue, so that watching takes no place in it. Then
// `ended` is called, and Gradio updates its own components.
class Watch {
  constructor(server, draw, ended) {
    this.server = server;
    this.draw = draw;
    this.ended = ended;
    this.timer = 0;
    this.ticket = "";
    document.addEventListener("visibilitychange", () => this.timer && this.later(0));
  }

  see(state) {
    this.ticket = state.ticket ?? this.ticket;
    this.draw(state);
    clearTimeout(this.timer);
    this.timer = 0;
    if (isActive(state) || state.models.length === 0) this.later(this.ticket ? OWN_EVERY : EVERY);
  }

  later(wait) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), wait);
  }

  async look() {
    if (document.hidden) return;
    try {
      const state = await this.server.state({});
      this.see(state);
      if (this.timer === 0) setTimeout(this.ended, this.ticket ? 0 : SPREAD * Math.random());
    } catch {
      this.later(EVERY); // the server is busy or gone, which other parts of the page report
    }
  }

  async cancel(key) {
    const told = await this.server.cancel({ ticket: this.ticket, key });
    if (told.error) this.draw({ refused: told.error });
    else this.see(told);
  }
}

// The part that is always mounted, because no script runs in a closed accordion.
export function mountLoads(element, props, server, trigger) {
  const watch = new Watch(server, show, () => trigger("submit"));
  see = (news) => watch.see(news);
  window.specdec.models = { cancel: (key) => watch.cancel(key) };
  receive(props.value);
  // If somebody else loaded another pair, the visitor's own run is the first to show it. Each run is compared once: an
  // older run may show the pair before.
  let compared = null;
  subscribe(() => {
    if (run.recorded || !run.setup?.models || state === null || run.run === compared) return;
    compared = run.run;
    const used = JSON.stringify(run.setup.models.map(({ name }) => name));
    if (used === JSON.stringify(state.models.map(({ name }) => name))) return;
    state = { ...state, models: run.setup.models };
    trigger("submit");
  });
}

export const onModels = (view) => void views.add(view);

export function mountModels(element) {
  views.add((news) => draw(element, news));
  if (state) draw(element, state);
}
