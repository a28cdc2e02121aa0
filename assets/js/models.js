// Which models the server uses, and how far another pair is. Names are what people typed: only ever text.

import { subscribe, state as run } from "./store.js";
import { fillRows, make, setText } from "./view.js";

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

const lines = ({ role, name, dtype, device, capability }) =>
  [role === "target" ? "Target" : "Draft", name, `${dtype} on ${device}; ${CAPABILITY[capability] ?? capability}`];

const views = new Set();

export function receive(text) {
  if (text) for (const view of views) view(JSON.parse(text));
}

function drawProgress(element, state) {
  const box = element.querySelector(".loading");
  const bar = box.querySelector("progress");
  box.hidden = !["loading", "cancelling"].includes(state.status);
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
  const failed = state.status === "failed" ? `${state.title} was not loaded: ${state.message}. The pair in use stays.` : "";
  setText(error, state.refused ?? failed);
  error.hidden = error.textContent === "";
}

export function mountModels(element, props, server, trigger) {
  let known = null;
  views.add((state) => {
    known = JSON.stringify(state.models.map(({ name }) => name));
    draw(element, state);
  });
  receive(props.value); // what was sent before the panel was opened
  // Somebody else loaded another pair: the visitor's own run is the first to tell.
  subscribe(() => {
    if (run.recorded || !run.setup?.models || known === null) return;
    const used = JSON.stringify(run.setup.models.map(({ name }) => name));
    if (used === known) return;
    known = used;
    trigger("submit");
  });
}
