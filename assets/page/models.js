// The panel of the server's models. It shows the loaded models and the progress while others are loaded.
// People typed the names, so they are inserted as text only.

import { mountFailure } from "../shared/failure.js";
import { LOST, stream } from "../shared/server.js";
import { state as run, subscribe } from "../shared/store.js";
import { fillRows, make, setText } from "../shared/view.js";
import { fieldOf, tellBeside, tellField, valuesOf } from "./fields.js";
import { decode, onFields } from "./setup.js";
import { onTab } from "./tabs.js";

const CAPABILITY = {
  tree: "checks a whole tree of drafts in one evaluation",
  sequence: "checks a single sequence of drafts in one evaluation",
  ar: "can't check drafts: it writes one token after the other",
};
const OUTCOME = {
  asking: () => "Asking the server …",
  loading: ({ title }) => `${title} is being loaded for all visitors. To load another pair, wait for it or cancel it.`,
  ready: ({ title, seconds }) => `${title} is loaded (${seconds.toFixed(0)} s).`,
  cancelled: ({ title }) => `Cancelled: ${title} was not loaded. Downloaded files are kept.`,
  cancelling: () => "Cancelling …",
};

const NO_LONGER = "You chose other models: press “Load and measure”.";
const SAME =
  "The draft is the target itself. Every guess is right, but each costs as much as a call of the target, so nothing is gained.";

const bytes = (n) => (n >= 1e9 ? `${(n / 1e9).toFixed(2)} GB` : `${(n / 1e6).toFixed(1)} MB`);
// A model's name for people. For a folder or file it is the last part of its path.
const isFile = (name) => /^[/.~]|\/.*\/|\.gguf$/.test(name);
const short = (name) => (isFile(name) ? name.split("/").at(-1) : name);

const STAGE = {
  asking: ({ name }) => `Looking up ${short(name)}${isFile(name) ? "" : " on the hub"}`,
  fetching: ({ name, done, total }) => `Downloading ${short(name)}: ${bytes(done)} of ${bytes(total)}`,
  converting: ({ name, done, total }) => `Converting ${short(name)}${total ? `: ${done} of ${total} weights` : ""}`,
  reading: ({ name, done, total }) => `Reading ${short(name)}${total ? `: ${done} of ${total} weights` : ""}`,
  checking: ({ name }) => `Checking what ${short(name)} can do`,
};

function lines({ role, name, numbers, device, capability, note }) {
  const facts = [`${numbers} on ${device}`, CAPABILITY[capability] ?? capability, ...(note ? [note] : [])];
  return [role === "target" ? "Target" : "Draft", short(name), facts.join("; ")];
}

const EVERY = 3000; // milliseconds between two requests for the state of a load that somebody else began

export const isLoadActive = ({ status }) => ["loading", "cancelling"].includes(status);

let state = null; // the latest state from the server
const views = new Set();
export function onModels(view) {
  views.add(view);
  if (state) view(state);
}

export function show(news) {
  if (news.status) state = news;
  if (state) for (const view of views) view({ ...state, ...news });
}

function drawProgress(element, state) {
  const box = element.querySelector(".loading");
  const bar = box.querySelector("progress");
  box.hidden = !isLoadActive(state);
  const stage = STAGE[state.stage]?.(state) ?? `Loading ${state.title}`;
  setText(box.querySelector(".stage"), `${stage}; ${Math.floor(state.seconds ?? 0)} s`);
  bar.setAttribute("aria-label", stage);
  if (state.total) Object.assign(bar, { max: state.total, value: state.done });
  else bar.removeAttribute("value");
}

function draw(element, state, tell) {
  const item = () => make("li", "", make("b"), " ", make("span", "name"), make("small"));
  const write = ({ children }, model) => [...children].forEach((child, i) => setText(child, lines(model)[i]));
  fillRows(element.querySelector(".now"), state.models, item, write);
  drawProgress(element, state);
  setText(element.querySelector(".outcome"), OUTCOME[state.isAsking ? "asking" : state.status]?.(state) ?? "");
  const why = state.message?.replace(/\.$/, "");
  const hasFailed = state.status === "failed" && !state.isAsking;
  tell(state.refused || (hasFailed ? `${state.title} was not loaded: ${why}. The current pair stays in use.` : ""));
}

// Follows the loading of a pair: by a stream if this visitor began it, otherwise by a question every few seconds.
class Watch {
  timer = 0;
  leave = null; // the function that ends the visitor's own load
  refused = ""; // why the server refused what the visitor asked for, until the status changes

  constructor(server) {
    this.server = server;
    document.addEventListener("visibilitychange", () => this.timer && this.later(0));
  }

