// Back and forth through the rounds, by button, slider and arrow key.

import { select, state, subscribe } from "./store.js";
import { onFrame, setText } from "./view.js";

// Keys belong to whatever has the focus if it uses them itself.
const USES_KEYS = "input, textarea, select, [contenteditable], [role=slider], [role=listbox], [role=radio], [role=tab]";

export function mountStepper(element) {
  const find = (selector) => element.querySelector(selector);
  const [first, previous, next, live] = [".first", ".previous", ".next", ".live"].map(find);
  const slider = find("input");
  const output = find("output");
  const to = (round) => select(round);

  first.addEventListener("click", () => to(0));
  previous.addEventListener("click", () => to(state.selected.round - 1));
  next.addEventListener("click", () => to(state.selected.round + 1));
  live.addEventListener("click", () => to(state.rounds.length - 1));
  slider.addEventListener("input", () => to(Number(slider.value)));
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest?.(USES_KEYS)) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || state.rounds.length === 0) return;
    event.preventDefault();
    to(state.selected.round + step);
  });

  subscribe(
    onFrame(() => {
      const count = state.rounds.length;
      const { round } = state.selected;
      slider.max = String(Math.max(count - 1, 0));
      slider.value = String(Math.max(round, 0));
      slider.disabled = live.disabled = count === 0;
      first.disabled = previous.disabled = round <= 0;
      next.disabled = round >= count - 1;
      live.setAttribute("aria-pressed", String(state.follow));
      slider.setAttribute("aria-valuetext", `round ${round + 1} of ${count}`);
      setText(output, count === 0 ? "no rounds yet" : `round ${round + 1} of ${count}`);
    }),
  );
}
