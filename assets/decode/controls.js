// The form of a run: it begins and stops runs, and disables the fields that the run would not use.

import { fieldOf, tellField, valuesOf } from "../page/fields.js";
import { CHOICE } from "../page/models.js";
import { onFields } from "../page/setup.js";
import { SETTINGS } from "../shared/settings.js";
import { begin, isExpecting, isWriting, lastSetup, state, stop, subscribe } from "../shared/store.js";
import { conversation } from "./chat.js";
import { isOfShownRun, setFields } from "./fields.js";

const FORM = "live";

// The settings of the next run as parameters of the server's endpoint.
function settings() {
  const values = valuesOf(FORM);
  return Object.fromEntries(SETTINGS.map(({ name, address }) => [name, values[address]]));
}

// Whether a run with these values, by the names of the settings, uses a setting.
const isUsed = ({ unless }, values) =>
  !Object.entries(unless).some(([name, exceptions]) => exceptions.includes(values[name]));

// The fields by their names in the server's messages. A prompt in the chat template is called a question.
const NAMES = { question: "prompt", ...Object.fromEntries(SETTINGS.map(({ name, address }) => [name, address])) };

// Returns the function that begins the run again after a lost connection.
export function mountControls() {
  const button = (id) => /** @type {HTMLButtonElement} */ (document.getElementById(id));
  const [generate, halt] = [button("generate"), button("stop")];
  const prompt = document.querySelector("#prompt textarea");
  if (!prompt) return; // the panel may be served alone

  generate.addEventListener("click", () => {
    const { prompt, history } = valuesOf(FORM);
    setFields({ history: conversation(prompt, history) });
    begin(settings());
  });
  halt.addEventListener("click", stop);
  // Decodes the shown run once more with its own settings and seed. changes: fields that get other values.
  const repeat = (changes) => {
    const { setup } = state;
    const inUse = SETTINGS.filter((setting) => isUsed(setting, setup));
    const values = Object.fromEntries(inUse.map(({ name, address }) => [address, setup[name]]));
    setFields({ ...values, history: setup.history.length > 0 ? JSON.stringify(setup.history) : "", ...changes });
    begin(settings());
  };
  document.querySelector("#result .measure")?.addEventListener("click", () => repeat({ baseline: true }));
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

  // Removes the measured tree when a setting on which it depends changes.
  document.addEventListener("input", ({ target }) => {
    const field = /** @type {HTMLElement | null} */ (/** @type {Element} */ (target).closest("[data-form]"));
    const { form, name } = field?.dataset ?? {};
    const shapes = CHOICE.includes(name) || SETTINGS.some((setting) => setting.address === name && setting.shapes);
    if (form === FORM && shapes) setFields({ tree: "" });
  });
  onFields(() => {
    const current = settings();
    for (const setting of SETTINGS) fieldOf(FORM, setting.address).isDisabled = !isUsed(setting, current);
  });

  let { phase } = state;
  subscribe(() => {
    [generate.disabled, halt.disabled] = [isWriting(), !isExpecting()];
    if (state.phase === phase) return;
    phase = state.phase;
    tellField(FORM, phase === "error" ? state.message : "", NAMES);
    if (phase !== "done" && phase !== "stopped") return;
    const [current, setup] = [settings(), lastSetup()];
    // the tree was measured for the settings of the run, which may have been changed since
    const isSame = (setting) => !isUsed(setting, setup) || setup[setting.name] === current[setting.name];
    if (setup?.tree && SETTINGS.filter(({ shapes }) => shapes).every(isSame)) setFields({ tree: setup.tree });
  });
  return () => (isOfShownRun() ? repeat({}) : generate.click());
}
