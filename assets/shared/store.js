// The page's store. It holds the shown run, live or recorded, and the place in the run that is selected.
// Views read it and listen for changes. A place is a round and a decision in that round (decisions.js).

/** @import { Decision, Lit, Round, State } from "../types.d.ts" */

import { decisions, emission } from "./decisions.js";
import { observable } from "./observable.js";
import { Live } from "./updates.js";

/** @returns {State} */
const empty = () => ({
  run: null, // id of the run
  phase: "idle", // idle, waiting, choosing, running, baseline, done, stopped, error
  place: null, // while waiting, the place in the waiting line: { number, of, seconds }
  early: false, // whether Stop was pressed before the run had begun
  message: "",
  setup: null,
  rounds: [],
  baseline: [], // rounds of plain decoding, and the times of both in all repeats
  timings: [],
  prefillSeconds: 0,
  recorded: null, // the description of a loaded run: name, title, look, round, step, twin
  selected: { round: -1, step: 0 },
  decision: -1, // the selected decision of the selected round
  veiled: false, // whether everything after the selected decision is hidden
  follow: true, // whether the selection moves to each new round
});

export const state = empty();
const changes = observable();
const live = new Live(state, apply, notify, null, open);
const active = live.isActive;
// Applies an update from the server, a JSON text, to the run that the visitor began.
export function receive(text) {
  if (live.run) live.receive(text);
}

// Shows a run from a list of all its updates, as if the visitor had begun it on this page.
export function receiveAll(updates) {
  live.run = `given ${(numRuns += 1)}`;
  Object.assign(state, { phase: "waiting", place: null, early: false, message: "" });
  notify();
  updates.forEach(receive);
}
let numRuns = 0;
let parked = null; // the visitor's last run while a recorded one is shown

export function subscribe(listener) {
  changes.subscribe(listener);
  listener(state);
}

function notify() {
  changes.notify(state);
}

// The visitor pressed Generate: begins a run with these settings, the parameters of the endpoint. The model
// may still be busy with another visitor's run.
export function begin(settings) {
  live.begin("decode", settings);
  Object.assign(state, { phase: "waiting", place: null, early: false, message: "" });
  notify();
}

// What stays when a recorded run is shown: a run that waits for the model continues to wait.
const pending = () => (state.phase === "waiting" ? { phase: "waiting", place: state.place } : {});

// The visitor pressed Stop. The shown rounds stay; while times are measured, the text is complete.
export function stop() {
  if (active()) {
    live.stop();
    const isComplete = state.phase === "baseline";
    const early = ["waiting", "choosing"].includes(state.phase);
    Object.assign(state, { early, phase: isComplete ? "done" : "stopped" });
    if (isComplete && state.follow) selectPlace();
  }
  notify();
}

// Replaces the shown run by the new one. A refused run, say with a number out of range, replaces nothing.
function open({ run, phase, message }) {
  if (phase === "error") {
    Object.assign(state, { phase, place: null, message });
    return false;
  }
  parked = null;
  Object.assign(state, empty(), { run, phase: "waiting" });
}

function apply(update) {
  if (update.setup) state.setup = update.setup;
  if (update.prefill_seconds !== undefined) state.prefillSeconds = update.prefill_seconds;
  if (update.message) state.message = update.message;
  if (update.timings) state.timings = update.timings;
  const target = update.phase === "baseline" ? state.baseline : state.rounds;
  target.push(...update.rounds);
  state.phase = update.phase;
  if (state.follow && target === state.rounds && update.rounds.length > 0) selectLatest();
  if (state.follow && state.phase === "done") selectPlace();
}

function selectLatest() {
  const round = state.rounds.length - 1;
  place(round, lastDecision(round));
}

// Selects the place at which a finished run is shown. A recorded run names its most instructive place. Other
// runs are shown at the last round with a tree of full size, because near the end of a text trees are cut,
// and an accepted end of the text is invisible.
function selectPlace() {
  const { recorded, rounds } = state;
  state.veiled = false;
  if (recorded?.round !== undefined) return place(recorded.round, emission(decisionsOf(recorded.round), recorded.step));
  const drafted = rounds.map(({ nodes, finish }, i) => (finish === "eos" && i > 0 ? 0 : nodes.length));
  const most = Math.max(...drafted);
  const round = most > 0 ? drafted.lastIndexOf(most) : rounds.length - 1;
  place(round, lastDecision(round));
}

// Shows the whole run at this place, and follows further rounds.
export function showAll() {
  toEnd();
  if (active() || state.rounds.length === 0) return;
  selectPlace();
  notify();
}

