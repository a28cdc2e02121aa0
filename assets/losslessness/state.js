// The state of the losslessness check: the current or last check, and earlier ones.

import { observable } from "../shared/observable.js";
import { Live } from "../shared/updates.js";

const MOST_PAST = 30;

const empty = () => ({
  run: null, // id of the check
  phase: "idle", // idle, recorded, waiting, running, done, stopped, error
  message: "",
  place: null, // while waiting: the place in the waiting line, { number, of, seconds }
  setup: null,
  tree: null, // { k, levels }
  tables: null, // probabilities of target and draft, by row
  distribution: [], // probability of each outcome, in counting order
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
const live = new Live(state, apply, notify);
export const { isActive } = live;

// Shows the recorded check: before the visitor's first check, or again for a lesson that is about it.
export function showRecorded(check, isRepeat = false) {
  if (isRepeat && !isActive()) Object.assign(state, empty());
  if (state.run === null) Object.assign(state, check);
  notify();
}

// settings: the parameters of the server's endpoint.
export function begin(settings) {
  last = settings;
  live.begin("check_losslessness", settings);
  const { setup, tree, tables, distribution } = state;
  Object.assign(state, empty(), { phase: "waiting", setup, tree, tables, distribution });
  notify();
}

let last = null;

// Begins the last check again, with its settings.
export const repeat = () => begin(last);

export function stop() {
  if (isActive()) {
    live.stop();
    state.phase = "stopped";
  }
  notify();
}

export function clearPast() {
  state.past = [];
  notify();
}

function apply({ run, rounds, path = [], ...update }) {
  Object.assign(state, update);
  state.path.push(...path);
  if (state.phase !== "done") return;
  const { setup, tree, decodes, chi_square, calls, emitted } = state;
  state.past = [{ setup, tree, decodes, chi_square, calls, emitted }, ...state.past].slice(0, MOST_PAST);
}
