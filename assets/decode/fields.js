// The fields of a run's settings. They show those of the shown run, and the page names later changes.

import { fieldOf } from "../page/fields.js";
import { CHOICE } from "../page/models.js";
import { decode, onFields, openedWith } from "../page/setup.js";
import { SETTINGS } from "../shared/settings.js";
import { isActive, isBegun, state, subscribe } from "../shared/store.js";
import { onFrame } from "../shared/view.js";

// A change of one of these fields is not reported: tree and conversation follow from other fields, measuring
// plain decoding changes no text, and other models must be loaded first.
const ASIDE = ["tree", "baseline", "history", ...CHOICE];

// The settings of every record of a run. Only recorded runs of this page contain `chat` and `history` too.
const OF_TEXT = SETTINGS.filter(({ name, recorded }) => recorded && !["chat", "history"].includes(name));

let fieldsOfRun = null; // the fields of the run that is shown
let own = null; // the fields of the visitor's own run, while a recorded one is shown
let fieldsOfLast = null; // the fields of the run that was begun last

// A tree in the notation of addresses: the number of children of each node in level order.
function treeText(paths) {
  const sorted = [[], ...paths].sort((a, b) => a.length - b.length);
  const children = (path) =>
    paths.filter((other) => other.length === path.length + 1 && path.every((index, i) => other[i] === index)).length;
  const counts = sorted.map(children);
  return counts.slice(0, counts.findLastIndex((count) => count > 0) + 1).join(".");
}

// The values in the address that describe a run. If its trees changed between rounds, it contains no tree.
export const settingsOf = (setup) => ({
  ...Object.fromEntries(OF_TEXT.map((setting) => [setting.address, setup[setting.name] ?? setting.default])),
  ...(setup.choice
    ? { topology: "auto", tree: "" }
    : { topology: "optimal", k: setup.paths.length || 1, tree: treeText(setup.paths) }), // plain decoding has no tree
});

// Sets the fields to the settings of a recorded run. When the first run is shown, fields that the address has
// set, or that the visitor changed during loading, keep their values. isFirst: whether the page opens with
// this run; then topology and length get their defaults.
export function adopt(setup, isFirst) {
  const values = {
    ...settingsOf(setup),
    ...(isFirst ? { topology: "auto", tree: "", length: fieldOf("live", "length").described.default } : {}),
    history: JSON.stringify(setup.history ?? []),
    chat: setup.chat ?? false,
  };
  if (values.history === "[]") values.history = "";
  // The opening run says nothing about the loaded pair, which may chat although the opening's pair does not.
  if ((isFirst && first) || !document.body.hasAttribute("data-chats")) delete values.chat;
  if (first) for (const name of [...openedWith(Object.keys(values)), ...touched]) delete values[name];
  first = false;
  decode.assign(values, true);
  fieldsOfRun = decode.now();
}
let first = true; // no other run has been chosen yet
const touched = new Set(); // the names of the fields that the visitor has changed

// Restores the fields of the visitor's own run.
export function readopt() {
  if (own) decode.assign(own, false);
  fieldsOfRun = own;
}

export const setFields = (values) => decode.assign(values, false);

function differing(fields) {
  const now = decode.now();
  if (!now || !fields) return [];
  const isSame = (name) => String(now[name] ?? "") === String(fields[name] ?? "");
  return Object.keys(fields).filter((name) => !ASIDE.includes(name) && !isSame(name));
}

// Whether a field was changed after the last run began, so that a message about that run is out of date.
export const isOutOfDate = () => differing(fieldsOfLast).length > 0;

// Whether the shown run was begun on this page and the fields still have its settings.
export const isOfShownRun = () => state.rounds.length > 0 && !state.recorded && differing(fieldsOfRun).length === 0;

export const NOTHING_DECODED = "Stopped before the first token. Press Generate to begin again.";

// The names of the fields whose values differ from the settings of the shown run. Without a draft model the page
// itself chooses copies as the drafter, which is no change of the visitor's.
function changedNames() {
  if (state.rounds.length === 0 || ["waiting", "choosing"].includes(state.phase)) return [];
  const names = differing(fieldsOfRun).filter((name) => name !== "drafter" || touched.has(name));
  const isRefused = state.phase === "error" && !isOutOfDate();
  // The conversation continues.
  const continues = names.join() === "prompt" && state.setup.chat && !state.recorded && !isRefused;
  return continues ? [] : names;
}

// A sentence that names the changed fields, or the invalid ones among them; empty if there are none, or if another message is more important.
export function changedWords() {
  const names = changedNames();
  if (names.length === 0) return "";
  if (!isOutOfDate() && state.phase === "error") return "";
  if (!isOutOfDate() && state.phase === "stopped" && state.early) return NOTHING_DECODED;
  const wrong = names.filter((name) => fieldOf("live", name).mistake);
  if (wrong.length > 0) return `Correct ${wrong.join(", ")} in Settings before you press Generate.`;
  const words = `You changed ${names.join(", ")}`;
  return isActive()
    ? `${words} for the next run.`
    : `${words}. The shown run had the earlier settings. Press Generate for a run with the new ones.`;
}

export function mountFields() {
  document.addEventListener("input", ({ target }) => {
    const field = /** @type {HTMLElement | null} */ (/** @type {Element} */ (target).closest("[data-form=live]"));
    if (field) touched.add(field.dataset.name);
  });
  let { phase, run } = state;
  const draw = onFrame(() => document.body.toggleAttribute("data-changed", changedNames().length > 0));
  subscribe(() => {
    if (state.phase === "waiting" && phase !== "waiting") fieldsOfLast = decode.now();
    if (state.run !== run && isBegun(state.run)) fieldsOfRun = own = fieldsOfLast;
    ({ phase, run } = state);
    draw();
  });
  onFields(() => {
    if (fieldsOfRun === null && state.run !== null) fieldsOfRun = decode.now();
    draw();
  });
}
