// Describes a drawing as a list for screen readers, as soon as the drawing has stopped changing.

import { subscribe } from "../shared/store.js";
import { fillRows, make, setText } from "../shared/view.js";
import { isPlaying, onPlayer } from "./player.js";

const STILL = 300; // milliseconds
const MOST = 64; // most entries, because nobody listens to more

// items(): the entries of the list as texts.
export function mountWalk(element, label, items) {
  const list = make("ol", "visually-hidden");
  list.setAttribute("aria-label", label);
  element.querySelector(".figure").after(list);
  let timer = 0;
  const write = () => fillRows(list, items().slice(0, MOST), () => make("li"), setText);
  const soon = () => {
    clearTimeout(timer);
    if (!isPlaying()) timer = setTimeout(write, STILL);
  };
  subscribe(soon);
  onPlayer(soon);
}
