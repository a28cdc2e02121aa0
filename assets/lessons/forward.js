// Lesson 0's measurement on the server. A button starts it; updates bring the place in line and then the times.

import { place } from "../shared/waiting.js";

const LATE = 10_000; // milliseconds that the answer may come after the server is through
const LOST = "The server did not answer. Try again.";
export const state = { waiting: false, words: "", found: null };
let listener = () => {};
let told = null; // id of the answer before

export const onForward = (act) => (listener = act);

function set(changes) {
  Object.assign(state, changes);
  listener();
}

let late; // the timer of the measurement whose stream has ended

export function begin() {
  clearTimeout(late);
  set({ waiting: true, words: "Measuring …", found: null });
}

// The server has ended the stream. Its last update may still be on its way.
export function ended() {
  clearTimeout(late);
  late = setTimeout(() => state.waiting && set({ waiting: false, words: LOST }), LATE);
}

export function receive(text) {
  if (!text || !state.waiting) return;
  const update = JSON.parse(text);
  if (update.place) return set({ words: `Waiting for the model: ${place(update.place)}.` });
  if (update.run === told) return;
  told = update.run;
  const found = update.phase === "done" ? update : null;
  set({ waiting: false, words: found ? "" : update.message, found });
}
