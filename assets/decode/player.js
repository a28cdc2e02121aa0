// The clock that plays a run, and the keys that move through it.

import { atEnd, isActive, lastDecision, moveDecision, moveRound, seek, state, subscribe } from "../shared/store.js";
import { decodingSeconds } from "../shared/totals.js";

// Keys belong to whatever has the focus if it uses them itself.
const USES_KEYS =
  "input, textarea, select, [contenteditable], [role=slider], [role=listbox], [role=radio], [role=tab], [role=dialog]";
const USES_SPACE = "button, summary, a, label, [role=button]";

const listeners = new Set();
let timer = null;
let run = null;
let begun = 0; // when the clock began to wait for the next move
let script = []; // moments to be held before the clock goes on by itself
let words = ""; // what is said of the moment that is held
let ended = () => {}; // called when it has played to the end
let pace = { unit: "round", perSecond: 2.5 };

export const isPlaying = () => timer !== null;
export const narration = () => words;
export const onPlayer = (listener) => listeners.add(listener);

function tell() {
  for (const listener of listeners) listener();
}

function tick() {
  if (state.run !== run) return pause();
  if (script.length > 0) return hold(script.shift());
  if (words) say("");
  if (atEnd()) {
    pause();
    return ended();
  }
  if (pace.unit === "decision") moveDecision(1);
  else moveRound(1);
  wait();
}

// A moment of the script: { move, words, seconds }.
function hold(moment) {
  begun = Infinity;
  moment.move();
  say(moment.words);
  timer = setTimeout(tick, 1000 * moment.seconds);
}

function say(text) {
  words = text;
  tell();
}

// How many times slower than measured rounds are played: at the pace that was chosen on average, each for as long as it took.
export function slowness() {
  const measured = state.rounds.reduce((sum, round) => sum + decodingSeconds(round), 0);
  return measured > 0 ? state.rounds.length / (pace.perSecond * measured) : 1;
}

// The round that the clock goes through now: the next one, if the selected one is shown to its end.
const coming = () => state.rounds[state.selected.round + Number(!isWithin())];
const isWithin = () => state.decision < lastDecision(state.selected.round);

function wait() {
  const next = coming();
  const seconds = pace.unit === "round" && next ? slowness() * decodingSeconds(next) : 1 / pace.perSecond;
  begun = performance.now();
  clearTimeout(timer);
  timer = setTimeout(tick, 1000 * seconds);
}

// Measured seconds since the last round that is shown whole; 0 where the clock stands.
export function underWay() {
  if (!isPlaying() || pace.unit !== "round" || !coming() || begun === Infinity) return 0;
  return Math.min((performance.now() - begun) / 1000 / slowness(), decodingSeconds(coming()));
}

// unit: "decision" or "round"; how many of them a second.
export function setPace(wanted) {
  pace = wanted;
  if (isPlaying()) play();
}

// Plays on from where the run stands; at its end, or where a finished run rests, from the start. moments: of a script
// that comes first; rest: called at the end, if nobody stopped it before.
export function play(moments = [], rest = () => {}) {
  if (state.rounds.length === 0) return;
  if (atEnd() || state.follow || !state.veiled) seek(0, 0);
  clearTimeout(timer);
  [run, script, ended] = [state.run, moments, rest];
  if (script.length > 0) hold(script.shift());
  else wait();
  tell();
}

export function pause() {
  clearTimeout(timer);
  [timer, script, words] = [null, [], ""];
  tell();
}

// Whatever the visitor does to move, the clock stops.
export const manually = (move) => {
  if (isPlaying()) pause();
  move();
};

const KEYS = {
  ArrowLeft: (shift) => (shift ? moveRound(-1) : moveDecision(-1)),
  ArrowRight: (shift) => (shift ? moveRound(1) : moveDecision(1)),
  Home: () => seek(0, 0),
  End: () => seek(Infinity),
};

function pressed(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
  const within = (selector) => event.target.closest?.(selector);
  if (state.rounds.length === 0 || within(USES_KEYS) || !onScreen()) return;
  if (event.key === " ") {
    if (within(USES_SPACE)) return;
    event.preventDefault();
    (isPlaying() ? pause : play)();
    return;
  }
  const move = KEYS[event.key];
  if (!move) return;
  event.preventDefault();
  manually(() => move(event.shiftKey));
}

// Behind another tab the keys are not ours.
const onScreen = () => document.getElementById("stepper")?.offsetParent !== null;

// Whoever touches what is shown wants to look at it.
const TOUCHED = ".story, .figure, .steps, #stepper input";

export function mountKeys() {
  document.addEventListener("keydown", pressed);
  document.addEventListener("pointerdown", ({ target }) => {
    if (isPlaying() && /** @type {Element} */ (target).closest(TOUCHED)) pause();
  });
  subscribe(() => {
    if (isPlaying() && (state.run !== run || (state.recorded && isActive()))) pause();
  });
}
