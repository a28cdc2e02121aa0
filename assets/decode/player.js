// The clock that plays a run, and the keys that move through it.

import { atEnd, isActive, moveDecision, moveRound, seek, state, subscribe } from "../shared/store.js";

// Keys belong to whatever has the focus if it uses them itself.
const USES_KEYS =
  "input, textarea, select, [contenteditable], [role=slider], [role=listbox], [role=radio], [role=tab], [role=dialog]";
const USES_SPACE = "button, summary, a, label, [role=button]";

const listeners = new Set();
let timer = null;
let run = null;
let pace = { unit: "round", perSecond: 2.5 };

export const isPlaying = () => timer !== null;
export const onPlayer = (listener) => listeners.add(listener);

function tell() {
  for (const listener of listeners) listener();
}

function tick() {
  if (atEnd() || state.run !== run) return pause();
  if (pace.unit === "decision") moveDecision(1);
  else moveRound(1);
}

// unit: "decision" or "round"; how many of them a second.
export function setPace(wanted) {
  pace = wanted;
  if (isPlaying()) play();
}

// Plays on from where the run stands; at its end, or where a finished run rests, from the start.
export function play() {
  if (state.rounds.length === 0) return;
  if (atEnd() || state.follow) seek(0, 0);
  clearInterval(timer);
  run = state.run;
  timer = setInterval(tick, 1000 / pace.perSecond);
  tell();
}

export function pause() {
  clearInterval(timer);
  timer = null;
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

export function mountKeys() {
  document.addEventListener("keydown", pressed);
  subscribe(() => {
    if (isPlaying() && (state.run !== run || (state.recorded && isActive()))) pause();
  });
}
