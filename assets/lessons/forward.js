// Lesson 0's measurement on the server. A button starts it. Updates bring the place in the waiting line, then
// the times.

import { stream } from "../shared/server.js";
import { place } from "../shared/waiting.js";

export const state = { waiting: false, words: "", found: null };
let listener = () => {};

export const onForward = (act) => (listener = act);

function set(changes) {
  Object.assign(state, changes);
  listener();
}

export function begin() {
  set({ waiting: true, words: "Measuring …", found: null });
  stream(
    "measure_forward",
    {},
    {
      update(text) {
        const told = JSON.parse(text);
        if (told.place) set({ words: `Waiting for the model: ${place(told.place)}.` });
        else if (told.phase === "done") set({ waiting: false, words: "", found: told });
        else if (told.phase === "error") set({ waiting: false, words: told.message });
      },
      ended: (message) =>
        state.waiting && set({ waiting: false, words: message || "The server did not answer. Try again." }),
    },
  );
}