// Shows the whole run at its last round, and follows further rounds.
export function toEnd() {
  if (state.rounds.length === 0) return;
  selectLatest();
  Object.assign(state, { veiled: false, follow: true });
  notify();
}

/** @param {number} round @returns {Decision[]} */
export const decisionsOf = (round) => decisions(state.rounds[round], state.setup?.method);
export const lastDecision = (round) => decisionsOf(round).length - 1;

function place(round, decision) {
  state.selected = { round, step: decisionsOf(round)[decision].step };
  state.decision = decision;
}

// Selects a round and one of its positions (default: the last one) to look at a token. Nothing is hidden.
/** @param {number} round @param {number} [step] */
export function select(round, step) {
  if (state.rounds.length === 0) return;
  const clamped = Math.min(Math.max(round, 0), state.rounds.length - 1);
  const last = state.rounds[clamped].tokens.length - 1;
  place(clamped, emission(decisionsOf(clamped), Math.min(step ?? last, last)));
  state.veiled = false;
  state.follow = clamped === state.rounds.length - 1 && step === undefined;
  notify();
}

// Selects a decision and hides everything after it, to move through time.
/** @param {number} round @param {number} [decision] */
export function seek(round, decision = Infinity) {
  if (state.rounds.length === 0) return;
  const clamped = Math.min(Math.max(round, 0), state.rounds.length - 1);
  place(clamped, Math.min(Math.max(decision, 0), lastDecision(clamped)));
  state.follow = atEnd() && !active();
  state.veiled = !atEnd() || active();
  notify();
}

export const atEnd = () =>
  state.selected.round === state.rounds.length - 1 && state.decision === lastDecision(state.selected.round);

// Moves by one decision, forwards (1) or back (-1), across rounds.
/** @param {1 | -1} step */
export function moveDecision(step) {
  const { round } = state.selected;
  const decision = state.decision + step;
  if (round < 0) return;
  if (decision < 0) {
    if (round > 0) seek(round - 1);
  } else if (decision > lastDecision(round)) {
    if (round < state.rounds.length - 1) seek(round + 1, 0);
  } else seek(round, decision);
}

// Moves to the end of this round or of the next one (1), or to the end of the previous one (-1).
/** @param {1 | -1} step */
export function moveRound(step) {
  const { round } = state.selected;
  if (round < 0) return;
  const inside = step > 0 && state.decision < lastDecision(round);
  if (step < 0 && round === 0) seek(0, 0);
  else seek(inside ? round : round + step);
}

// The complete rounds up to the selected decision. Numbers must not reveal text that is still hidden.
export function shownRounds() {
  if (!state.veiled) return state.rounds.length;
  const { round } = state.selected;
  return round + Number(state.decision === lastDecision(round));
}

/** @returns {Round | undefined} */
export const selectedRound = () => state.rounds[state.selected.round];
/** @returns {Decision | undefined} */
export const selectedDecision = () =>
  state.decision < 0 ? undefined : decisionsOf(state.selected.round)[state.decision];

// Shows a complete run, at first with nothing visible; `entry` describes it.
export function show(run, entry) {
  if (!parked && state.run !== null && !state.recorded) parked = { ...state, ...(active() ? { phase: "idle" } : {}) };
  Object.assign(state, empty(), pending(), run, { run: `recorded ${(numRecorded += 1)}`, recorded: entry });
  seek(0, 0);
}
let numRecorded = 0;

// Restores the visitor's own run after a reload.
export function restore(run) {
  Object.assign(state, empty(), run, { run: "kept" });
  selectPlace();
  notify();
}

// Returns to the visitor's own run.
export function unpark() {
  if (parked) Object.assign(state, parked, pending());
  parked = null;
  notify();
}

// The settings of the run that the visitor began last.
export const lastSetup = () => (parked ?? state).setup;

// Whether this is the run that the visitor began last.
export const isBegun = (run) => run === live.run;

export const hasParked = () => parked !== null;
// Whether the model is working for this visitor. A waiting visitor can still play recorded runs.
export const isActive = () => active() && state.phase !== "waiting";
// Whether the visitor has begun a run whose result the server has not sent completely.
export const isExpecting = () => active();
// Whether an answer is still being written. A complete text is finished, even while plain decoding is timed.
export const isWriting = () => active() && state.phase !== "baseline";

// The highlighted place, shared by all panels: {round, path, step, token_id, index, kind}, or null.
const lights = observable();
let lit = null;

/** @param {Lit | null} mark */
export function light(mark) {
  if (lit === mark) return;
  lit = mark;
  lights.notify(lit);
}

export const litNow = () => lit;
export const onLight = lights.subscribe;
