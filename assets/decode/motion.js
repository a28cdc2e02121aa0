// Animations: the draft enters its tree, accepted tokens fly into the text, a race is run. Each takes a
// quarter of a second. They are left out if the visitor prefers reduced motion or if rounds pass quickly.

import { state } from "../shared/store.js";
import { make, reducedMotion, zoomOf } from "../shared/view.js";
import { secondsPlayed as playedSeconds } from "./player.js";

const TOOK = 250; // milliseconds
let [lastSelected, last, enough] = [null, 0, false];

// Whether there is time to animate a new selection. There is none if the selection changed a quarter of a
// second ago or less, or if it skipped rounds because one update brought several.
export function timely(selected) {
  if (selected !== lastSelected) {
    const now = performance.now();
    const skipped = state.follow && lastSelected !== null && selected.round > lastSelected.round + 1;
    enough = !reducedMotion() && playedSeconds() === null && !skipped && now - last > TOOK;
    [lastSelected, last] = [selected, now];
  }
  return enough;
}

export function enter(element) {
  const outside = { transform: "translateX(-28px)", opacity: 0 };
  element.animate([outside, { transform: "none", opacity: 1 }], { duration: TOOK, easing: "ease-out" });
}

let running = []; // the animations of the current race

// Ends the race's animation at once, because another race is drawn.
export function settle() {
  for (const animation of running) animation.cancel();
  running = [];
}

// Animates a race: all bars start together and grow equally fast, so the shortest is complete first.
export function run(bars) {
  const widths = bars.map((bar) => Number(bar.getAttribute("width")));
  const longest = Math.max(...widths);
  running = bars.map((bar, i) =>
    bar.animate([{ transform: "scaleX(0)" }, { transform: "none" }], {
      duration: (2 * TOOK * widths[i]) / longest,
      easing: "linear",
    }),
  );
}

// Moves a copy of a word from one place on the screen to another.
export function fly(text, from, to) {
  if (from.width === 0 || to.width === 0) return;
  const copy = make("span", "flying", text);
  document.querySelector(".shell").append(copy);
  const zoom = zoomOf(copy);
  const place = ({ left, top }) => `translate(${left / zoom}px, ${top / zoom}px)`;
  const timing = { duration: TOOK, easing: "ease-in-out" };
  const flight = copy.animate([{ transform: place(from) }, { transform: place(to) }], timing);
  flight.onfinish = flight.oncancel = () => copy.remove();
}
