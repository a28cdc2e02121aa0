// Motion that tells who does what: the draft comes into its tree, what is kept goes from there into the text, a race
// is run. A quarter of a second each, and nothing where little motion is asked for or rounds go by quickly.

import { state } from "../shared/store.js";
import { passed as playedSeconds } from "./player.js";

const TOOK = 250; // milliseconds
const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
let [seen, last, enough] = [null, 0, false];

// Whether there is time to watch how a selection comes about: nobody moved on within the same quarter of a second, and
// no rounds were passed over, as they are where several arrive with one update.
export function timely(selected) {
  if (selected !== seen) {
    const now = performance.now();
    const passed = state.follow && seen !== null && selected.round > seen.round + 1;
    enough = !isCalm() && playedSeconds() === null && !passed && now - last > TOOK;
    [seen, last] = [selected, now];
  }
  return enough;
}

export function enter(element) {
  element.animate(
    [
      { transform: "translateX(-28px)", opacity: 0 },
      { transform: "none", opacity: 1 },
    ],
    { duration: TOOK, easing: "ease-out" },
  );
}

let running = []; // the bars of a race

// The bars stand at their length: another race is drawn.
export function settle() {
  for (const animation of running) animation.cancel();
  running = [];
}

// All runners start together and run as long: the winner is the one that gets to the finish line.
export function run(bars) {
  const times = { duration: 2 * TOOK, easing: "linear" };
  running = bars.map((element) => element.animate([{ transform: "scaleX(0)" }, { transform: "none" }], times));
}

// A copy of a word flies from one place on the screen to another.
export function fly(text, from, to) {
  if (from.width === 0 || to.width === 0) return;
  const copy = document.createElement("span");
  copy.className = "flying";
  copy.textContent = text;
  document.querySelector(".gradio-container").append(copy);
  const zoom = copy.currentCSSZoom ?? 1; // large screens and projectors enlarge the page's own pixels
  const place = ({ left, top }) => `translate(${left / zoom}px, ${top / zoom}px)`;
  const flight = copy.animate([{ transform: place(from) }, { transform: place(to) }], {
    duration: TOOK,
    easing: "ease-in-out",
  });
  flight.onfinish = flight.oncancel = () => copy.remove();
}
