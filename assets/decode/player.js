// Plays a run, and moves through it by keys. A play is a list of acts: a moment, which a sentence explains, or a clock,
// which shows the run and plain decoding at their measured speeds.

import { observable } from "../shared/observable.js";
import { durations, isMeasured } from "../shared/speed.js";
import * as store from "../shared/store.js";
import { sum } from "../shared/totals.js";

const { state } = store;

// The focused element gets the keys if it uses them itself.
const USES_KEYS =
  "input, textarea, select, [contenteditable], [role=slider], [role=listbox], [role=radio], [role=tab], [role=dialog]";
const USES_SPACE = "button, summary, a, label, [role=button]";

/** @typedef {{ move: () => void, words: string, seconds: number }} Moment */
/** @typedef {{ seconds?: number, words?: string | (() => string), again?: boolean, begin?: () => void }} Clock */

const changes = observable();
let run = null; // the run that is being played, or null
let acts = []; // the remaining acts
let words = () => ""; // the sentence for the current moment
let atRest = () => {}; // called when the play reaches its end
let timer = 0;
let frame = 0; // another variable than `timer`, because a timer's number may equal that of another view's frame
// { passed, rate, last }. passed: how far the play is, in seconds of the measured run; rate: these seconds
// per second of real time; last: the time of the last frame.
let clock = null;
let pace = ""; // the speed of playing that the visitor chose, a name of PACES

// perSecond: how many units pass in a second; a unit is a decision, a round, or a second of the measured run.
const PACES = {
  real: { unit: "second", perSecond: 1 },
  decision: { unit: "decision", perSecond: 1.25 },
  calm: { unit: "round", perSecond: 2.5 },
  fast: { unit: "round", perSecond: 5 },
  fastest: { unit: "round", perSecond: 10 },
};
const TOO_FAST = "stories/target"; // the model of the story pair, which is too fast to follow in real time
export const isReal = () => state.setup?.models.every(({ name }) => name !== TOO_FAST) ?? true;

// The name of the present speed. By default a run plays in real time if that is slow enough to follow.
export const paceNow = () => pace || (isReal() ? "real" : "calm");

export const isPlaying = () => run !== null;
export const narration = () => words();
export const onPlayer = changes.subscribe;
// How far the clock is, in seconds of the measured run; null while no clock runs.
export const secondsPlayed = () => clock?.passed ?? null;
// The factor by which the clock is slower than the measured run.
export const slowness = () => (clock ? 1 / clock.rate : 1);

const tell = () => changes.notify();

// The end of each round of the run, and the duration of plain decoding so far, in measured seconds.
function timeline() {
  const { run: rounds, plain } = durations(state);
  let end = 0;
  return { ends: rounds.map((seconds) => (end += seconds)), plain: sum(plain) };
}

/** @param {Moment | Clock} act */
function begin(act) {
  if ("move" in act) {
    clock = null;
    act.move();
    words = () => act.words;
    timer = setTimeout(next, 1000 * act.seconds);
    return tell();
  }
  const { words: said = "" } = act;
  act.begin?.();
  words = typeof said === "function" ? said : () => said;
  const { ends, plain } = timeline();
  const total = Math.max(ends.at(-1), plain);
  if (act.again && state.baseline.length === 0) return next();
  const { unit, perSecond } = PACES[paceNow()];
  const inRounds = (ends.at(-1) * perSecond) / ends.length;
  const rate = unit === "second" ? perSecond : act.seconds ? total / act.seconds : inRounds;
  const { round } = state.selected;
  const from = state.veiled && !act.again ? (ends[round - Number(!isWhole())] ?? 0) : 0;
  clock = { passed: from, rate, last: performance.now() };
  if (from === 0) store.seek(0, 0);
  step();
}

const isWhole = () => state.decision === store.lastDecision(state.selected.round);

function next() {
  const act = acts.shift();
  if (act) begin(act);
  else finish();
}

function finish() {
  const onRest = atRest;
  pause();
  store.showAll();
  onRest();
}

// Advances by one frame of the clock, or by one decision if each decision is shown.
function step() {
  if (state.run !== run) return pause();
  const { unit, perSecond } = PACES[paceNow()];
  if (unit === "decision") {
    if (store.atEnd() && !store.isActive()) return next();
    store.moveDecision(1);
    timer = setTimeout(step, 1000 / perSecond);
    return tell();
  }
  const now = performance.now();
  const { ends, plain } = timeline();
  const time = clock.passed + Math.min((now - clock.last) / 1000, 0.1) * clock.rate;
  clock.last = now;
  clock.passed = Math.min(time, Math.max(ends.at(-1), isMeasured(state) ? plain : 0));
  const upcoming = ends.findIndex((end) => end > clock.passed + 1e-9);
  const last = (upcoming < 0 ? ends.length : upcoming) - 1;
  if (last >= 0 && (last !== state.selected.round || !isWhole())) store.seek(last);
  tell();
  if (time > clock.passed && (!store.isActive() || isMeasured(state))) return next();
  frame = requestAnimationFrame(step);
}

// Sets the speed of playing by its name.
export function setPace(newPace) {
  pace = newPace;
  if (isPlaying()) play();
}

// Plays from the current position, or from the start if it is the end. onRest: called at the end, unless stopped.
/** @param {(Moment | Clock)[]} newActs */
export function play(newActs = [{}], onRest = () => {}) {
  if (state.rounds.length === 0) return;
  halt();
  if (store.atEnd() || state.follow || !state.veiled) store.seek(0, 0);
  [run, acts, atRest] = [state.run, [...newActs], onRest];
  next();
  tell();
}

function halt() {
  clearTimeout(timer);
  cancelAnimationFrame(frame);
  clock = null;
}

export function pause() {
  halt();
  [run, acts, words] = [null, [], () => ""];
  tell();
}

// Jumps to the end of the play.
export function skip() {
  if (isPlaying()) finish();
}

// Stops the clock when the visitor moves through the run by hand.
export const manually = (move) => {
  if (isPlaying()) pause();
  move();
};

const KEYS = {
  ArrowLeft: (shift) => (shift ? store.moveRound(-1) : store.moveDecision(-1)),
  ArrowRight: (shift) => (shift ? store.moveRound(1) : store.moveDecision(1)),
  Home: () => store.seek(0, 0),
  End: store.toEnd,
};

function onKey(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
  const within = (selector) => event.target.closest?.(selector);
  if (state.rounds.length === 0 || within(USES_KEYS) || !onScreen()) return;
  if (event.key === " ") {
    if (within(USES_SPACE)) return;
    event.preventDefault();
    if (isPlaying()) pause();
    else play();
    return;
  }
  const move = KEYS[event.key];
  if (!move) return;
  event.preventDefault();
  manually(() => move(event.shiftKey));
}

// Keys are ignored while another tab is open.
const onScreen = () => document.getElementById("stepper")?.offsetParent !== null;

// A press on one of these parts pauses the play, because the visitor wants to look at the part.
const TOUCHED = ".story, .figure, .steps, .calls, #stepper input";

export function mountKeys() {
  document.addEventListener("keydown", onKey);
  document.addEventListener("pointerdown", ({ target }) => {
    if (isPlaying() && /** @type {Element} */ (target).closest(TOUCHED)) pause();
  });
  store.subscribe(() => {
    if (isPlaying() && (state.run !== run || (state.recorded && store.isActive()))) pause();
  });
}
