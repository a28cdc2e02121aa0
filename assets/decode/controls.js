// The form of a run: it sends the values of Generate, stops a run, and hides fields that the chosen method
// does not need.

import { fieldOf, valuesOf } from "../page/fields.js";
import { onFields } from "../page/setup.js";
import { SETTINGS } from "../shared/settings.js";
import { begin, chosenTree, isExpecting, isWriting, state, stop, subscribe } from "../shared/store.js";
import { conversation } from "./chat.js";
import { setFields } from "./fields.js";

const FORM = "live";
// The form of the models, whose names belong to the same part of the address.
const OF_MODELS = ["pair", "target", "draft", "dtype", "device"];

// The settings of the next run as parameters of the server's endpoint.
function settings() {
  const values = valuesOf(FORM);
  return Object.fromEntries(SETTINGS.map(({ name, address }) => [name, values[address]]));
}

// Shows a message of the server beside the field that it is about: “top-k = -3 is not …” or “The prompt is
// too long …”.
function tellField(message) {
  const about = (name) => message.startsWith(`${name} `) || message.startsWith(`The ${name} `);
  const setting = SETTINGS.find(({ name, address }) => about(name) || about(address));
  if (setting) fieldOf(FORM, setting.address)?.tell(message);
}

// measuredFor: the fields that a measured tree depends on. withoutK: the topologies that have no k.
export function mountControls({ measuredFor, withoutK }) {
  const generate = /** @type {HTMLButtonElement} */ (document.getElementById("generate"));
  const halt = /** @type {HTMLButtonElement} */ (document.getElementById("stop"));
  const prompt = document.querySelector("#prompt textarea");
  if (!prompt) return; // the panel may be served alone

  generate.addEventListener("click", () => {
    const { prompt, history } = valuesOf(FORM);
    setFields({ history: conversation(prompt, history) });
    begin(settings());
  });
  halt.addEventListener("click", stop);
  // "Measure again" decodes the shown run once more with its own settings, and plain decoding too.
  document.querySelector("#result .measure")?.addEventListener("click", () => {
    const { setup } = state;
    const used = SETTINGS.filter(({ name }) => name !== "k" || !withoutK.includes(setup.topology));
    const values = Object.fromEntries(used.map(({ name, address }) => [address, setup[name]]));
    setFields({ ...values, history: setup.history.length > 0 ? JSON.stringify(setup.history) : "", baseline: true });
    begin(settings());
  });
  // A disabled button ignores the click. So Enter begins nothing during a run.
  prompt.addEventListener("keydown", (event) => {
    const { key, shiftKey, isComposing } = /** @type {KeyboardEvent} */ (event);
    if (key !== "Enter" || shiftKey || isComposing) return;
    event.preventDefault();
    generate.click();
  });
  document.getElementById("dice").addEventListener("click", () => {
    setFields({ seed: Math.floor(Math.random() * 2 ** 31) });
  });

  // A setting on which the measured tree depends has changed.
  document.addEventListener("input", ({ target }) => {
    const field = /** @type {HTMLElement | null} */ (/** @type {Element} */ (target).closest("[data-form]"));
    const { form, name } = field?.dataset ?? {};
    if (form === FORM && [...measuredFor, ...OF_MODELS].includes(name)) setFields({ tree: "" });
  });
  onFields(() => {
    const { method, topology } = valuesOf(FORM);
    fieldOf(FORM, "topology").isDisabled = method === "ar";
    fieldOf(FORM, "k").isDisabled = method === "ar" || withoutK.includes(topology);
  });

  let { phase } = state;
  subscribe(() => {
    [generate.disabled, halt.disabled] = [isWriting(), !isExpecting()];
    if (state.phase === phase) return;
    phase = state.phase;
    if (phase === "error") tellField(state.message);
    if (phase !== "done" && phase !== "stopped") return;
    const asked = settings();
    const names = SETTINGS.filter(({ address }) => measuredFor.includes(address)).map(({ name }) => name);
    const tree = chosenTree(
      asked.tree,
      names,
      names.map((name) => asked[name]),
      withoutK,
    );
    if (tree !== asked.tree) setFields({ tree });
  });
}
