// The state of the comparison: the chosen columns and their runs. The run of autoregressive decoding is the reference.

import { observable } from "../shared/observable.js";
import { Totals } from "../shared/totals.js";
import { Live } from "../shared/updates.js";

export const REFERENCE = "reference";

const FRESH = { run: null, message: "", place: null };

export const state = {
  ...FRESH,
  // place: the place in the waiting line, { number, of, seconds }; run: as in updates.js
  phase: "idle", // idle, recorded, waiting, running, stopped, done, error
  setup: null, // seed and models
  shared: null, // the settings that all columns share
  prompt: "", // the prompt of the shown texts; Run may have another one for the pair that is loaded now
  columns: [], // { id, method, topology, k, draft }, as the visitor chose them
  lanes: new Map(), // the runs, by a column's id
};

export const { subscribe, notify } = observable();
const live = new Live(state, apply, notify, (message) => {
  state.message = message;
  end("error");
});
export const { isActive } = live;

// asked: the settings of the column. before: the column's run before its settings were changed.
const newLane = (asked, before) => ({ asked, before, phase: "waiting", message: "", tree: null, ...nothing() });
const nothing = () => ({ rounds: [], tokens: [], totals: new Totals() });

// The run that a column shows. Columns of autoregressive decoding show the reference run.
export const laneOf = (column) => state.lanes.get(column.method === "ar" ? REFERENCE : column.id);
export const reference = () => state.lanes.get(REFERENCE);

// The columns whose settings were changed after their run. keyOf(column): the column's settings as text.
export function stale(keyOf) {
  return state.columns.filter((column) => column.method !== "ar" && laneOf(column)?.asked !== keyOf(column));
}

// Shows a record { shared, models, lanes: by columns' settings } while there is no run. next: Run decodes this prompt.
export function showRecorded({ shared, models, lanes }, next, keyOf) {
  if (state.phase !== "idle") return;
  const decoded = (name, asked) => {
    const { tree, rounds } = lanes[name];
    const tokens = rounds.flatMap((round) => round.tokens);
    return { ...newLane(asked, null), tree, rounds, tokens, totals: new Totals().addAll(rounds), phase: "finished" };
  };
  for (const column of state.columns)
    if (column.method !== "ar") state.lanes.set(column.id, decoded(keyOf(column), keyOf(column)));
  state.lanes.set(REFERENCE, decoded(REFERENCE, "ar"));
  const { prompt, seed } = shared;
  Object.assign(state, { phase: "recorded", shared: { ...shared, prompt: next }, prompt, setup: { seed, models } });
  notify();
}

export function forgetRecorded() {
  if (state.phase !== "recorded") return;
  state.lanes.clear();
  Object.assign(state, { phase: "idle", shared: null, setup: null });
  notify();
}

// Begins to run columns, after the reference if it is not known yet. request: the request to the server.
export function begin(shared, columns, keyOf, anew, request) {
  if (anew) {
    state.lanes.clear();
    state.setup = null;
  }
  for (const column of columns) {
    const old = state.lanes.get(column.id);
    state.lanes.set(column.id, newLane(keyOf(column), old?.phase === "finished" ? old : null));
    if (old) old.before = null; // only one earlier run of a column is remembered
  }
  if (anew) state.lanes.set(REFERENCE, newLane("ar", null));
  live.begin("compare", { asked: request });
  Object.assign(state, FRESH, { phase: "waiting", shared, prompt: shared.prompt });
  notify();
}

export function stop() {
  if (isActive()) {
    live.stop();
    end("stopped");
  }
  notify();
}

function end(phase) {
  state.phase = phase;
  for (const lane of state.lanes.values()) if (!["finished", "failed"].includes(lane.phase)) lane.phase = "stopped";
}

function apply(update) {
  state.place = null;
  if (update.setup) state.setup = update.setup;
  if (update.setup) state.shared.seed ??= update.setup.seed; // the seed was drawn if the field was empty
  if (update.column) applyTo(state.lanes.get(update.column), update);
  else if (["done", "error"].includes(update.phase)) {
    state.message = update.message ?? "";
    end(update.phase);
  } else state.phase = "running";
}

function applyTo(lane, { phase, message = "", tree, rounds }) {
  if (!lane) return;
  Object.assign(lane, { phase, message, tree: tree ?? lane.tree });
  lane.rounds.push(...rounds);
  lane.tokens.push(...rounds.flatMap(({ tokens }) => tokens));
  lane.totals.addAll(lane.rounds);
  if (rounds.at(-1)?.finish) lane.phase = "finished";
}