  see(news) {
    if (news.status !== state?.status && this.refused !== LOST) this.refused = "";
    show({ ...news, isOwn: this.leave !== null, refused: this.refused });
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.leave === null && (isLoadActive(news) || news.models.length === 0)) this.later(EVERY);
  }

  later(wait) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), wait);
  }

  async look() {
    if (document.hidden && this.timer !== 0) return;
    const state = await this.server.state({}).catch(() => ({}));
    if (state.models) this.see(state);
    else this.later(EVERY); // the server is busy or not reachable, which other parts of the page report
  }

  load(choice) {
    if (this.leave !== null) return;
    this.choice = choice;
    tellFields("");
    show({ isAsking: true, refused: "" });
    this.leave = stream("load_pair", choice, {
      update: (text) => this.hear(JSON.parse(text)),
      ended: (message) => {
        this.leave = null;
        if (message) this.hear({ error: message });
        else if (state && isLoadActive(state)) this.later(EVERY);
      },
    });
  }

  async cancel(key) {
    if (this.leave !== null) {
      this.leave();
      this.leave = null;
      return this.look();
    }
    this.hear(await this.server.cancel({ key }).catch(() => ({ error: "The server did not answer. Try again." })));
  }

  // news: the state of the load, or { error }.
  hear(news) {
    this.refused = news.error ?? "";
    if (news.status === "failed") tellFields(news.message, this.choice);
    if (!news.error) return this.see(news);
    tellFields(news.error);
    // Without a connection the page does not know whether a load goes on, until the server answers again.
    show({ ...(news.error === LOST && state ? { ...state, status: "rest" } : {}), refused: news.error });
    this.look(); // the reason may be a load that somebody else began
  }
}

const FORM = "live";
export const CHOICE = ["pair", "target", "draft", "dtype", "device"]; // the fields of the form that chooses the models

// Shows a server's message beside its field. choice: the models of a failed load, whose message names one of them.
function tellFields(message, choice = {}) {
  tellField(FORM, message);
  const role = ["target", "draft"].find((name) => choice[name] && message.includes(`'${choice[name]}'`));
  if (role) tellBeside(fieldOf(FORM, role).element, message);
  const key = document.getElementById("models-key");
  if (key) tellBeside(key, message.startsWith("The key is") ? message : "");
}

// The description of the chosen pair. Computing its memory is slow, so it waits until the panel is visible.
function describe(element, server, own) {
  let last = "";
  return async () => {
    const { pair, device, target, draft } = valuesOf(FORM);
    if (pair === undefined) return; // the server's models are fixed
    for (const name of ["target", "draft"]) fieldOf(FORM, name).element.hidden = pair !== own;
    setText(fieldOf(FORM, "draft").element.querySelector(".info"), target && target === draft ? SAME : "");
    if (!element.checkVisibility() || last === `${pair} ${device}`) return;
    last = `${pair} ${device}`;
    const { words, load, error } = await server.about({ pair, device }).catch(() => ({}));
    setText(fieldOf(FORM, "pair").element.querySelector(".info"), words ?? error ?? "");
    if (load) setText(document.getElementById("load-models"), load);
  };
}

// Calls `look`, which asks the server for its models, if a run of this visitor was decoded by other models than the
// page knows: somebody else has loaded them. Each run is compared once, because an older run may have had another pair.
export function mountComparison(look) {
  let compared = null;
  subscribe(() => {
    if (run.recorded || !run.setup?.models || state === null || run.run === compared) return;
    compared = run.run;
    const names = JSON.stringify(run.setup.models.map(({ name }) => name));
    if (names !== JSON.stringify(state.models.map(({ name }) => name))) look();
  });
}

// "Pair to load" follows the loaded pair until the visitor chooses another one.
function followLoaded({ pair }) {
  const field = fieldOf(FORM, "pair");
  if (!field?.described.choices.includes(pair)) return;
  followed ??= field.described.default;
  if (pair !== followed && field.value === followed) decode.assign({ pair }, false);
  followed = pair;
}
let followed = null; // the pair that was loaded before

// For a pair without a draft model, the guesses are copied from the text.
function follow(models) {
  const { drafter } = valuesOf(FORM);
  const [from, to] = models.length === 1 ? ["model", "copies"] : ["copies", "model"];
  if (models.length > 0 && drafter === from && models.length !== lastCount) decode.assign({ drafter: to }, false);
  lastCount = models.length || lastCount;
}
let lastCount = 2; // names of models

// props.own: the entry of the menu of pairs with which a visitor names models.
export function mountModels(element, { own }, server) {
  const watch = new Watch(server);
  const find = (selector) => element.querySelector(selector);
  const tell = mountFailure(find(".models-error"), "Load again", () => watch.load(watch.choice));
  const key = () => find("#models-key input")?.value ?? "";
  find("#models-key")?.addEventListener("input", ({ currentTarget }) => tellBeside(currentTarget, ""));
  const describeChoice = describe(element, server, own);
  onFields(describeChoice);
  onTab(() => {
    describeChoice();
    if (element.checkVisibility()) watch.look();
  });
  element.addEventListener("input", () => {
    if (!state || !isLoadActive(state)) setText(find(".outcome"), NO_LONGER);
  });
  find("#pair select")?.addEventListener("change", ({ target }) => {
    describeChoice();
    if (target.value === own) find("#target input").focus();
  });
  element.addEventListener("keydown", ({ key, target }) => {
    if (key === "Enter" && target.matches("#target input, #draft input")) find("#load-models").click();
  });
  find("#load-models")?.addEventListener("click", () => {
    const values = valuesOf(FORM);
    watch.load({ ...Object.fromEntries(CHOICE.map((name) => [name, values[name]])), key: key() });
  });
  find("#cancel-load")?.addEventListener("click", () => {
    watch.cancel(key());
  });
  onModels((news) => {
    draw(element, news, tell);
    const chat = document.getElementById("chat");
    if (chat) chat.hidden = !news.chats;
    follow(news.models);
    followLoaded(news);
    if (find("#load-models")) find("#load-models").disabled = isLoadActive(news) || Boolean(news.isAsking);
    if (find("#cancel-load")) find("#cancel-load").disabled = news.status !== "loading";
  });
  watch.look();
  mountComparison(() => watch.look());
}
