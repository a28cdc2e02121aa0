// The form of a run: what Generate sends, Stop, and which fields the chosen method needs.

import { fieldOf, valuesOf } from "../page/fields.js";
import { onFields } from "../page/setup.js";
import { SETTINGS } from "../shared/settings.js";
import { begin, chosenTree, isExpecting, isWriting, state, stop, subscribe } from "../shared/store.js";
import { conversation } from "./chat.js";
import { setFields } from "./fields.js";

const FORM = "live";
const OF_MODELS = ["pair", "target", "draft", "dtype", "device"]; // the form of the models, in the same part of the address

// The settings of the next run as parameters of the server's endpoint.
function settings() {
  const values = valuesOf(FORM);
  return Object.fromEntries(SETTINGS.map(({ name, address }) => [name, values[address]]));
}

// Says beside the field what the server's message says about it: “top-k = -3 is not …” or “The prompt is too long …”.
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
  if (!prompt) return; // a panel that is served alone

  generate.addEventListener("click", () => {
    const { prompt, history } = valuesOf(FORM);
    setFields({ history: conversation(prompt, history) });
    begin(settings());
  });
  halt.addEventListener("click", stop);
  // A disabled button ignores the click, so that Enter begins nothing while a run is going on.
  prompt.addEventListener("keydown", (event) => {
    const { key, shiftKey, isComposing } = /** @type {KeyboardEvent} */ (event);
    if (key !== "Enter" || shiftKey || isComposing) return;
    event.preventDefault();
    generate.click();
  });
  document.getElementById("dice").addEventListener("click", () => {
    setFields({ seed: Math.floor(Math.random() * 2 ** 31) });
  });

  // A setting that the tree was measured for has changed.
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
