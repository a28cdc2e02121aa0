// The state of the losslessness check: the current or last check, and earlier ones.

import { observable } from "../shared/observable.js";
import { Updates } from "../shared/updates.js";

const MOST_PAST = 30;

const empty = () => ({
  run: null, // id of the check
  seq: 0, // number of the next update
  phase: "idle", // idle, recorded, waiting, running, done, stopped, error
  message: "",
  place: null, // while waiting: { number, of, seconds }, the place in line
  setup: null,
  tree: null, // { k, levels }
  tables: null, // probabilities of target and draft, by row
  law: [], // probability of each outcome, in counting order
  counts: [],
  path: [], // [decodes, p-value]
  decodes: 0,
  chi_square: [0, 0, 1], // statistic, degrees of freedom, p-value
  calls: 0,
  emitted: 0,
  accepting: 0,
});

export const state = { ...empty(), past: [] };
export const { subscribe, notify } = observable();
const updates = new Updates(state, apply, notify);
let gone = null; // id of the check before

export const isActive = () => ["waiting", "running"].includes(state.phase);

// Shows a recorded check before the visitor's first one.
export function showRecorded(check) {
  if (state.run === null) Object.assign(state, check);
  notify();
}

export function begin() {
  gone = state.run;
  const { setup, tree, tables, law } = state;
  Object.assign(state, empty(), { phase: "waiting", setup, tree, tables, law });
  updates.forget();
  notify();
}

export function stop() {
  if (isActive()) state.phase = "stopped";
  notify();
}

// The server has ended the stream. If the last update is missing, the visitor gets a message.
export const ended = () =>
  updates.ended(isActive, () =>
    breakOff("The check broke off: the server refused it or the connection was lost. Try again."),
  );

// Ends the check with a message. The updates so far stay.
export function breakOff(message) {
  Object.assign(state, { phase: "error", message });
  notify();
}

export function clearPast() {
  state.past = [];
  notify();
}

// Takes one update (JSON text); updates of a check that was stopped are ignored.
export function receive(text, server) {
  if (!text || !isActive()) return;
  const update = JSON.parse(text);
  if (update.place) return waits(update.place);
  if (update.run !== gone) state.run ??= update.run;
  if (update.run !== state.run) return;
  updates.take(update, server);
  notify();
}

// The place in line; such updates have no number.
function waits(place) {
  if (state.phase === "waiting") state.place = place;
  notify();
}

function apply({ run, seq, rounds, path = [], ...update }) {
  Object.assign(state, update);
  state.path.push(...path);
  if (state.phase !== "done") return;
  const { setup, tree, decodes, chi_square, calls, emitted } = state;
  state.past = [{ setup, tree, decodes, chi_square, calls, emitted }, ...state.past].slice(0, MOST_PAST);
}
